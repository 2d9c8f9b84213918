"""A package of Go, through cgo."""

from __future__ import annotations

from collections.abc import Iterable
from string import Template
from typing import Final

from weft.compiler.machine.artifact.model_table import described
from weft.compiler.machine.artifact.signature import TensorSpec
from weft.compiler.machine.bindings.escapes import go_literal
from weft.compiler.machine.bindings.library import INTEGERS, Library

LEAST_VERSION: Final = "1.18"

_TYPES: Final = {
    "bool": "uint8", "float16": "uint16", "bfloat16": "uint16", "float32": "float32",
    "float64": "float64", **{name: name for name in INTEGERS},
}  # fmt: skip
"""The types of elements; all others are `uint8`."""

_PACKAGE: Final = Template("""\
//go:build go$least

// Package $prefix is a model compiled by weft. Its files lie beside lib$stem.so and lib$stem.h. It
// requires Go $least or later.
package $prefix

/*
#cgo CFLAGS: -I$${SRCDIR}
#cgo LDFLAGS: -L$${SRCDIR} -l$stem -Wl,-rpath,$${SRCDIR}
#include <stdlib.h>
#include "lib$stem.h"

static weft_context *weft_make(uint32_t threads) {
  weft_options options = {.size = sizeof options, .threads = threads};
  return ${prefix}_create(&options);
}

static const weft_tensor *weft_found(int is_output, uint32_t number) {
  const weft_table *table = ${prefix}_query();
  if (number >= (is_output ? table->output_count : table->input_count)) return NULL;
  return is_output ? weft_output(table, number) : weft_input(table, number);
}

static int64_t weft_count(int is_output, uint32_t number, const int64_t *dims) {
  return weft_elements(${prefix}_query(), weft_found(is_output, number), dims);
}

static int64_t weft_tensor_count(int is_output) {
  const weft_table *table = ${prefix}_query();
  return is_output ? table->output_count : table->input_count;
}

// One of the texts of a tensor: its name, its type, its shape.
static const char *weft_described(int is_output, uint32_t number, int part) {
  const weft_tensor *tensor = weft_found(is_output, number);
  return weft_text(${prefix}_query(),
                   part == 0 ? tensor->name : part == 1 ? tensor->dtype : tensor->shape);
}

static int32_t weft_call_once(weft_context *context, int64_t *dims, void **made$c_parameters) {
  const void *inputs[] = {$c_inputs};
  void *outputs[] = {$c_outputs};
  uint64_t size = ${prefix}_workspace_size(dims);
  // Where there is none for these sizes, or no memory for it, the call says why.
  void *workspace = size > UINT64_MAX - 128 ? NULL : aligned_alloc(64, (size + 64) / 64 * 64);
  weft_call call = {.size = sizeof call, .inputs = inputs, .outputs = outputs, .dims = dims,
                    .workspace = workspace, .workspace_size = workspace == NULL ? 0 : size};
  int32_t status = ${prefix}_run(context, &call);
  free(workspace);
  (void)made;
$c_made  return status;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"
)

// Inputs and Outputs are what the library has to take and give: name, type and shape.
var (
	Inputs  = []string{$input_texts}
	Outputs = []string{$output_texts}
)

// Sizes has the names of the sizes that Run takes; the last $found of them are found by a call.
var Sizes = []string{$sizes}

// Model is a loaded model; several goroutines may use it at once.
type Model struct{ context *C.weft_context }

// New makes a model whose calls use so many threads; 0: one for each processor.
func New(threads uint32) (*Model, error) {
	for isOutput, tensors := range [][]string{Inputs, Outputs} {
		found := describe(C.int(isOutput))
		if fmt.Sprintf("%q", found) != fmt.Sprintf("%q", tensors) {
			return nil, fmt.Errorf("$prefix requires a library of %q, got %q", tensors, found)
		}
	}
	// The reason of a failure is told to the thread that it happened in.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	context := C.weft_make(C.uint32_t(threads))
	if context == nil {
		return nil, errors.New(C.GoString(C.${prefix}_last_error(nil)))
	}
	return &Model{context}, nil
}

// Close ends the model, which no call may use then.
func (m *Model) Close() {
	C.${prefix}_destroy(m.context)
	m.context = nil
}

// Run is one evaluation into outputs of the model's sizes; those whose sizes a call finds are made
// by it. Sizes are named in Sizes: the last $found are written.
func (m *Model) Run(${parameters}sizes []int64) error {
	if len(sizes) != len(Sizes) {
		return fmt.Errorf("$prefix requires the sizes %q, got %d", Sizes, len(sizes))
	}
	// cgo takes no pointer to what a slice of no elements has.
	dims := append(append([]int64{}, sizes...), 0)
$checks	made := [1 + $made_count]unsafe.Pointer{}
	status := C.weft_call_once(m.context, (*C.int64_t)(unsafe.Pointer(&dims[0])), &made[0]$pointers)
	if status != 0 {
		return errors.New(C.GoString(C.${prefix}_last_error(m.context)))
	}
$taken	copy(sizes, dims)
	return nil
}

func describe(isOutput C.int) []string {
	found := []string{}
	for n := C.uint32_t(0); C.int64_t(n) < C.weft_tensor_count(isOutput); n++ {
		text := func(part C.int) string { return C.GoString(C.weft_described(isOutput, n, part)) }
		found = append(found, text(0)+" "+text(1)+" "+text(2))
	}
	return found
}

// count is the number of elements of a tensor for these sizes.
func count(isOutput C.int, n C.uint32_t, dims []int64) (int, error) {
	expected := C.weft_count(isOutput, n, (*C.int64_t)(unsafe.Pointer(&dims[0])))
	if expected < 0 {
		return 0, fmt.Errorf("$prefix requires sizes that its tensors can have, got %d", dims)
	}
	return int(expected), nil
}

// check says whether a slice has the elements that its tensor has for these sizes.
func check(isOutput C.int, n C.uint32_t, dims []int64, got int) error {
	expected, err := count(isOutput, n, dims)
	if err == nil && got != expected {
		name := [][]string{Inputs, Outputs}[isOutput][n]
		err = fmt.Errorf("$prefix requires %d elements of %q, got %d", expected, name, got)
	}
	return err
}

// none is where slices of no elements lie, as a call follows no NULL.
var none [8]byte

func pointer[T any](values []T) unsafe.Pointer {
	if len(values) == 0 {
		return unsafe.Pointer(&none)
	}
	return unsafe.Pointer(&values[0])
}
""")

_TAKE: Final = Template("""\
	count$n, err := count(1, $n, dims)
	if err == nil {
		*output$n = append([]$type{}, unsafe.Slice((*$type)(made[$place]), count$n)...)
	}
	C.${prefix}_release(m.context, made[$place])
	if err != nil {
		return err
	}
""")


def go(library: Library) -> str:
    """The package: `New(threads)`, and `Run(inputs..., outputs..., sizes)`."""
    signature, made = library.signature, sorted(library.signature.made)
    inputs, outputs = (list(map(_type, s)) for s in (signature.inputs, signature.outputs))
    filled = [n for n in range(len(outputs)) if n not in made]
    parameters = [f"input{n} []{each}, " for n, each in enumerate(inputs)]
    parameters += [f"output{n} {'*' * (n in made)}[]{each}, " for n, each in enumerate(outputs)]
    pointers = [f"input{n}" for n in range(len(inputs))] + [f"output{n}" for n in filled]
    c_parameters = [f"const void *input{n}" for n in range(len(inputs))]
    c_parameters += [f"void *output{n}" for n in filled]
    taken = [
        _TAKE.substitute(n=n, type=outputs[n], place=position, prefix=library.prefix)
        for position, n in enumerate(made)
    ]
    return _PACKAGE.substitute(
        least=LEAST_VERSION, prefix=library.prefix, stem=library.stem,
        c_parameters="".join(f", {each}" for each in c_parameters),
        c_inputs=", ".join(f"input{n}" for n in range(len(inputs))) or "NULL",
        c_outputs=", ".join(
            "NULL" if n in made else f"output{n}" for n in range(len(outputs))
        ) or "NULL",
        c_made="".join(f"  made[{position}] = outputs[{n}];\n" for position, n in enumerate(made)),
        made_count=len(made), input_texts=_texts(map(described, signature.inputs)),
        output_texts=_texts(map(described, signature.outputs)),
        sizes=_texts((*signature.symbols, *signature.found)), found=len(signature.found),
        parameters="".join(parameters),
        checks="".join(
            [_check(0, n) for n in range(len(inputs))] + [_check(1, n) for n in filled]
        ),
        pointers="".join(f", pointer({each})" for each in pointers), taken="".join(taken),
    )  # fmt: skip


def _check(is_output: int, n: int) -> str:
    """Refuses a slice of another length than its tensor has elements."""
    name = f"{'output' if is_output else 'input'}{n}"
    return (
        f"\tif err := check({is_output}, {n}, dims, len({name})); err != nil {{\n"
        "\t\treturn err\n\t}\n"
    )


def _type(spec: TensorSpec) -> str:
    return _TYPES.get(spec.dtype, "uint8")


def _texts(texts: Iterable[str]) -> str:
    return ", ".join(map(go_literal, texts))
