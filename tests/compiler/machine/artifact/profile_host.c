/* Profiles the model `m` of an artifact: host <threads> <own loops> <n> <values of x>...
   Prints a line for each span: thread, number, name, nanoseconds of its begin and end; then "run",
   for one more call without a profile. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "libm.h"

static void print_span(void *user, const weft_span *span) {
    fprintf(user, "%" PRIu64 " %" PRId32 " %s %" PRIu64 " %" PRIu64 "\n", span->thread,
            span->number, span->name, span->begin, span->end);
    if (span->size != sizeof *span || span->reserved != 0)
        exit(20);
}

static void one_by_one(void *user, int64_t count, void (*body)(void *, int64_t, int64_t),
                       void *argument) {
    (void)user;
    for (int64_t number = count - 1; number >= 0; number--)
        body(argument, number, number + 1);
}

int main(int argc, char **argv) {
    if (argc != 5)
        return 11;
    size_t bytes = m_INPUT_0_BYTES;
    float *x = malloc(bytes), *y = malloc(m_OUTPUT_0_BYTES);
    for (size_t i = 0; i < m_INPUT_0_ELEMENTS; i++)
        x[i] = (float)atof(argv[4]);
    int64_t steps = atoll(argv[3]);
    const void *inputs[] = {x, &steps};
    void *outputs[] = {y};
    int64_t dims[1] = {0};
    uint64_t size = m_workspace_size(dims);
    weft_options options = {.size = sizeof options, .threads = (uint32_t)atoi(argv[1])};
    if (atoi(argv[2]))
        options.parallel_for = one_by_one;
    weft_context *context = m_create(&options);
    weft_call call = {
        .size = sizeof call,
        .inputs = inputs,
        .outputs = outputs,
        .dims = dims,
        .workspace = aligned_alloc(64, (size + 127) / 64 * 64),
        .workspace_size = size,
    };
    m_set_profile(context, print_span, stdout);
    if (m_run(context, &call) != WEFT_OK)
        return 12;
    m_set_profile(context, NULL, NULL);
    printf("run\n");
    if (m_run(context, &call) != WEFT_OK)
        return 13;
    m_destroy(context);
    return 0;
}
