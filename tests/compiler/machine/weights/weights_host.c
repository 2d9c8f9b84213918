/* Runs the model `dense` with weights that are not in its artifact:
   host <rows> <input file> <output file> <weights file> [<second logical tensor>] */
#include <stdio.h>
#include <stdlib.h>

#include "libdense.h"

static void *read_file(const char *path, uint64_t *size) {
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        exit(10);
    *size = (uint64_t)ftell(file);
    rewind(file);
    void *content = aligned_alloc(64, (*size + 63) / 64 * 64);
    if (content == NULL || fread(content, 1, *size, file) != *size)
        exit(11);
    fclose(file);
    return content;
}

int main(int argc, char **argv) {
    int64_t dims[] = {atoll(argv[1])};
    uint64_t ignored, size;
    const void *inputs[] = {read_file(argv[2], &ignored)};
    const void *table[dense_WEIGHT_COUNT];
    void *file = read_file(argv[4], &size);
#ifdef dense_PREPARED_BYTES
    if (argc != 6 || dense_LOGICAL_COUNT != 2)
        return 12;
    const void *logical[] = {file, read_file(argv[5], &ignored)};
    size = dense_PREPARED_BYTES;
    file = aligned_alloc(64, size);
    if (dense_prepare_weights(logical, NULL) != WEFT_NULL_POINTER)
        return 13;
    if (dense_prepare_weights(logical, file) != WEFT_OK)
        return 14;
#endif
    if (dense_bind_weights(file, size - 1, table) != WEFT_BAD_WEIGHTS)
        return 15;
    if (dense_bind_weights(file, size, table) != WEFT_OK)
        return 16;
    float *output = malloc((size_t)dims[0] * 80 * sizeof *output);
    void *outputs[] = {output};
    uint64_t bytes = dense_workspace_size(dims);
    weft_options options = {.size = sizeof options, .threads = 1};
    if (argc < 5 || dense_create(&options) != NULL) /* weights are missing */
        return 17;
    options.weights = table;
    weft_context *context = dense_create(&options);
    weft_call call = {
        .size = sizeof call,
        .inputs = inputs,
        .outputs = outputs,
        .dims = dims,
        .workspace = bytes ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL,
        .workspace_size = bytes,
    };
    if (context == NULL || dense_run(context, &call) != WEFT_OK)
        return 18;
    dense_destroy(context);
    FILE *results = fopen(argv[3], "wb");
    fwrite(output, sizeof *output, (size_t)dims[0] * 80, results);
    return fclose(results);
}
