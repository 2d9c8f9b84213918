/* Runs a model from its artifact, and prints the most memory that it has had, in kB:
   host <library> <prefix> <threads> <calls> <file of an input> ... <size of each symbol> ... */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "any.h"

static void *function(void *library, const char *prefix, const char *name) {
    char symbol[256];
    snprintf(symbol, sizeof symbol, "%s_%s", prefix, name);
    void *found = dlsym(library, symbol);
    if (found == NULL) exit(20);
    return found;
}

static uint64_t bytes(const weft_table *table, const weft_tensor *tensor, const int64_t *dims) {
    uint64_t size = tensor->element_bytes;
    for (uint32_t axis = 0; axis < tensor->rank; axis++)
        size *= (uint64_t)weft_extent(table, tensor, axis, dims);
    return size;
}

static void *allocate(uint64_t size) {
    void *memory = aligned_alloc(64, (size + 64) / 64 * 64);
    if (memory == NULL) exit(21);
    return memory;
}

static long most_memory(void) {
    char line[256];
    long kilobytes = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "VmHWM: %ld", &kilobytes) == 1) break;
    return kilobytes;
}

int main(int argc, char **argv) {
    void *library = argc > 4 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (library == NULL) return 22;
    const weft_table *(*query)(void);
    weft_context *(*create)(const weft_options *);
    int32_t (*run)(weft_context *, const weft_call *);
    const char *(*last_error)(const weft_context *);
    uint64_t (*workspace_size)(const int64_t *);
    *(void **)&query = function(library, argv[2], "query");
    *(void **)&create = function(library, argv[2], "create");
    *(void **)&run = function(library, argv[2], "run");
    *(void **)&last_error = function(library, argv[2], "last_error");
    *(void **)&workspace_size = function(library, argv[2], "workspace_size");
    const weft_table *table = query();
    int rest = 5 + (int)table->input_count;
    if (table->abi_version != WEFT_ABI_VERSION || argc != rest + (int)table->symbol_count) return 23;
    int64_t *dims = allocate(sizeof *dims * (table->symbol_count + table->found_count + 1));
    for (uint32_t i = 0; i < table->symbol_count; i++) dims[i] = atoll(argv[rest + (int)i]);
    const void **inputs = allocate(sizeof *inputs * table->input_count);
    void **outputs = allocate(sizeof *outputs * table->output_count);
    for (uint32_t i = 0; i < table->input_count; i++) {
        uint64_t size = bytes(table, weft_input(table, i), dims);
        void *input = allocate(size);
        FILE *file = fopen(argv[5 + i], "rb");
        if (file == NULL || fread(input, 1, size, file) != size) return 24;
        fclose(file);
        inputs[i] = input;
    }
    for (uint32_t i = 0; i < table->output_count; i++)
        outputs[i] = allocate(bytes(table, weft_output(table, i), dims));
    weft_options options = {.size = sizeof options, .threads = (uint32_t)atoi(argv[3])};
    weft_context *context = create(&options);
    if (context == NULL) return 25;
    weft_call call = {.size = sizeof call, .inputs = inputs, .outputs = outputs, .dims = dims,
                      .workspace_size = workspace_size(dims)};
    call.workspace = allocate(call.workspace_size);
    for (int i = 0; i < atoi(argv[4]); i++)
        if (run(context, &call) != WEFT_OK) {
            fprintf(stderr, "%s\n", last_error(context));
            return 26;
        }
    printf("%ld\n", most_memory());
    return 0;
}
