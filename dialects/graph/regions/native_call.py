"""Calls of functions that users bring along as machine code, with signatures that they declare."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from msgspec import Struct
from xdsl.context import Context
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, LocationAttr, StringAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    ParsePropInAttrDict,
    irdl_op_definition,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.traits import Pure
from xdsl.utils.exceptions import ParseError

from weft.dialects.errors import OptionError, UnsupportedError
from weft.dialects.expr import Atom, Expr, Symbol
from weft.dialects.expr_text import is_size_name, parse_expr
from weft.dialects.graph.core.dtypes import element_type
from weft.dialects.graph.core.op import InferTypeOp
from weft.dialects.graph.core.types import BOOL, TensorType, tensor, type_of
from weft.dialects.loop.effects import NATIVE_CODE
from weft.dialects.loop.scalar import width


class NativeFunction(Struct, frozen=True):
    """A function of an object file, or one of this process by its address. Its signature has the
    types of what it reads, whose dims are numbers or names of sizes, and of what it fills, whose
    dims are expressions over these:

        scale(float32[n, m], float32[m]) -> float32[n, m]

    In C it is `void scale(const float *, const float *, float *, int64_t n, int64_t m)`: the
    addresses of dense tensors by rows, then the sizes in the order of their names. `onnx` is the
    name of nodes that call it, behind their domain and a dot where that is not the default one.
    """

    signature: str
    code: bytes | int
    onnx: str = ""

    @property
    def declared(self) -> NativeSignature:
        """The types of the signature. Raises OptionError for a text that is none."""
        return native_signature(self.signature)

    def call(
        self, values: Sequence[SSAValue], location: LocationAttr | None = None
    ) -> NativeCallOp:
        """The operator that calls it. Raises TypeInferenceError for operands of other types."""
        code: Attribute = (
            IntegerAttr(self.code, i64)
            if isinstance(self.code, int)
            else StringAttr(base64.b64encode(self.code).decode())
        )
        properties = {"signature": StringAttr(self.signature), "code": code}
        op = NativeCallOp.create(operands=values, properties=properties, location=location)
        op.set_results()
        return op


class NativeSignature(Struct, frozen=True):
    """The name of a native function, and the types of what it reads and fills."""

    name: str
    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]

    @property
    def sizes(self) -> tuple[str, ...]:
        """The names of sizes, in the order in which operands have them first."""
        dims = (dim for each in self.operands for dim in each.shape if dim.constant is None)
        return tuple(dict.fromkeys(str(dim) for dim in dims))


@lru_cache(maxsize=256)
def native_signature(text: str) -> NativeSignature:
    """Parses `name(float32[n, 4], ...) -> float32[n + 1]`, or `-> (float32[n], int64[])`. Raises
    OptionError for what is none.
    """
    rule = "a native kernel requires a signature like 'f(float32[n, m]) -> float32[n]'"
    try:
        found = _parse(text)
    except (ParseError, TypeError, UnsupportedError) as error:
        raise OptionError(f"{rule}, got {text!r}") from error
    names = [str(dim) for each in found.operands for dim in each.shape if dim.constant is None]
    unknown = [each for each in names if not is_size_name(each)]
    for result in found.results:
        unknown += [each for dim in result.shape for each in dim.symbols() if each not in names]
    if unknown:
        sizes = "sizes that operands have as dims of their own"
        raise OptionError(f"the signature of {found.name} requires {sizes}, got {unknown[0]}")
    narrow = [
        each.element
        for each in (*found.operands, *found.results)
        if each.element != BOOL and width(each.element) % 8
    ]
    if narrow:
        raise OptionError(f"{found.name} requires elements of whole bytes, got {narrow[0]}")
    return found


def _parse(text: str) -> NativeSignature:
    parser = Parser(Context(), text.strip(), "<signature>")
    name = parser.parse_identifier()
    operands = parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: _parse_tensor(parser)
    )
    parser.parse_punctuation("->")
    results = parser.parse_optional_comma_separated_list(
        parser.Delimiter.PAREN, lambda: _parse_tensor(parser)
    )
    if results is None:
        results = [_parse_tensor(parser)]
    is_name = name.isidentifier() and name.isascii()
    if parser.pos != len(text.strip()) or not is_name or not results:
        parser.raise_error("a name, tensors and an end are expected")
    return NativeSignature(name, tuple(operands), tuple(results))


def _parse_tensor(parser: Parser) -> TensorType:
    dtype = np.dtype(parser.parse_identifier())
    dims = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_expr(parser))
    return tensor(dims, element_type(dtype))


@irdl_op_definition
class NativeCallOp(InferTypeOp):
    """Calls a function of an object file, whose bytes `code` has in base 64, or at an address of
    this process. It is pure: it is left out where nothing reads its results.

    %y = graph.native_call "f(float32[n]) -> float32[n]"(%x) code "f0VM" : (T) -> T
    """

    name = "graph.native_call"
    signature: StringAttr = prop_def(StringAttr)
    code: StringAttr | IntegerAttr[IntegerType | IndexType] = prop_def(NATIVE_CODE)
    values: Sequence[SSAValue] = var_operand_def(TensorType)
    found: Sequence[SSAValue] = var_result_def(TensorType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$signature `(` $values `)` `code` $code attr-dict `:` functional-type($values, $found)"
    )

    @property
    def declared(self) -> NativeSignature:
        """The types that are declared."""
        return native_signature(self.signature.data)

    def sizes(self) -> Mapping[str, Expr]:
        """What the names of sizes stand for, in their order."""
        pairs = self._dims()
        names = self.declared.sizes
        first = {str(dim): size for dim, size in reversed(pairs) if dim.constant is None}
        return {name: first[name] for name in names}

    def assumptions(self) -> Sequence[tuple[Expr, Expr]]:
        """Pairs of sizes that are equal if the operands are as declared."""
        values = self._symbols()
        pairs = [(size, dim.substitute(values)) for dim, size in self._dims()]
        return [pair for pair in pairs if pair[0] != pair[1]]

    def infer(self) -> Sequence[TensorType]:
        declared = self.declared
        given = [type_of(each) for each in self.values]
        wanted = f"{len(declared.operands)} operands of {declared.name}"
        self.require(len(given) == len(declared.operands), wanted, len(given))
        for position, (one, other) in enumerate(zip(declared.operands, given, strict=True)):
            fits = other.has_rank and (one.rank, one.element) == (other.rank, other.element)
            self.require(fits, f"operand {position} of {declared.name} to be {one}", other)
        for one, other in self.assumptions():
            differs = (one - other).constant is not None
            self.require(not differs, f"{declared.name}'s sizes as declared", f"{one} and {other}")
        values = self._symbols()
        return [
            tensor([dim.substitute(values) for dim in each.shape], each.element)
            for each in declared.results
        ]

    def _dims(self) -> list[tuple[Expr, Expr]]:
        """The dims that are declared, and those of the operands."""
        types = zip(self.declared.operands, map(type_of, self.values), strict=True)
        return [pair for one, other in types for pair in zip(one.shape, other.shape, strict=True)]

    def _symbols(self) -> dict[Atom, Expr]:
        return {Symbol(name): size for name, size in self.sizes().items()}
