"""A module of Rust, with nothing but the standard library."""

from __future__ import annotations

from collections.abc import Iterable
from string import Template
from typing import Final

from weft.compiler.machine.artifact.model_table import described
from weft.compiler.machine.artifact.signature import TensorSpec
from weft.compiler.machine.bindings.escapes import rust_literal
from weft.compiler.machine.bindings.library import INTEGERS, Library

_TYPES: Final = {
    "bool": "u8", "float16": "u16", "bfloat16": "u16", "float32": "f32", "float64": "f64",
    **{name: name.replace("uint", "u").replace("int", "i") for name in INTEGERS},
}  # fmt: skip
"""The types of elements; all others are `u8`."""

_MODULE: Final = Template("""\
//! $prefix, a model compiled by weft: `mod $prefix;` in main.rs, `rustc main.rs -L . -l $stem`.
//! Requires Rust 1.58 or later.
#![allow(dead_code, non_snake_case, unused_mut, unused_variables)]
use std::ffi::{c_void, CStr};
use std::os::raw::c_char;

#[repr(C)]
struct Options { size: u64, threads: u32, rest: [u32; 21] }

#[repr(C)]
struct Call {
    size: u64, inputs: *const *const c_void, outputs: *mut *mut c_void, dims: *mut i64,
    workspace: *mut c_void, workspace_size: u64, reserved: [u64; 2],
}

extern "C" {
    fn ${prefix}_create(options: *const Options) -> *mut c_void;
    fn ${prefix}_destroy(context: *mut c_void);
    fn ${prefix}_workspace_size(dims: *const i64) -> u64;
    fn ${prefix}_run(context: *mut c_void, call: *const Call) -> i32;
    fn ${prefix}_last_error(context: *const c_void) -> *const c_char;
    fn ${prefix}_release(context: *mut c_void, output: *mut c_void);
    fn ${prefix}_query() -> *const u8;
}

/// What the library has to take and give: this file reads and writes nothing else.
const INPUTS: &[&str] = &[$input_texts];
const OUTPUTS: &[&str] = &[$output_texts];
/// The names of the sizes in `dims`, then of those that a call finds.
pub const SIZES: &[&str] = &[$sizes];
const FREE: usize = $free;

pub struct Model(*mut c_void);
unsafe impl Send for Model {}
unsafe impl Sync for Model {}

impl Model {
    /// `threads` compute a call; 0: one for each processor.
    pub fn new(threads: u32) -> Result<Model, String> {
        for (tensors, place) in [(INPUTS, 80), (OUTPUTS, 88)] {
            let found = described(place);
            if found != tensors {
                return Err(format!("$prefix requires a library of {tensors:?}, got {found:?}"));
            }
        }
        let options = Options { size: 96, threads, rest: [0; 21] };
        let context = unsafe { ${prefix}_create(&options) };
        if context.is_null() { Err(error(context)) } else { Ok(Model(context)) }
    }

    /// One evaluation: the outputs. `sizes` are the free ones, which come first in SIZES.
    pub fn run(&self$parameters) -> Result<($results), String> {
        let mut dims = [0i64; $dim_room];
$checks        let inputs: [*const c_void; $input_count] = [$input_pointers];
        let mut outputs: [*mut c_void; $output_count] = [$output_pointers];
        let size = unsafe { ${prefix}_workspace_size(dims.as_ptr()) };
        // Where there is none for these sizes, the call says why.
        let room = if size == u64::MAX { 0 } else { size };
        let mut workspace = vec![0u8; room as usize + 64];
        let shift = workspace.as_ptr().align_offset(64);
        let call = Call {
            size: 64, inputs: inputs.as_ptr(), outputs: outputs.as_mut_ptr(),
            dims: dims.as_mut_ptr(),
            workspace: unsafe { workspace.as_mut_ptr().add(shift) } as *mut c_void,
            workspace_size: room, reserved: [0; 2],
        };
        if unsafe { ${prefix}_run(self.0, &call) } != 0 { return Err(error(self.0)); }
$made        Ok(($result_names))
    }
}

impl Drop for Model {
    fn drop(&mut self) { unsafe { ${prefix}_destroy(self.0) } }
}

fn word(at: usize) -> usize {
    unsafe { (${prefix}_query().add(at) as *const u32).read_unaligned() as usize }
}

fn number(at: usize) -> i64 {
    unsafe { (${prefix}_query().add(at) as *const i64).read_unaligned() }
}

fn text(at: usize) -> String {
    let text = unsafe { CStr::from_ptr(${prefix}_query().add(word(at)) as *const c_char) };
    text.to_string_lossy().into_owned()
}

/// The tensors that the library's table lists, as name, type and shape.
fn described(place: usize) -> Vec<String> {
    let tensor = |n: usize| word(place) + n * word(24);
    let shown = |at: usize| format!("{} {} {}", text(at), text(at + 4), text(at + 24));
    (0..word(place + 4)).map(|n| shown(tensor(n))).collect()
}

/// The number of elements of a tensor of the table for these sizes: at most 2^47.
fn elements(place: usize, n: usize, dims: &[i64]) -> Result<usize, String> {
    let tensor = word(place) + n * word(24);
    let extents: Option<Vec<i64>> = (0..word(tensor + 16))
        .map(|axis| extent(word(tensor + 20) + axis * word(28), dims))
        .collect();
    let most = 1i64 << 47;
    let fits = |extents: Vec<i64>| {
        let all = extents.iter().filter(|&&each| each != 0);
        let product = all.fold(Some(1i64), |product, &each| product?.checked_mul(each))?;
        let empty = extents.contains(&0);
        if product > most { None } else { Some(if empty { 0 } else { product as usize }) }
    };
    extents.and_then(fits).ok_or_else(|| {
        format!("$prefix requires sizes that its tensors can have, got {dims:?} for {SIZES:?}")
    })
}

/// What the steps of a dim compute on their stack (WEFT_STEP_... of the header).
fn extent(dim: usize, dims: &[i64]) -> Option<i64> {
    let mut stack: Vec<i64> = Vec::new();
    if number(dim) >= 0 { return Some(number(dim)); }
    for step in (0..word(dim + 20)).map(|n| word(dim + 16) + 16 * n) {
        let operand = number(step + 8);
        let value = match number(step) {
            0 => break,
            1 => operand,
            2 => *dims.get(operand as usize)?,
            operation => {
                let (b, a) = (stack.pop()?, stack.pop()?);
                match operation {
                    3 => a.checked_add(b)?,
                    4 => a.checked_sub(b)?,
                    5 => a.checked_mul(b)?,
                    6 => a.min(b),
                    7 => a.max(b),
                    8 if b > 0 => a.div_euclid(b),
                    9 if b > 0 => a.rem_euclid(b),
                    _ => return None,
                }
            }
        };
        stack.push(value);
    }
    stack.pop().filter(|&size| size >= 0)
}

/// Whether a slice has the elements that its tensor has for these sizes.
fn check(place: usize, n: usize, got: usize, dims: &[i64]) -> Result<(), String> {
    let expected = elements(place, n, dims)?;
    if got == expected { return Ok(()); }
    let named = if place == 80 { INPUTS[n] } else { OUTPUTS[n] };
    Err(format!("$prefix requires {expected} elements of {named:?}, got {got}"))
}

fn error(context: *const c_void) -> String {
    let text = unsafe { CStr::from_ptr(${prefix}_last_error(context)) };
    text.to_string_lossy().into_owned()
}
""")
_INPUTS: Final = 80
_OUTPUTS: Final = 88
"""Where the table has the places of its tensors."""


def rust(library: Library) -> str:
    """The module: `Model::new(threads)` and `run(&inputs..., dims)`."""
    signature = library.signature
    symbols, found = signature.symbols, signature.found
    room = max(1, len(symbols) + len(found))
    inputs = range(len(signature.inputs))
    outputs = list(enumerate(map(_type, signature.outputs)))
    made = signature.made
    parameters = [f", input{n}: &[{_type(signature.inputs[n])}]" for n in inputs]
    parameters += [f", sizes: [i64; {len(symbols)}]"] if symbols else []
    checks = ["        dims[..FREE].copy_from_slice(&sizes);\n"] if symbols else []
    checks += [f"        check({_INPUTS}, {n}, input{n}.len(), &dims)?;\n" for n in inputs]
    checks += [
        f"        let mut output{n} = vec![0 as {each}; elements({_OUTPUTS}, {n}, &dims)?];\n"
        for n, each in outputs
        if n not in made
    ]
    return _MODULE.substitute(
        prefix=library.prefix, stem=library.stem,
        input_texts=_texts(map(described, signature.inputs)),
        output_texts=_texts(map(described, signature.outputs)),
        sizes=_texts((*symbols, *found)), free=len(symbols),
        parameters="".join(parameters), dim_room=room, checks="".join(checks),
        results="".join(f"Vec<{each}>, " for _, each in outputs).rstrip(" "),
        input_count=len(signature.inputs), output_count=len(signature.outputs),
        input_pointers=", ".join(f"input{n}.as_ptr() as *const c_void" for n in inputs),
        output_pointers=", ".join(
            "std::ptr::null_mut()" if n in made else f"output{n}.as_mut_ptr() as *mut c_void"
            for n, _ in outputs
        ),
        made="".join(_taken(n, each, library.prefix) for n, each in outputs if n in made),
        result_names="".join(f"output{n}, " for n, _ in outputs).rstrip(" "),
    )  # fmt: skip


def _taken(n: int, item: str, prefix: str) -> str:
    """An output that the call made, as a vector; its memory is given back."""
    return f"""\
        let count = elements({_OUTPUTS}, {n}, &dims)?;
        let output{n} = if count == 0 {{ Vec::new() }} else {{
            unsafe {{ std::slice::from_raw_parts(outputs[{n}] as *const {item}, count) }}.to_vec()
        }};
        unsafe {{ {prefix}_release(self.0, outputs[{n}]) }};
"""


def _type(spec: TensorSpec) -> str:
    return _TYPES.get(spec.dtype, "u8")


def _texts(texts: Iterable[str]) -> str:
    return ", ".join(map(rust_literal, texts))
