"""An example in C, and the types that elements have there."""

from __future__ import annotations

from string import Template
from typing import Final

from weft.compiler.machine.artifact.model_table import shape_text
from weft.compiler.machine.artifact.signature import TensorSpec
from weft.compiler.machine.bindings.escapes import c_literal
from weft.compiler.machine.bindings.library import INTEGERS, Library

C_TYPES: Final = {
    "bool": "uint8_t", "float16": "uint16_t", "bfloat16": "uint16_t", "float32": "float",
    "float64": "double", **{name: f"{name}_t" for name in INTEGERS},
}  # fmt: skip
"""The types of elements; all others are `uint8_t`."""
_PRINTED: Final = 5

_EXAMPLE: Final = Template("""\
// A package of Go beside this file has to leave it out.
//go:build ignore

/* Runs $prefix once on zeros: cc ${stem}_example.c -L. -l$stem -Wl,-rpath,. && ./a.out */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib$stem.h"

/* Zeroed memory for so many elements of so many bytes, aligned as workspaces have to be. */
static void *make(int64_t count, size_t bytes) {
  size_t size;
  char *memory;
  if (count < 0) {
    fprintf(stderr, "no tensors have these sizes\\n");
    exit(1);
  }
  size = ((size_t)count * bytes + 64) / 64 * 64;
  memory = aligned_alloc(WEFT_WORKSPACE_ALIGNMENT, size);
  if (memory == NULL) exit(1);
  for (size_t i = 0; i < size; i++) memory[i] = 0;
  return memory;
}

int main(void) {
  const weft_table *table = ${prefix}_query();
$dims  weft_options options = {.size = sizeof options};
  weft_context *context = ${prefix}_create(&options);
  if (context == NULL) {
    fprintf(stderr, "%s\\n", ${prefix}_last_error(NULL));
    return 1;
  }
$tensors  uint64_t size = ${prefix}_workspace_size(dims);
  if (size == UINT64_MAX) return 1;
  weft_call call = {
    .size = sizeof call,
    .inputs = inputs,
    .outputs = outputs,
    .dims = dims,
    .workspace = make((int64_t)size, 1),
    .workspace_size = size,
  };
  if (${prefix}_run(context, &call) != WEFT_OK) {
    fprintf(stderr, "%s\\n", ${prefix}_last_error(context));
    return 1;
  }
$shown  ${prefix}_destroy(context);
  return 0;
}
""")


def example_c(library: Library) -> str:
    """A C program that runs the model once."""
    signature = library.signature
    names = (*signature.symbols, *signature.found)
    sizes = ", ".join([*("1" for _ in signature.symbols), *("0" for _ in signature.found)]) or "0"
    dims = f"  int64_t dims[] = {{{sizes}}}; /* {', '.join(map(c_literal, names)) or 'none'} */\n"
    tables = [
        _table("input", "const void *", signature.inputs, frozenset()),
        _table("output", "void *", signature.outputs, signature.made),
    ]
    shown = [
        _shown(library.prefix, number, spec, is_made=number in signature.made)
        for number, spec in enumerate(signature.outputs)
    ]
    return _EXAMPLE.substitute(
        prefix=library.prefix, stem=library.stem, dims=dims, tensors="".join(tables),
        shown="".join(shown),
    )  # fmt: skip


def _table(side: str, pointer: str, specs: tuple[TensorSpec, ...], made: frozenset[int]) -> str:
    """The memory of the inputs or the outputs, and the table of their addresses."""
    lines: list[str] = []
    for number, spec in enumerate(specs):
        name = f"{side}{number}"
        size = f"weft_elements(table, weft_{side}(table, {number}), dims), sizeof *{name}"
        memory = "NULL" if number in made else f"make({size})"
        lines.append(f"  {_type(spec)} *{name} = {memory}; /* {_comment(spec)} */\n")
    addresses = ", ".join(f"{side}{number}" for number in range(len(specs))) or "NULL"
    return "".join(lines) + f"  {pointer}{side}s[] = {{{addresses}}};\n"


def _shown(prefix: str, number: int, spec: TensorSpec, *, is_made: bool) -> str:
    """Prints the first elements of an output, and gives back what the call made."""
    name = f"output{number}"
    taken = f"  {name} = outputs[{number}];\n" if is_made else ""
    given = f"  {prefix}_release(context, {name});\n" if is_made else ""
    count = f"weft_elements(table, weft_output(table, {number}), dims)"
    return (
        f"{taken}  for (int64_t i = 0; i < {_PRINTED} && i < {count}; i++)\n"
        f'    printf("output {number}[%" PRId64 "] = %g\\n", i, (double){name}[i]);\n{given}'
    )


def _type(spec: TensorSpec) -> str:
    return C_TYPES.get(spec.dtype, "uint8_t")


def _comment(spec: TensorSpec) -> str:
    return f"{c_literal(spec.name)}: {spec.dtype} {c_literal(shape_text(spec.dims))}"
