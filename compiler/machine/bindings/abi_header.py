"""What the C headers of all models have in common: the structures of the run-time ABI
(docs/abi.md), and inline functions that read the table of `m_query`.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from weft.compiler.abi.constants import ABI_VERSION, WORKSPACE_ALIGNMENT, SpanNumber, Status
from weft.compiler.abi.structs import (
    CALL,
    COLLECTIVE,
    COMMUNICATION,
    DIM,
    LEVEL,
    OPTIONS,
    SPAN,
    STEP,
    SYMBOL,
    TABLE,
    TENSOR,
)
from weft.dialects.steps import Step

_TABLE_NUMBERS: Final = """\
/* What m_query gives: places are offsets in bytes from the start of weft_table, texts are UTF-8 and
   end in a zero, WEFT_UNKNOWN is what depends on sizes. */
#define WEFT_UNKNOWN UINT64_MAX
#define WEFT_NONE UINT32_MAX

#define WEFT_HAS_SELF_TEST 1 /* flags of weft_table */
#define WEFT_IS_MADE 1       /* flags of weft_tensor: an output that the call makes */

#define WEFT_EMBEDDED 0 /* weights_in */
#define WEFT_FILE 1
#define WEFT_CALLER 2
"""

_READERS: Final = """\
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
"""


def _macros(prefix: str, numbers: Iterable[IntEnum]) -> str:
    return "".join(f"#define {prefix}_{each.name} {each.value}\n" for each in numbers)


SHARED: Final = f"""\
#ifndef WEFT_ABI_VERSION
#define WEFT_ABI_VERSION {ABI_VERSION}
#define WEFT_WORKSPACE_ALIGNMENT {WORKSPACE_ALIGNMENT}

{_macros("WEFT", Status)}
typedef struct weft_context weft_context;

{COLLECTIVE.declaration}
{COMMUNICATION.declaration}
{OPTIONS.declaration}
{CALL.declaration}
{_macros("WEFT_SPAN", SpanNumber)}
{SPAN.declaration}
{_TABLE_NUMBERS}
{_macros("WEFT_STEP", Step)}
{TABLE.declaration}
{LEVEL.declaration}
{SYMBOL.declaration}
{TENSOR.declaration}
{DIM.declaration}
{STEP.declaration}
{_READERS}#elif WEFT_ABI_VERSION != {ABI_VERSION}
#error "headers of different versions of weft's ABI are included"
#endif
"""
