/* Calls any model by its table and DLPack's tensors: host <library> <prefix> [<size> ...] -- <file> ...
   reads an input from each file, sizes are those that no shape tells, prints what the table says and
   what the outputs are, and writes them to <library>.<number>. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "any.h"

typedef struct {
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} DLTensor;

static const weft_table *table;

static void *function(void *library, const char *prefix, const char *name) {
    char symbol[256];
    snprintf(symbol, sizeof symbol, "%s_%s", prefix, name);
    void *found = dlsym(library, symbol);
    if (found == NULL) exit(20);
    return found;
}

static const char *text(uint32_t place) { return weft_text(table, place); }

static void print_tensor(const char *kind, const weft_tensor *tensor) {
    printf("%s %s %s %s code %d bits %d", kind, text(tensor->name), text(tensor->dtype),
           text(tensor->shape), tensor->code, tensor->bits);
    printf(tensor->bytes == WEFT_UNKNOWN ? "\n" : " bytes %" PRIu64 "\n", tensor->bytes);
}

static void print_table(void) {
    printf("weft %s ABI %u for %s, %s\n", text(table->version), table->abi_version,
           text(table->triple), text(table->prefix));
    for (uint32_t i = 0; i < table->level_count; i++) {
        const weft_level *level = weft_entry(table, table->levels, table->level_size, i);
        printf("level %s\n", text(level->name));
    }
    for (uint32_t i = 0; i < table->symbol_count + table->found_count; i++) {
        const weft_symbol *size = weft_size(table, i);
        printf("%s %s", size->is_found ? "found" : "size", text(size->name));
        if (size->most != INT64_MAX) printf(" %" PRId64 "..%" PRId64, size->least, size->most);
        if (size->input != WEFT_NONE) printf(" of input %u axis %u", size->input, size->axis);
        printf("\n");
    }
    for (uint32_t i = 0; i < table->input_count; i++) print_tensor("input", weft_input(table, i));
    for (uint32_t i = 0; i < table->output_count; i++) print_tensor("output", weft_output(table, i));
}

/* A tensor of the model, with the shape for these sizes and room for its elements. */
static DLTensor make(const weft_tensor *tensor, const int64_t *dims) {
    int64_t elements = 1;
    DLTensor made = {.device_type = 1, .ndim = (int32_t)tensor->rank, .code = tensor->code,
                     .bits = tensor->bits, .lanes = tensor->lanes};
    made.shape = calloc(tensor->rank + 1, sizeof *made.shape);
    if (tensor->flags & WEFT_IS_MADE) return made;
    for (uint32_t axis = 0; axis < tensor->rank; axis++)
        elements *= made.shape[axis] = weft_extent(table, tensor, axis, dims);
    made.data = aligned_alloc(64, ((uint64_t)elements * tensor->element_bytes + 64) / 64 * 64);
    return made;
}

static uint64_t bytes(const weft_tensor *tensor, const DLTensor *made) {
    uint64_t size = tensor->element_bytes;
    for (int axis = 0; axis < made->ndim; axis++) size *= (uint64_t)made->shape[axis];
    return size;
}

int main(int argc, char **argv) {
    int64_t dims[16] = {0};
    int next = 3;
    void *library = argc > 3 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (library == NULL) return 21;
    const weft_table *(*query)(void);
    *(void **)&query = function(library, argv[2], "query");
    table = query();
    if (table->size != sizeof *table || table->abi_version != WEFT_ABI_VERSION) return 22;
    if (table->options_size != sizeof(weft_options) || table->call_size != sizeof(weft_call)) return 23;
    print_table();
    for (int i = 0; strcmp(argv[next], "--") != 0; next++) dims[i++] = atoll(argv[next]);
    weft_context *(*create)(const weft_options *);
    int32_t (*run)(weft_context *, const weft_call *);
    const char *(*last_error)(const weft_context *);
    void (*destroy)(weft_context *), (*release)(weft_context *, void *);
    *(void **)&create = function(library, argv[2], "create");
    *(void **)&run = function(library, argv[2], "run_dlpack");
    *(void **)&last_error = function(library, argv[2], "last_error");
    *(void **)&destroy = function(library, argv[2], "destroy");
    *(void **)&release = function(library, argv[2], "release");
    DLTensor tensors[16];
    const void *inputs[8];
    void *outputs[8];
    for (uint32_t i = 0; i < table->input_count; i++) {
        const weft_tensor *tensor = weft_input(table, i);
        tensors[i] = make(tensor, dims);
        inputs[i] = &tensors[i];
        FILE *file = fopen(argv[++next], "rb");
        size_t size = (size_t)bytes(tensor, &tensors[i]);
        if (file == NULL || fread(tensors[i].data, 1, size, file) != size) return 24;
        fclose(file);
    }
    for (uint32_t i = 0; i < table->output_count; i++) {
        tensors[8 + i] = make(weft_output(table, i), dims);
        outputs[i] = &tensors[8 + i];
    }
    weft_context *context = create(NULL);
    weft_call call = {.size = sizeof call, .inputs = inputs, .outputs = outputs, .dims = dims};
    if (context == NULL || run(context, &call) != WEFT_OK) {
        printf("%s\n", last_error(context));
        return 25;
    }
    for (uint32_t i = 0; i < table->output_count; i++) {
        char path[256];
        DLTensor *tensor = &tensors[8 + i];
        snprintf(path, sizeof path, "%s.%u", argv[1], i);
        FILE *file = fopen(path, "wb");
        fwrite(tensor->data, 1, (size_t)bytes(weft_output(table, i), tensor), file);
        fclose(file);
        printf("gave");
        for (int axis = 0; axis < tensor->ndim; axis++) printf(" %" PRId64, tensor->shape[axis]);
        printf("\n");
        if (weft_output(table, i)->flags & WEFT_IS_MADE) release(context, tensor->data);
    }
    destroy(context);
    return 0;
}
