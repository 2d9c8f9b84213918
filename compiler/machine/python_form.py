"""A module of Python for those who use a shared object without weft: it reads what the model takes
and gives from the library's own table (docs/abi.md).
"""

from __future__ import annotations

from typing import Final

from compiler.machine.signature import Signature

_MODULE: Final = '''\
"""{prefix}, a model compiled by weft, through ctypes alone: no other package is needed.

    import {module}
    outputs = {module}.Model().run({arguments})

Inputs are anything with a buffer (bytes, array.array, numpy.ndarray) of the right size, outputs are
ctypes arrays, for which numpy.ctypeslib.as_array makes no copy. Sizes that vary are taken from
inputs that have a shape, or given by name.
"""

import ctypes
import pathlib
import struct

_TYPES = {{
    "float32": ctypes.c_float, "float64": ctypes.c_double, "float16": ctypes.c_uint16,
    "bfloat16": ctypes.c_uint16, "int8": ctypes.c_int8, "int16": ctypes.c_int16,
    "int32": ctypes.c_int32, "int64": ctypes.c_int64, "uint16": ctypes.c_uint16,
    "uint32": ctypes.c_uint32, "uint64": ctypes.c_uint64,
}}
"""Elements of other types are bytes."""
_NONE = 0xFFFFFFFF


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

    def __init__(self, table, place):
        name, dtype, self.bytes, rank, dims = struct.unpack_from("<2I4x3I", table, place)
        (flags,) = struct.unpack_from("<I", table, place + 28)
        self.name, self.dtype = _text(table, name), _text(table, dtype)
        self.kind, self.is_made = _TYPES.get(self.dtype, ctypes.c_uint8), bool(flags & 1)
        stride, axes = _word(table, 28), range(rank)
        self.dims = tuple(_dim(table, dims + axis * stride) for axis in axes)

    def __repr__(self):
        return f"{{self.name}}: {{self.dtype}} {{list(self.dims)}}"

    def count(self, sizes):
        """The number of elements for these sizes."""
        count = 1
        for dim in self.dims:
            text = str(dim).replace("floordiv", "//").replace(" mod ", " % ")
            count *= eval(text, {{"__builtins__": {{}}, "max": max, "min": min}}, dict(sizes))
        return count


class Model:
    """The loaded model; `threads` compute a call, one for each processor by default. `inputs` and
    `outputs` are its Tensors, `sizes` the names of sizes that vary, `found` of those that a call
    finds.
    """

    def __init__(self, threads=0, library=pathlib.Path(__file__).with_name("lib{stem}.so")):
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
            raise RuntimeError(self._error(None).decode())

    def _read_table(self, address):
        (size,) = struct.unpack("<Q", ctypes.string_at(address + 8, 8))
        table = ctypes.string_at(address, size)
        if _word(table, 16) != 1:
            raise RuntimeError(f"{module} requires ABI version 1, got {{_word(table, 16)}}")
        self.inputs, self.outputs = (
            [Tensor(table, _word(table, at) + n * _word(table, 24))
             for n in range(_word(table, at + 4))]
            for at in (80, 88)
        )
        free, found = _word(table, 72), _word(table, 76)
        symbols = [
            struct.unpack_from("<4I", table, _word(table, 68) + n * _word(table, 32))
            for n in range(free + found)
        ]
        names = [_text(table, name) for name, *_ in symbols]
        self.sizes, self.found = names[:free], names[free:]
        self._places = {{
            name: place for name, (_, _, *place) in zip(self.sizes, symbols) if place[0] != _NONE
        }}
        self.has_self_test = bool(_word(table, 20) & 1)

    def _function(self, name, result, *arguments):
        function = getattr(self._library, "{prefix}_" + name)
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
            raise RuntimeError(self._error(self._context).decode())

    def run(self, *inputs, **sizes):
        """The outputs for these inputs, in their order."""
        if len(inputs) != len(self.inputs):
            raise TypeError(f"run requires {{len(self.inputs)}} inputs, got {{len(inputs)}}")
        sizes = self._find_sizes([memoryview(value) for value in inputs], sizes)
        dims = (ctypes.c_int64 * (1 + len(self.sizes) + len(self.found)))(
            *(sizes[name] for name in self.sizes)
        )
        given = [self._buffer(*pair, sizes) for pair in zip(self.inputs, inputs)]
        outputs = [
            None if each.is_made else (each.kind * each.count(sizes))() for each in self.outputs
        ]
        size = self._size(dims)
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
            raise RuntimeError(self._error(self._context).decode())
        sizes.update(zip(self.found, dims[len(self.sizes) :]))
        made = [n for n, each in enumerate(self.outputs) if each.is_made]
        for n in made:
            outputs[n] = (self.outputs[n].kind * self.outputs[n].count(sizes))()
            ctypes.memmove(outputs[n], tables[1][n], ctypes.sizeof(outputs[n]))
            self._release(self._context, tables[1][n])
        return outputs

    def _find_sizes(self, views, sizes):
        """The sizes by name: those that are given, or of an input that has a shape."""
        found = dict(sizes)
        for name, (number, axis) in self._places.items():
            if name not in found and views[number].ndim == len(self.inputs[number].dims) > 1:
                found[name] = views[number].shape[axis]
        if found.keys() != set(self.sizes):
            raise TypeError(f"run requires the sizes {{self.sizes}}, got {{list(found)}}")
        return found

    @staticmethod
    def _buffer(tensor, value, sizes):
        data = memoryview(value).cast("B")
        kind = tensor.kind * tensor.count(sizes)
        if data.nbytes != ctypes.sizeof(kind):
            rule = f"run requires {{ctypes.sizeof(kind)}} bytes of {{tensor!r}}"
            where = ", ".join(f"{{name}} = {{size}}" for name, size in sizes.items())
            raise ValueError(f"{{rule}} where {{where}}, got {{data.nbytes}}")
        return kind.from_buffer_copy(data)


def _table(buffers):
    addresses = (None if each is None else ctypes.addressof(each) for each in buffers)
    return (ctypes.c_void_p * max(1, len(buffers)))(*addresses)


def _word(table, place):
    return struct.unpack_from("<I", table, place)[0]


def _text(table, place):
    return table[place : table.index(b"\\0", place)].decode()


def _dim(table, place):
    size, text = struct.unpack_from("<qI", table, place)
    return size if size >= 0 else _text(table, text)
'''


def python_module(prefix: str, stem: str, signature: Signature) -> str:
    """A Python module that needs nothing but the standard library."""
    arguments = [f"input{n}" for n in range(len(signature.inputs))]
    arguments += [f"{name}=1" for name in signature.symbols]
    return _MODULE.format(prefix=prefix, stem=stem, module=prefix, arguments=", ".join(arguments))
