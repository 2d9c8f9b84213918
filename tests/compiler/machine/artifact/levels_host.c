/* Runs the model `dense` of one row on ones at a level: host <0, or 1 + the level> <output file> */
#include <stdio.h>
#include <stdlib.h>

#include "libdense.h"

int main(int argc, char **argv) {
    if (argc != 3)
        return 10;
    weft_options options = {.size = sizeof options, .threads = 2, .flags = (uint32_t)atoi(argv[1])};
    weft_context *context = dense_create(&options);
    if (context == NULL) {
        printf("%s\n", dense_last_error(NULL));
        return 11;
    }
    float input[96], output[80];
    for (int i = 0; i < 96; i++)
        input[i] = 1.0f;
    int64_t dims[] = {1};
    const void *inputs[] = {input};
    void *outputs[] = {output};
    uint64_t size = (dense_workspace_size(dims) + 63) / 64 * 64;
    weft_call call = {
        .size = sizeof call,
        .inputs = inputs,
        .outputs = outputs,
        .dims = dims,
        .workspace = aligned_alloc(64, size + 64),
        .workspace_size = size,
    };
    if (dense_run(context, &call) != WEFT_OK)
        return 12;
    printf("level %d\n", dense_level(context));
    dense_destroy(context);
    free(call.workspace);
    FILE *file = fopen(argv[2], "wb");
    if (file == NULL || fwrite(output, sizeof output, 1, file) != 1)
        return 13;
    fclose(file);
    return 0;
}
