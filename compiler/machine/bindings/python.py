"""A module of Python for those who use a shared object without weft: it reads what the model takes
and gives from the library's own table (docs/abi.md).
"""

from __future__ import annotations

from string import Template
from typing import Final

from weft.compiler.machine.bindings.escapes import python_literal
from weft.compiler.machine.bindings.library import Library

_MODULE: Final = Template('''\
"""$prefix, a model compiled by weft, through ctypes alone: no other package is needed.

    import $prefix
    outputs = $prefix.Model().run($arguments)

Inputs are anything with a buffer (numpy.ndarray, array.array) of the right type, shape and byte
order, dense and row by row; flat ones and untyped bytes do where their number is right. Nothing is
written to them. 16-bit floats may be unsigned integers of 16 bits. Outputs are flat ctypes arrays,
for which numpy.ctypeslib.as_array makes no copy. Sizes that vary are taken from inputs that have a
shape, or given by name.
"""

import ctypes
import operator
import pathlib
import struct
import sys

_TYPES = {
    "float32": ctypes.c_float, "float64": ctypes.c_double, "float16": ctypes.c_uint16,
    "bfloat16": ctypes.c_uint16, "int8": ctypes.c_int8, "int16": ctypes.c_int16,
    "int32": ctypes.c_int32, "int64": ctypes.c_int64, "uint16": ctypes.c_uint16,
    "uint32": ctypes.c_uint32, "uint64": ctypes.c_uint64,
}
"""Elements of other types are bytes."""
_KINDS = {
    **dict.fromkeys("bhilqn", "int"), **dict.fromkeys("BHILQN", "uint"),
    **dict.fromkeys("efd", "float"), "?": "bool",
}
"""By the characters that buffers say their type with."""
_ALSO = {"float": (2, "uint"), "bfloat": (2, "uint"), "bool": (1, "uint")}
"""What stands for elements of so many bytes too."""
_FOREIGN = ">!" if sys.byteorder == "little" else "<"
_NONE = 0xFFFFFFFF
_MOST = 1 << 47
"""The greatest extent, and the most elements of a tensor."""


class _Options(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("threads", ctypes.c_uint32),
        ("rest", ctypes.c_uint32 * 21),
    ]


class _Call(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("inputs", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
        ("dims", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("workspace_size", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64 * 2),
    ]


class Tensor:
    """An input or output: name, dtype as NumPy calls it, and dims, numbers or expressions."""

    def __init__(self, table, place, symbols):
        name, dtype, self.bytes, rank, dims = struct.unpack_from("<2I4x3I", table, place)
        (flags,) = struct.unpack_from("<I", table, place + 28)
        self.name, self.dtype = _text(table, name), _text(table, dtype)
        self.kind, self.is_made = _TYPES.get(self.dtype, ctypes.c_uint8), bool(flags & 1)
        stride, axes = _word(table, 28), range(rank)
        self.dims = tuple(_dim(table, dims + axis * stride) for axis in axes)
        self._steps = [_steps(table, dims + axis * stride, symbols) for axis in axes]

    def __repr__(self):
        return f"{self.name!r}: {self.dtype} {list(self.dims)}"

    def shape(self, sizes):
        """The extents for these sizes. Raises ValueError where there are none."""
        shape = tuple(_extent(steps, sizes) for steps in self._steps)
        count = 1
        for extent in shape:
            count *= max(extent, 1)
        if any(not 0 <= extent <= _MOST for extent in shape) or count > _MOST:
            raise ValueError(f"{self!r} requires sizes that it can have, got {shape}")
        return shape

    def count(self, sizes):
        """The number of elements for these sizes."""
        count = 1
        for extent in self.shape(sizes):
            count *= extent
        return count

    def check(self, view, shape):
        """Refuses a buffer that has other elements, or other ones of them."""
        code = view.format[-1:]
        kind = _KINDS.get(code, view.format)
        stem = self.dtype.rstrip("0123456789")
        accepted = {stem} if self.dtype in _TYPES or stem == "bool" else {"int", "uint"}
        if _ALSO.get(stem, (0, ""))[0] == self.bytes:
            accepted.add(_ALSO[stem][1])
        is_untyped = code == "B" and isinstance(view.obj, (bytes, bytearray)) and view.ndim == 1
        count = 1
        for extent in shape:
            count *= extent
        if is_untyped:
            if view.nbytes != count * self.bytes:
                self._refuse(f"{count * self.bytes} bytes", shape, view.nbytes)
        elif kind not in accepted or view.itemsize != self.bytes:
            self._refuse(f"elements of {self.dtype}", shape, f"the buffer format {view.format!r}")
        elif view.itemsize > 1 and view.format[0] in _FOREIGN:
            self._refuse(f"the byte order {sys.byteorder}", shape, f"{view.format!r}")
        elif view.shape not in (shape, (count,)):
            self._refuse(f"shape {shape}", shape, view.shape)
        elif not view.c_contiguous:
            self._refuse("dense rows, one after the other", shape, f"strides {view.strides}")

    def _refuse(self, rule, shape, got):
        raise ValueError(f"run requires {rule} for {self!r}, here {shape}, got {got}")


class Model:
    """The loaded model; `threads` compute a call, one for each processor by default. `inputs` and
    `outputs` are its Tensors, `sizes` the names of sizes that vary, `found` of those that a call
    finds.
    """

    def __init__(self, threads=0, library=pathlib.Path(__file__).with_name($library)):
        self._library = ctypes.CDLL(str(library))
        self._create = self._function("create", ctypes.c_void_p, ctypes.c_void_p)
        self._destroy = self._function("destroy", None, ctypes.c_void_p)
        self._run = self._function("run", ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
        self._error = self._function("last_error", ctypes.c_char_p, ctypes.c_void_p)
        self._size = self._function("workspace_size", ctypes.c_uint64, ctypes.c_void_p)
        self._release = self._function("release", None, ctypes.c_void_p, ctypes.c_void_p)
        self._read_table(self._function("query", ctypes.c_void_p)())
        options = _Options(size=ctypes.sizeof(_Options), threads=threads)
        self._context = self._create(ctypes.byref(options))
        if not self._context:
            raise RuntimeError(_shown(self._error(None)))

    def _read_table(self, address):
        (size,) = struct.unpack("<Q", ctypes.string_at(address + 8, 8))
        table = ctypes.string_at(address, size)
        if _word(table, 16) != 1:
            raise RuntimeError(f"$prefix requires ABI version 1, got {_word(table, 16)}")
        free, found = _word(table, 72), _word(table, 76)
        symbols = [
            struct.unpack_from("<4I", table, _word(table, 68) + n * _word(table, 32))
            for n in range(free + found)
        ]
        names = [_text(table, name) for name, *_ in symbols]
        self.inputs, self.outputs = (
            [
                Tensor(table, _word(table, at) + n * _word(table, 24), names)
                for n in range(_word(table, at + 4))
            ]
            for at in (80, 88)
        )
        self.sizes, self.found = names[:free], names[free:]
        self._places = {
            name: place for name, (_, _, *place) in zip(self.sizes, symbols) if place[0] != _NONE
        }
        self.has_self_test = bool(_word(table, 20) & 1)

    def _function(self, name, result, *arguments):
        function = getattr(self._library, "${prefix}_" + name)
        function.restype, function.argtypes = result, arguments
        return function

    def __del__(self):
        if getattr(self, "_context", None):
            self._destroy(self._context)

    def self_test(self):
        """Runs the model on the inputs that it was compiled with, if it was, as has_self_test says;
        raises RuntimeError where it does not compute what it did then.
        """
        if self._function("self_test", ctypes.c_int32, ctypes.c_void_p)(self._context):
            raise RuntimeError(_shown(self._error(self._context)))

    def run(self, /, *inputs, **sizes):
        """The outputs for these inputs, in their order. Raises TypeError and ValueError for what
        the model does not take, RuntimeError with the reason of a call that fails.
        """
        if len(inputs) != len(self.inputs):
            raise TypeError(f"run requires {len(self.inputs)} inputs, got {len(inputs)}")
        views = [memoryview(value) for value in inputs]
        sizes = self._find_sizes(views, sizes)
        dims = (ctypes.c_int64 * (1 + len(self.sizes) + len(self.found)))(
            *(sizes[name] for name in self.sizes)
        )
        given = [_copied(*pair, sizes) for pair in zip(self.inputs, views)]
        outputs = [
            None if each.is_made else (each.kind * each.count(sizes))() for each in self.outputs
        ]
        size = self._size(dims)
        if size == 0xFFFFFFFFFFFFFFFF:
            raise ValueError(f"run requires sizes that the model can have, got {sizes}")
        room = ctypes.create_string_buffer(size + 64)
        tables = _table(given), _table(outputs)
        call = _Call(
            size=ctypes.sizeof(_Call),
            inputs=ctypes.addressof(tables[0]),
            outputs=ctypes.addressof(tables[1]),
            dims=ctypes.addressof(dims),
            workspace=ctypes.addressof(room) + 63 & ~63,
            workspace_size=size,
        )
        if self._run(self._context, ctypes.byref(call)):
            raise RuntimeError(_shown(self._error(self._context)))
        sizes.update(zip(self.found, dims[len(self.sizes) :]))
        made = [n for n, each in enumerate(self.outputs) if each.is_made]
        for n in made:
            outputs[n] = (self.outputs[n].kind * self.outputs[n].count(sizes))()
            ctypes.memmove(outputs[n], tables[1][n], ctypes.sizeof(outputs[n]))
            self._release(self._context, tables[1][n])
        return outputs

    def _find_sizes(self, views, sizes):
        """The sizes by name: those that are given, or of an input that has a shape."""
        found = {name: operator.index(size) for name, size in sizes.items()}
        for name, (number, axis) in self._places.items():
            if name not in found and views[number].ndim == len(self.inputs[number].dims) > 1:
                found[name] = views[number].shape[axis]
        if found.keys() != set(self.sizes):
            raise TypeError(f"run requires the sizes {self.sizes}, got {list(found)}")
        if not all(0 <= size <= _MOST for size in found.values()):
            raise ValueError(f"run requires sizes of 0 to {_MOST}, got {found}")
        return found


def _copied(tensor, view, sizes):
    """An input as the call reads it."""
    shape = tensor.shape(sizes)
    tensor.check(view, shape)
    made = (tensor.kind * tensor.count(sizes))()
    if view.nbytes:
        ctypes.memmove(made, view.tobytes(), view.nbytes)
    return made


def _table(buffers):
    addresses = (None if each is None else ctypes.addressof(each) for each in buffers)
    return (ctypes.c_void_p * max(1, len(buffers)))(*addresses)


def _word(table, place):
    return struct.unpack_from("<I", table, place)[0]


def _text(table, place):
    return table[place : table.index(b"\\0", place)].decode()


def _shown(text):
    """The library's text without the characters that terminals obey."""
    shown = text.decode(errors="replace")
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in shown)


def _dim(table, place):
    size, text = struct.unpack_from("<qI", table, place)
    return size if size >= 0 else _text(table, text)


def _steps(table, place, symbols):
    """What computes a dim on a stack: operations, and numbers or the names of sizes."""
    size, first, count = struct.unpack_from("<q8x2I", table, place)
    if size >= 0:
        return [(1, size)]
    steps = [struct.unpack_from("<2q", table, first + 16 * n) for n in range(count)]
    return [(step, symbols[value] if step == 2 else value) for step, value in steps if step]


def _extent(steps, sizes):
    """The extent for these sizes; -1 where there is none."""
    stack = []
    for step, value in steps:
        if step <= 2:
            stack.append(sizes[value] if step == 2 else value)
            continue
        b, a = stack.pop(), stack.pop()
        if step >= 8 and b <= 0:
            return -1
        stack.append(_OPERATIONS[step](a, b))
    return stack[0]


_OPERATIONS = {
    3: operator.add, 4: operator.sub, 5: operator.mul, 6: min, 7: max, 8: operator.floordiv,
    9: operator.mod,
}
"""By their numbers in steps, those of the header's WEFT_STEP_..."""
''')


def python_module(library: Library) -> str:
    """A Python module that needs nothing but the standard library."""
    signature = library.signature
    arguments = [f"input{n}" for n in range(len(signature.inputs))]
    sizes = ", ".join(f"{python_literal(name)}: 1" for name in signature.symbols)
    return _MODULE.substitute(
        prefix=library.prefix, library=python_literal(library.name),
        arguments=", ".join([*arguments, *([f"**{{{sizes}}}"] if sizes else [])]),
    )  # fmt: skip
