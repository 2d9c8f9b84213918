/* Runs the model `dense` of an artifact: host <rows> <threads> <input file> <output file> */
#include <stdio.h>
#include <stdlib.h>

#include "libdense.h"

static void *read_floats(const char *path, size_t count) {
    float *values = malloc(count * sizeof *values);
    FILE *file = fopen(path, "rb");
    if (values == NULL || file == NULL || fread(values, sizeof *values, count, file) != count)
        exit(10);
    fclose(file);
    return values;
}

int main(int argc, char **argv) {
    if (argc != 5 || dense_abi_version() != WEFT_ABI_VERSION)
        return 11;
    int64_t dims[] = {atoll(argv[1])};
    size_t rows = (size_t)dims[0];
    const void *inputs[] = {read_floats(argv[3], rows * 96)};
    float *output = malloc(rows * 80 * sizeof *output);
    void *outputs[] = {output};
    uint64_t size = dense_workspace_size(dims);
    void *workspace = size ? aligned_alloc(64, (size + 63) / 64 * 64) : NULL;
    weft_options options = {.size = sizeof options, .threads = (uint32_t)atoi(argv[2])};
    weft_context *context = dense_create(&options);
    if (context == NULL || output == NULL)
        return 12;
    weft_call call = {
        .size = sizeof call,
        .inputs = inputs,
        .outputs = outputs,
        .dims = dims,
        .workspace = workspace,
        .workspace_size = size,
    };
    if (dense_run(context, &call) != WEFT_OK) {
        fprintf(stderr, "%s\n", dense_last_error(context));
        return 13;
    }
    dense_destroy(context);
    FILE *file = fopen(argv[4], "wb");
    if (file == NULL || fwrite(output, sizeof *output, rows * 80, file) != rows * 80)
        return 14;
    fclose(file);
    return 0;
}
