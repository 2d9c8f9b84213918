/* Runs a model `net` of one input and one output, both of constant size, from its artifact:
   host <threads> <input file> <output file> */
#include <stdio.h>
#include <stdlib.h>

#include "libnet.h"

static void *allocate(uint64_t size) {
    void *memory = aligned_alloc(64, (size + 64) / 64 * 64);
    if (memory == NULL)
        exit(10);
    return memory;
}

int main(int argc, char **argv) {
    if (argc != 4 || net_abi_version() != WEFT_ABI_VERSION)
        return 11;
    void *input = allocate(net_INPUT_0_BYTES), *output = allocate(net_OUTPUT_0_BYTES);
    FILE *file = fopen(argv[2], "rb");
    if (file == NULL || fread(input, net_INPUT_0_BYTES, 1, file) != 1)
        return 12;
    fclose(file);
    weft_options options = {.size = sizeof options, .threads = (uint32_t)atoi(argv[1])};
    weft_context *context = net_create(&options);
    if (context == NULL)
        return 13;
    const void *inputs[] = {input};
    void *outputs[] = {output};
    weft_call call = {
        .size = sizeof call,
        .inputs = inputs,
        .outputs = outputs,
        .workspace = allocate(net_WORKSPACE_SIZE),
        .workspace_size = net_WORKSPACE_SIZE,
    };
    if (net_run(context, &call) != WEFT_OK) {
        fprintf(stderr, "%s\n", net_last_error(context));
        return 14;
    }
    net_destroy(context);
    file = fopen(argv[3], "wb");
    if (file == NULL || fwrite(output, net_OUTPUT_0_BYTES, 1, file) != 1)
        return 15;
    return fclose(file);
}
