"""What helps others to use a shared object: build files, an example in C, and bindings.

Every function gives the text of one file for the model with that prefix in the library `lib<stem>`.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from compiler.machine.dims import parse_dim
from compiler.machine.model_table import shape_text
from compiler.machine.python_form import python_module
from compiler.machine.signature import Signature, TensorSpec

Form = Callable[[str, str, Signature], str]
"""`form(prefix, stem, signature)`."""

_INTEGERS: Final = tuple(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64))
C_TYPES: Final = {
    "bool": "uint8_t", "float16": "uint16_t", "bfloat16": "uint16_t", "float32": "float",
    "float64": "double", **{name: f"{name}_t" for name in _INTEGERS},
}  # fmt: skip
_RUST_TYPES: Final = {
    "bool": "u8", "float16": "u16", "bfloat16": "u16", "float32": "f32", "float64": "f64",
    **{name: name.replace("uint", "u").replace("int", "i") for name in _INTEGERS},
}  # fmt: skip
_GO_TYPES: Final = {
    "bool": "uint8", "float16": "uint16", "bfloat16": "uint16", "float32": "float32",
    "float64": "float64", **{name: name for name in _INTEGERS},
}  # fmt: skip
_PRINTED: Final = 5


def c_size(dim: int | str, symbols: Sequence[str], dims: str = "dims[{}]") -> str:
    """A dim as an expression of C, Rust and Go over an array of the symbols' values."""
    return str(dim) if isinstance(dim, int) else _c(parse_dim(dim).body, symbols, dims)


def _c(node: ast.expr, symbols: Sequence[str], dims: str) -> str:
    signs: dict[type[ast.operator], str] = {
        ast.Add: "+",
        ast.Sub: "-",
        ast.Mult: "*",
        ast.FloorDiv: "/",
        ast.Mod: "%",
    }
    match node:
        case ast.Constant(value=number):
            return str(number)
        case ast.Name(id=name):
            return dims.format(symbols.index(name))
        case ast.UnaryOp(operand=operand):
            return f"(0 - {_c(operand, symbols, dims)})"
        case ast.BinOp(left=left, op=operation, right=right):
            sign = signs[type(operation)]
            return f"({_c(left, symbols, dims)} {sign} {_c(right, symbols, dims)})"
        case ast.Call(func=ast.Name(id=name), args=[first, *others]):
            text = _c(first, symbols, dims)
            for other in others:
                text = f"weft_{name}({text}, {_c(other, symbols, dims)})"
            return text
        case _:
            raise AssertionError(f"a dim is an integer expression, not {ast.unparse(node)}")


def _elements(spec: TensorSpec, symbols: Sequence[str], dims: str = "dims[{}]") -> str:
    return " * ".join(c_size(dim, symbols, dims) for dim in spec.dims) or "1"


_EXAMPLE_C: Final = """\
/* Runs {prefix} once on zeros: cc example.c -L. -l{stem} -Wl,-rpath,. && ./a.out */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib{stem}.h"

static int64_t weft_max(int64_t a, int64_t b) {{ return a > b ? a : b; }}
static int64_t weft_min(int64_t a, int64_t b) {{ return a < b ? a : b; }}

/* Zeroed memory for so many bytes, aligned as workspaces have to be. */
static void *make(int64_t bytes) {{
  size_t size = ((size_t)bytes + 64) / 64 * 64;
  char *memory = aligned_alloc(WEFT_WORKSPACE_ALIGNMENT, size);
  if (memory == NULL) exit(1);
  for (size_t i = 0; i < size; i++) memory[i] = 0;
  return memory;
}}

int main(void) {{
  (void)weft_max, (void)weft_min;
{dims}  weft_options options = {{.size = sizeof options}};
  weft_context *context = {prefix}_create(&options);
  if (context == NULL) {{
    fprintf(stderr, "%s\\n", {prefix}_last_error(NULL));
    return 1;
  }}
{tensors}  uint64_t size = {prefix}_workspace_size({dims_pointer});
  weft_call call = {{
    .size = sizeof call,
    .inputs = inputs,
    .outputs = outputs,
    .dims = {dims_pointer},
    .workspace = make((int64_t)size),
    .workspace_size = size,
  }};
  if ({prefix}_run(context, &call) != WEFT_OK) {{
    fprintf(stderr, "%s\\n", {prefix}_last_error(context));
    return 1;
  }}
{shown}  {prefix}_destroy(context);
  return 0;
}}
"""


def example_c(prefix: str, stem: str, signature: Signature) -> str:
    """A C program that runs the model once."""
    symbols = signature.symbols
    sizes = ", ".join("1" for _ in symbols)
    names = ", ".join(symbols)
    dims = f"  int64_t dims[] = {{{sizes}}}; /* {names} */\n" if symbols else ""
    lines: list[str] = []
    for kind, specs in (("input", signature.inputs), ("output", signature.outputs)):
        for number, spec in enumerate(specs):
            element = C_TYPES.get(spec.dtype, "uint8_t")
            size = f"(int64_t)sizeof(*{kind}{number}) * {_elements(spec, symbols)}"
            lines.append(f"  {element} *{kind}{number} = make({size}); /* {_comment(spec)} */\n")
        qualifier = "const void *" if kind == "input" else "void *"
        table = ", ".join(f"{kind}{number}" for number in range(len(specs))) or "NULL"
        lines.append(f"  {qualifier}{kind}s[] = {{{table}}};\n")
    shown = "".join(
        f"  for (int64_t i = 0; i < {_PRINTED} && i < {_elements(spec, symbols)}; i++)\n"
        f'    printf("output {number}[%" PRId64 "] = %g\\n", i, (double)output{number}[i]);\n'
        for number, spec in enumerate(signature.outputs)
    )
    return _EXAMPLE_C.format(
        prefix=prefix, stem=stem, dims=dims, tensors="".join(lines), shown=shown,
        dims_pointer="dims" if symbols else "NULL",
    )  # fmt: skip


def _comment(spec: TensorSpec) -> str:
    text = f"{spec.name}: {spec.dtype} [{', '.join(map(str, spec.dims))}]"
    return text.replace("*/", "* /").replace("\n", " ")


def pkg_config(prefix: str, stem: str, signature: Signature) -> str:
    """A pkg-config file that lies beside the library."""
    return f"""\
libdir=${{pcfiledir}}
includedir=${{pcfiledir}}

Name: {stem}
Description: {prefix}, a model compiled by weft
Version: 1
Libs: -L${{libdir}} -l{stem} -Wl,-rpath,${{libdir}}
Cflags: -I${{includedir}}
"""


def cmake(prefix: str, stem: str, signature: Signature) -> str:
    """A file for CMake's include(), which lies beside the library."""
    return f"""\
# include(lib{stem}.cmake), then target_link_libraries(program {stem}::{stem})
add_library({stem}::{stem} SHARED IMPORTED)
set_target_properties({stem}::{stem} PROPERTIES
  IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/lib{stem}.so"
  INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}")
"""


_RUST: Final = """\
//! {prefix}, a model compiled by weft: `mod {prefix};` in main.rs, `rustc main.rs -L . -l {stem}`.
#![allow(dead_code)]
use std::ffi::{{c_char, c_void, CStr}};

#[repr(C)]
struct Options {{ size: u64, threads: u32, rest: [u32; 21] }}

#[repr(C)]
struct Call {{
    size: u64, inputs: *const *const c_void, outputs: *const *mut c_void, dims: *const i64,
    workspace: *mut c_void, workspace_size: u64, reserved: [u64; 2],
}}

extern "C" {{
    fn {prefix}_create(options: *const Options) -> *mut c_void;
    fn {prefix}_destroy(context: *mut c_void);
    fn {prefix}_workspace_size(dims: *const i64) -> u64;
    fn {prefix}_run(context: *mut c_void, call: *const Call) -> i32;
    fn {prefix}_last_error(context: *const c_void) -> *const c_char;
    fn {prefix}_query() -> *const u8;
}}

/// What the library has to take and give: this file reads and writes nothing else.
const INPUTS: &[&str] = &[{input_texts}];
const OUTPUTS: &[&str] = &[{output_texts}];

fn weft_max(a: i64, b: i64) -> i64 {{ a.max(b) }}
fn weft_min(a: i64, b: i64) -> i64 {{ a.min(b) }}

pub struct Model(*mut c_void);
unsafe impl Send for Model {{}}
unsafe impl Sync for Model {{}}

impl Model {{
    /// `threads` compute a call; 0: one for each processor.
    pub fn new(threads: u32) -> Result<Model, String> {{
        for (tensors, place) in [(INPUTS, 80), (OUTPUTS, 88)] {{
            let found = described(place);
            if found != tensors {{
                return Err(format!("{stem} requires a library of {{tensors:?}}, got {{found:?}}"));
            }}
        }}
        let options = Options {{ size: 96, threads, rest: [0; 21] }};
        let context = unsafe {{ {prefix}_create(&options) }};
        if context.is_null() {{ Err(error(context)) }} else {{ Ok(Model(context)) }}
    }}

    /// One evaluation; panics where a slice has another length than the model's.
    pub fn run(&self{parameters}) -> Result<({results}), String> {{
{dims}{checks}{outputs}        let inputs = [{input_pointers}];
        let outputs = [{output_pointers}];
        let size = unsafe {{ {prefix}_workspace_size(dims.as_ptr()) }};
        let mut workspace = vec![0u8; size as usize + 64];
        let shift = workspace.as_ptr().align_offset(64);
        let call = Call {{
            size: 64, inputs: inputs.as_ptr(), outputs: outputs.as_ptr(), dims: dims.as_ptr(),
            workspace: unsafe {{ workspace.as_mut_ptr().add(shift) }} as *mut c_void,
            workspace_size: size, reserved: [0; 2],
        }};
        if unsafe {{ {prefix}_run(self.0, &call) }} != 0 {{ return Err(error(self.0)); }}
        Ok(({result_names}))
    }}
}}

impl Drop for Model {{
    fn drop(&mut self) {{ unsafe {{ {prefix}_destroy(self.0) }} }}
}}

/// The tensors that the library's table lists, as name, type and shape.
fn described(place: usize) -> Vec<String> {{
    let table = unsafe {{ {prefix}_query() }};
    let word = |at: usize| unsafe {{ (table.add(at) as *const u32).read_unaligned() }} as usize;
    let text = |at: usize| {{
        unsafe {{ CStr::from_ptr(table.add(word(at)) as *const c_char) }}.to_string_lossy()
    }};
    let tensor = |n: usize| word(place) + n * word(24);
    let shown = |at: usize| format!("{{}} {{}} {{}}", text(at), text(at + 4), text(at + 24));
    (0..word(place + 4)).map(|n| shown(tensor(n))).collect()
}}

fn error(context: *const c_void) -> String {{
    unsafe {{ CStr::from_ptr({prefix}_last_error(context)) }}.to_string_lossy().into_owned()
}}
"""


def rust(prefix: str, stem: str, signature: Signature) -> str:
    """A module of Rust."""
    symbols = signature.symbols
    kinds = [_RUST_TYPES.get(spec.dtype, "u8") for spec in signature.outputs]
    inputs = [
        f", input{n}: &[{_RUST_TYPES.get(spec.dtype, 'u8')}]"
        for n, spec in enumerate(signature.inputs)
    ]
    parameters = "".join(inputs) + (f", dims: [i64; {len(symbols)}]" if symbols else "")
    checks = [
        f"        assert_eq!(input{n}.len() as i64, {_elements(spec, symbols)});\n"
        for n, spec in enumerate(signature.inputs)
    ]
    outputs = [
        f"        let mut output{n} = "
        f"vec![0 as {kinds[n]}; ({_elements(spec, symbols)}) as usize];\n"
        for n, spec in enumerate(signature.outputs)
    ]
    return _RUST.format(
        prefix=prefix, stem=stem, parameters=parameters,
        results="".join(f"Vec<{kind}>, " for kind in kinds).rstrip(" "),
        dims="" if symbols else "        let dims = [0i64; 1];\n",
        checks="".join(checks), outputs="".join(outputs),
        input_pointers=", ".join(
            f"input{n}.as_ptr() as *const c_void" for n in range(len(signature.inputs))
        ),
        output_pointers=", ".join(
            f"output{n}.as_mut_ptr() as *mut c_void" for n in range(len(kinds))
        ),
        result_names="".join(f"output{n}, " for n in range(len(kinds))).rstrip(" "),
        input_texts=_rust_texts(signature.inputs), output_texts=_rust_texts(signature.outputs),
    )  # fmt: skip


def _rust_texts(specs: Sequence[TensorSpec]) -> str:
    """Tensors as the table describes them, as literals."""
    texts = (f"{spec.name} {spec.dtype} {shape_text(spec.dims)}" for spec in specs)
    return ", ".join(json.dumps(text, ensure_ascii=False) for text in texts)


_GO: Final = """\
// Package {prefix} is a model compiled by weft. Its files lie beside lib{stem}.so and lib{stem}.h.
package {prefix}

/*
#cgo CFLAGS: -I${{SRCDIR}}
#cgo LDFLAGS: -L${{SRCDIR}} -l{stem} -Wl,-rpath,${{SRCDIR}}
#include <stdlib.h>
#include "lib{stem}.h"

static weft_context *weft_make(uint32_t threads) {{
  weft_options options = {{.size = sizeof options, .threads = threads}};
  return {prefix}_create(&options);
}}

static int32_t weft_call_once(weft_context *context, const void **inputs, void **outputs,
                              const int64_t *dims) {{
  uint64_t size = {prefix}_workspace_size(dims);
  void *workspace = aligned_alloc(64, (size + 64) / 64 * 64);
  weft_call call = {{.size = sizeof call, .inputs = inputs, .outputs = outputs, .dims = dims,
                    .workspace = workspace, .workspace_size = size}};
  int32_t status = {prefix}_run(context, &call);
  free(workspace);
  return status;
}}
*/
import "C"

import (
	"errors"
	"runtime"
	"unsafe"
)

// Model is a loaded model; several goroutines may use it at once.
type Model struct{{ context *C.weft_context }}

// New makes a model whose calls use so many threads; 0: one for each processor.
func New(threads uint32) (*Model, error) {{
	context := C.weft_make(C.uint32_t(threads))
	if context == nil {{
		return nil, errors.New(C.GoString(C.{prefix}_last_error(nil)))
	}}
	return &Model{{context}}, nil
}}

// Close ends the model.
func (m *Model) Close() {{ C.{prefix}_destroy(m.context) }}

// Run is one evaluation into outputs of the model's sizes. Sizes has the free ones: {symbols}.
func (m *Model) Run({parameters}sizes []int64) error {{
	var pinned runtime.Pinner
	defer pinned.Unpin()
	sizes = append(append([]int64{{}}, sizes...), 0)
	inputs := []unsafe.Pointer{{{input_pointers}nil}}
	outputs := []unsafe.Pointer{{{output_pointers}nil}}
	for _, pointer := range append(append([]unsafe.Pointer{{}}, inputs...), outputs...) {{
		if pointer != nil {{
			pinned.Pin(pointer)
		}}
	}}
	status := C.weft_call_once(m.context, &inputs[0], &outputs[0], (*C.int64_t)(&sizes[0]))
	if status != 0 {{
		return errors.New(C.GoString(C.{prefix}_last_error(m.context)))
	}}
	return nil
}}
"""


def go(prefix: str, stem: str, signature: Signature) -> str:
    """A package of Go, through cgo."""
    parameters: list[str] = []
    pointers: dict[str, list[str]] = {"input": [], "output": []}
    for kind, specs in (("input", signature.inputs), ("output", signature.outputs)):
        for n, spec in enumerate(specs):
            parameters.append(f"{kind}{n} []{_GO_TYPES.get(spec.dtype, 'uint8')}, ")
            pointers[kind].append(f"unsafe.Pointer(unsafe.SliceData({kind}{n})), ")
    return _GO.format(
        prefix=prefix, stem=stem, symbols=", ".join(signature.symbols) or "none",
        parameters="".join(parameters), input_pointers="".join(pointers["input"]),
        output_pointers="".join(pointers["output"]),
    )  # fmt: skip


FORMS: Final[Mapping[str, tuple[str, Form]]] = {
    "example-c": ("{stem}_example.c", example_c),
    "pc": ("{stem}.pc", pkg_config),
    "cmake": ("lib{stem}.cmake", cmake),
    "python": ("{prefix}.py", python_module),
    "rust": ("{prefix}.rs", rust),
    "go": ("{prefix}.go", go),
}
"""By their names on the command line: what the file is called, and who writes it."""
