"""What the C headers of all models have in common: the structures of the run-time ABI
(docs/abi.md), and inline functions that read the table of `m_query`.
"""

from typing import Final

SHARED: Final = """\
#ifndef WEFT_ABI_VERSION
#define WEFT_ABI_VERSION 1
#define WEFT_WORKSPACE_ALIGNMENT 64

#define WEFT_OK 0
#define WEFT_BAD_CALL 1
#define WEFT_NULL_POINTER 2
#define WEFT_BAD_DIMS 3
#define WEFT_BAD_WORKSPACE 4
#define WEFT_OUT_OF_MEMORY 5
#define WEFT_BAD_VALUE 6
#define WEFT_BAD_WEIGHTS 7
#define WEFT_BAD_TENSOR 8
#define WEFT_BAD_RESULT 9
#define WEFT_CANCELLED 10

typedef struct weft_context weft_context;

typedef struct {
  uint64_t size;    /* sizeof(weft_options) */
  uint32_t threads; /* that compute, the caller's among them; 0: as many as there are processors */
  uint32_t flags;   /* 0; or 1 + the number of the level to run, for tests */
  void (*parallel_for)(void *user, int64_t count,
                       void (*body)(void *argument, int64_t begin, int64_t end), void *argument);
  void *parallel_for_user;
  void *(*allocate)(void *user, uint64_t bytes, uint64_t alignment);
  void (*release)(void *user, void *memory);
  void *allocator_user;
  const void *const *weights; /* NULL: those inside the artifact */
  /* what the program prints, or NULL: text with places such as {float32,2,} for values */
  void (*print)(void *user, const char *text, const void *const *values, const int64_t *dims);
  void *print_user;
  uint64_t reserved[2]; /* 0 */
} weft_options;

typedef struct {
  uint64_t size; /* sizeof(weft_call) */
  const void *const *inputs;
  void **outputs; /* NULL, or where the model made them, for those of sizes that it finds */
  int64_t *dims;  /* the free sizes; behind them a run writes those that it finds */
  void *workspace; /* aligned to WEFT_WORKSPACE_ALIGNMENT */
  uint64_t workspace_size;
  uint64_t reserved[2]; /* 0 */
} weft_call;

/* What m_query gives: places are offsets in bytes from the start of weft_table, texts are UTF-8 and
   end in a zero, WEFT_UNKNOWN is what depends on sizes. */
#define WEFT_UNKNOWN UINT64_MAX
#define WEFT_NONE UINT32_MAX

#define WEFT_HAS_SELF_TEST 1 /* flags of weft_table */
#define WEFT_IS_MADE 1       /* flags of weft_tensor: an output that the call makes */

#define WEFT_EMBEDDED 0 /* weights_in */
#define WEFT_FILE 1
#define WEFT_CALLER 2

#define WEFT_STEP_END 0
#define WEFT_STEP_NUMBER 1
#define WEFT_STEP_SYMBOL 2
#define WEFT_STEP_ADD 3
#define WEFT_STEP_SUB 4
#define WEFT_STEP_MUL 5
#define WEFT_STEP_MIN 6
#define WEFT_STEP_MAX 7
#define WEFT_STEP_FLOORDIV 8
#define WEFT_STEP_MOD 9

typedef struct {
  uint64_t size;  /* sizeof(weft_table) */
  uint64_t bytes; /* with all that it has places of */
  uint32_t abi_version;
  uint32_t flags;
  uint32_t tensor_size; /* bytes from one entry to the next */
  uint32_t dim_size;
  uint32_t symbol_size;
  uint32_t level_size;
  uint32_t prefix; /* texts */
  uint32_t version;
  uint32_t triple;
  uint32_t cpu;
  uint32_t features; /* that the processor needs, with spaces between */
  uint32_t levels;   /* weft_level */
  uint32_t level_count;
  uint32_t symbols; /* weft_symbol: the free sizes, then those that a call finds */
  uint32_t symbol_count;
  uint32_t found_count;
  uint32_t inputs; /* weft_tensor */
  uint32_t input_count;
  uint32_t outputs;
  uint32_t output_count;
  uint32_t logical; /* weights that m_prepare_weights takes */
  uint32_t logical_count;
  uint32_t weights_in;
  uint32_t weight_count; /* pointers in weights of weft_options */
  uint64_t weight_bytes;
  uint64_t prepared_bytes;  /* that m_prepare_weights writes */
  uint64_t workspace_bytes; /* or WEFT_UNKNOWN: ask m_workspace_size */
  uint32_t workspace_alignment;
  uint32_t options_size; /* sizeof(weft_options) */
  uint32_t call_size;    /* sizeof(weft_call) */
  uint32_t stack_depth;  /* that the steps of a dim need at most */
  uint8_t metadata_sha256[32];
  uint8_t weights_sha256[32]; /* of the file of weights; 0 without one */
  uint64_t reserved[5];
} weft_table;

typedef struct {
  uint32_t name;
  uint32_t features;
} weft_level;

typedef struct {
  uint32_t name;
  uint32_t is_found;
  uint32_t input; /* the first with a dim that is this size alone, or WEFT_NONE */
  uint32_t axis;
  int64_t least;
  int64_t most;
} weft_symbol;

typedef struct {
  uint32_t name;
  uint32_t dtype; /* NumPy's name */
  uint8_t code;   /* DLPack's type: code, bits, lanes */
  uint8_t bits;
  uint16_t lanes;
  uint32_t element_bytes;
  uint32_t rank;
  uint32_t dims;  /* weft_dim */
  uint32_t shape; /* text, as messages have it */
  uint32_t flags;
  uint64_t bytes; /* or WEFT_UNKNOWN */
  uint32_t alignment;
  uint32_t donor; /* the input whose place this output may take, or WEFT_NONE */
  uint32_t shown_name; /* text: as messages have it, without codes that terminals obey */
  uint32_t reserved_word;
  uint64_t reserved;
} weft_tensor;

typedef struct {
  int64_t size;      /* or -1: what the steps give */
  uint32_t text;     /* the expression */
  uint32_t symbol;   /* where it is one alone, or WEFT_NONE */
  uint32_t steps;    /* weft_step */
  uint32_t step_count;
  uint64_t reserved;
} weft_dim;

typedef struct {
  int64_t operation; /* WEFT_STEP_... */
  int64_t operand;   /* the number, or the place of the symbol */
} weft_step;

/* The entry of a number in an array of the table, such as table->inputs, table->tensor_size. */
static inline const void *weft_entry(const weft_table *table, uint32_t array, uint32_t size,
                                     uint32_t number) {
  return (const char *)table + array + (uint64_t)size * number;
}

static inline const char *weft_text(const weft_table *table, uint32_t place) {
  return (const char *)table + place;
}

static inline const weft_tensor *weft_input(const weft_table *table, uint32_t number) {
  return (const weft_tensor *)weft_entry(table, table->inputs, table->tensor_size, number);
}

static inline const weft_tensor *weft_output(const weft_table *table, uint32_t number) {
  return (const weft_tensor *)weft_entry(table, table->outputs, table->tensor_size, number);
}

static inline const weft_symbol *weft_size(const weft_table *table, uint32_t number) {
  return (const weft_symbol *)weft_entry(table, table->symbols, table->symbol_size, number);
}

/* The extent of an axis for these values of the symbols; below 0 where there is none, as where 62
   bits do not hold what it is computed of. */
static inline int64_t weft_extent(const weft_table *table, const weft_tensor *tensor, uint32_t axis,
                                  const int64_t *dims) {
  const weft_dim *dim = (const weft_dim *)weft_entry(table, tensor->dims, table->dim_size, axis);
  const weft_step *step = (const weft_step *)weft_entry(table, dim->steps, 0, 0);
  const int64_t most = INT64_C(1) << 62;
  int64_t stack[32];
  int top = -1;
  if (dim->size >= 0) return dim->size;
  if (table->stack_depth > 32) return -1;
  for (; step->operation != WEFT_STEP_END; step++) {
    int64_t a, b;
    if (step->operation == WEFT_STEP_NUMBER) {
      stack[++top] = step->operand;
      continue;
    }
    if (step->operation == WEFT_STEP_SYMBOL) {
      stack[++top] = dims[step->operand];
      continue;
    }
    b = stack[top--];
    a = stack[top];
    if (step->operation >= WEFT_STEP_FLOORDIV && b <= 0) return -1;
    if (a >= most || a <= -most || b >= most || b <= -most) return -1;
    if (step->operation == WEFT_STEP_MUL && a != 0) {
      const int64_t factor = most / (a < 0 ? -a : a);
      if (b > factor || b < -factor) return -1;
    }
    switch (step->operation) {
      case WEFT_STEP_ADD: stack[top] = a + b; break;
      case WEFT_STEP_SUB: stack[top] = a - b; break;
      case WEFT_STEP_MUL: stack[top] = a * b; break;
      case WEFT_STEP_MIN: stack[top] = a < b ? a : b; break;
      case WEFT_STEP_MAX: stack[top] = a > b ? a : b; break;
      case WEFT_STEP_FLOORDIV: stack[top] = a / b - (a % b < 0); break;
      default: stack[top] = a % b + (a % b < 0 ? b : 0);
    }
  }
  return stack[0];
}

/* The number of elements for these values of the symbols; -1 where there is none, or more than
   2^47, with 1 for extents of 0. */
static inline int64_t weft_elements(const weft_table *table, const weft_tensor *tensor,
                                    const int64_t *dims) {
  const int64_t most = INT64_C(1) << 47;
  int64_t count = 1;
  int is_empty = 0;
  uint32_t axis;
  for (axis = 0; axis < tensor->rank; axis++) {
    int64_t extent = weft_extent(table, tensor, axis, dims);
    if (extent == 0) {
      is_empty = 1;
      continue;
    }
    if (extent < 0 || count > most / extent) return -1;
    count *= extent;
  }
  return is_empty ? 0 : count;
}
#elif WEFT_ABI_VERSION != 1
#error "headers of different versions of weft's ABI are included"
#endif
"""
