/* Two models, `m` and `n`, that one pool of threads computes: host <threads> <callers> <value of x>
   Each caller calls a context of its own, of either model, many times. Prints the threads of the
   process besides the callers, and the outputs of both models for one context without the pool. */
#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libm.h"
#include "libn.h"

enum { CALLS = 40, MOST_CALLERS = 16 };

typedef int32_t run_function(weft_context *, const weft_call *);
typedef struct {
    weft_context *context;
    run_function *run;
    float *x, *y;
} caller;

static int32_t run_once(const caller *own) {
    const void *inputs[] = {own->x, own->x};
    void *outputs[] = {own->y};
    int64_t dims[1] = {0};
    uint64_t size = m_workspace_size(dims) + n_workspace_size(dims);
    void *workspace = aligned_alloc(64, (size + 127) / 64 * 64);
    weft_call call = {.size = sizeof call, .inputs = inputs, .outputs = outputs, .dims = dims,
                      .workspace = workspace, .workspace_size = size};
    int32_t status = own->run(own->context, &call);
    free(workspace);
    return status;
}

static void *run_often(void *argument) {
    for (int i = 0; i < CALLS; i++)
        if (run_once(argument) != WEFT_OK)
            exit(12);
    return NULL;
}

static int threads_of_process(void) {
    DIR *folder = opendir("/proc/self/task");
    int count = -2; /* . and .. */
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static caller make(weft_context *context, run_function *run, float value) {
    caller made = {context, run, malloc(m_INPUT_0_BYTES), malloc(m_OUTPUT_0_BYTES)};
    for (size_t i = 0; i < m_INPUT_0_ELEMENTS; i++)
        made.x[i] = value * (float)(i % 13);
    return made;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 11;
    int threads = atoi(argv[1]), callers = atoi(argv[2]);
    float value = (float)atof(argv[3]);
    weft_options options = {.size = sizeof options, .threads = (uint32_t)threads};
    weft_context *pool = m_create_pool(&options);
    options.parallel_for = m_parallel_for;
    options.parallel_for_user = pool;
    caller all[MOST_CALLERS], alone[2];
    pthread_t started[MOST_CALLERS];
    for (int i = 0; i < callers; i++)
        all[i] = i % 2 ? make(n_create(&options), n_run, value) : make(m_create(&options), m_run, value);
    printf("%d\n", threads_of_process());
    for (int i = 0; i < callers; i++)
        pthread_create(&started[i], NULL, run_often, &all[i]);
    for (int i = 0; i < callers; i++)
        pthread_join(started[i], NULL);
    weft_options one = {.size = sizeof one, .threads = 1};
    alone[0] = make(m_create(&one), m_run, value);
    alone[1] = make(n_create(&one), n_run, value);
    if (run_once(&alone[0]) != WEFT_OK || run_once(&alone[1]) != WEFT_OK)
        return 13;
    for (int i = 0; i < callers; i++)
        if (memcmp(all[i].y, alone[i % 2].y, m_OUTPUT_0_BYTES))
            return 14;
    for (int i = 0; i < callers; i++)
        (i % 2 ? n_destroy : m_destroy)(all[i].context);
    m_destroy(pool);
    printf("%d\n", threads_of_process());
    return 0;
}
