/* Runs the model `net` with the weights of a state dict, one file `<name>.bin` each:
   host <folder of weights> <rows> <input file> <output file> */
#include <stdio.h>
#include <stdlib.h>

#include "libnet.h"

static void read_file(const char *path, void *content, size_t size) {
    FILE *file = fopen(path, "rb");
    if (file == NULL || fread(content, 1, size, file) != size || fgetc(file) != EOF)
        exit(10);
    fclose(file);
}

static void *weight(const char *folder, const char *name, size_t size) {
    char path[4096];
    void *content = malloc(size);
    snprintf(path, sizeof path, "%s/%s.bin", folder, name);
    read_file(path, content, size);
    return content;
}

int main(int argc, char **argv) {
    if (argc != 5 || net_LOGICAL_COUNT != 3)
        return 11;
    const void *logical[] = {
        weight(argv[1], net_LOGICAL_0_NAME, net_LOGICAL_0_BYTES),
        weight(argv[1], net_LOGICAL_1_NAME, net_LOGICAL_1_BYTES),
        weight(argv[1], net_LOGICAL_2_NAME, net_LOGICAL_2_BYTES),
    };
    const void *table[net_WEIGHT_COUNT];
    void *prepared = aligned_alloc(64, (net_PREPARED_BYTES + 63) / 64 * 64);
    if (net_prepare_weights(logical, prepared) != WEFT_OK)
        return 12;
    if (net_bind_weights(prepared, net_PREPARED_BYTES, table) != WEFT_OK)
        return 13;
    int64_t rows = atoll(argv[2]);
    float *x = malloc(rows * 3 * 6 * 6 * sizeof *x), *y = malloc(rows * 40 * sizeof *y);
    read_file(argv[3], x, rows * 3 * 6 * 6 * sizeof *x);
    uint64_t bytes = net_workspace_size(&rows);
    void *workspace = aligned_alloc(64, (bytes + 64) / 64 * 64);
    weft_options options = {.size = sizeof options, .threads = 1, .weights = table};
    weft_context *context = net_create(&options);
    if (context == NULL || net_infer(context, rows, x, y, workspace, bytes) != WEFT_OK)
        return 14;
    net_destroy(context);
    FILE *results = fopen(argv[4], "wb");
    fwrite(y, sizeof *y, rows * 40, results);
    return fclose(results);
}
