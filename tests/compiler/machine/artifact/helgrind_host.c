/* Runs the model `dense` through a parallel loop of POSIX threads: host <rows> <calls> <output> */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "libdense.h"

enum { THREADS = 3 };

typedef struct {
    void (*body)(void *argument, int64_t begin, int64_t end);
    void *argument;
    int64_t begin, end;
} part;

static void *run_part(void *given) {
    part *own = given;
    own->body(own->argument, own->begin, own->end);
    return NULL;
}

static void parallel_for(void *user, int64_t count,
                         void (*body)(void *argument, int64_t begin, int64_t end),
                         void *argument) {
    pthread_t threads[THREADS];
    part parts[THREADS];
    ++*(int *)user;
    for (int64_t i = 0; i < THREADS; i++) {
        parts[i] = (part){body, argument, count * i / THREADS, count * (i + 1) / THREADS};
        if (pthread_create(&threads[i], NULL, run_part, &parts[i]) != 0)
            exit(20);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 10;
    int64_t dims[] = {atoll(argv[1])};
    int loops = 0;
    weft_options options = {
        .size = sizeof options,
        .threads = THREADS,
        .parallel_for = parallel_for,
        .parallel_for_user = &loops,
    };
    weft_context *context = dense_create(&options);
    if (context == NULL)
        return 11;
    size_t rows = (size_t)dims[0];
    float *input = malloc(rows * 96 * sizeof *input), *output = malloc(rows * 80 * sizeof *output);
    for (size_t i = 0; i < rows * 96; i++)
        input[i] = (float)(i % 17) / 8;
    const void *inputs[] = {input};
    void *outputs[] = {output};
    uint64_t size = (dense_workspace_size(dims) + 63) / 64 * 64;
    void *workspace = aligned_alloc(64, size + 64);
    weft_call call = {
        .size = sizeof call,
        .inputs = inputs,
        .outputs = outputs,
        .dims = dims,
        .workspace = workspace,
        .workspace_size = size,
    };
    for (int i = 0; i < atoi(argv[2]); i++)
        if (dense_run(context, &call) != WEFT_OK)
            return 12;
    dense_destroy(context);
    FILE *file = fopen(argv[3], "wb");
    if (file == NULL || fwrite(output, 80 * sizeof *output, rows, file) != rows)
        return 13;
    fclose(file);
    free(input);
    free(output);
    free(workspace);
    printf("%d loops\n", loops);
    return 0;
}
