"""What operators of onnxruntime's own domains take, which no schema of ONNX's package says.

In: a line for each operator. Out: importers that refuse every other node before they read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct
from xdsl.ir import Attribute, SSAValue

from weft.compiler.frontend.onnx.node import Importer, OnnxNode
from weft.compiler.frontend.onnx.rules import check_dims
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.graph.core.types import (
    BOOL,
    F32,
    FLOATS,
    I4,
    I8,
    I16,
    I32,
    I64,
    NUMBERS,
    UI4,
    UI8,
    UI16,
    type_of,
)

DOMAIN = "com.microsoft"

TYPES: Mapping[str, Sequence[Attribute]] = {
    "A": (BOOL, *NUMBERS),
    "B": (BOOL,),
    "C": (I8, UI8, *FLOATS),
    "D": (I8, UI8, I16, UI16, I32, I4, UI4),
    "E": (UI8, UI4, I4),
    "F": FLOATS,
    "I": (I32, I64),
    "L": (I32,),
    "Q": (I8, UI8),
    "S": (F32,),
    "U": (UI8,),
    "V": (UI8, *FLOATS),
}
"""The element types that a letter stands for. Operands of the same word, `F` or `Q1`, have one type
among them.
"""


class Signature(Struct, frozen=True):
    """An operator's importer, its operands as `name:type:dims`, and the attributes that it reads.

    A name that ends in `?` is one that may be absent, `...` stands for any more operands, and dims
    are patterns of `check_dims`. An attribute that ends in `!` is one that every node has.
    """

    importer: Importer
    operands: str
    attributes: str = ""


class _Operand(Struct, frozen=True):
    """One operand of a signature."""

    name: str
    type: str
    dims: str
    is_optional: bool


def importers(signatures: Mapping[str, Signature], domain: str = DOMAIN) -> dict[str, Importer]:
    """Importers by domain and operator, which check a node first."""
    prefix = f"{domain}." if domain else ""
    return {
        prefix + name: partial(_import_checked, signature) for name, signature in signatures.items()
    }


def _import_checked(signature: Signature, node: OnnxNode) -> Sequence[SSAValue]:
    _check_attributes(signature.attributes.split(), node)
    words = signature.operands.split()
    takes_more = words[-1] == "..."
    operands = [_operand(word) for word in (words[:-1] if takes_more else words)]
    if len(node.operands) > len(operands) and not takes_more:
        rule = f"requires at most {len(operands)} operands"
        raise ModelError(f"{rule}, got {len(node.operands)}")
    _check_types(operands, node)
    check_dims([each.dims for each in operands], node.operands)
    return signature.importer(node)


def _operand(word: str) -> _Operand:
    name, element, dims = word.split(":")
    return _Operand(name.rstrip("?"), element, dims, name.endswith("?"))


def _check_attributes(known: Sequence[str], node: OnnxNode) -> None:
    """Refuses attributes that the importer does not read: each of them changes what is meant."""
    names = {each.rstrip("!") for each in known}
    unknown = [each.name for each in node.proto.attribute if each.name not in names]
    if unknown:
        listed = ", ".join(sorted(names)) or "none"
        raise UnsupportedError(f"requires attributes out of {listed}, got {unknown[0]}")
    for name in known:
        if name.endswith("!"):
            node.attribute(name.rstrip("!"))


def _check_types(operands: Sequence[_Operand], node: OnnxNode) -> None:
    """Refuses an absent operand, one of another type, and two types where one is wanted."""
    bound: dict[str, Attribute] = {}
    for position, operand in enumerate(operands):
        if node.optional(position) is None:
            if not operand.is_optional:
                raise ModelError(f"requires its operand {operand.name}, got none")
            continue
        element, allowed = node.type(position).element, TYPES[operand.type[0]]
        if element not in allowed:
            listed = ", ".join(map(str, allowed))
            raise UnsupportedError(f"operand {operand.name} requires {listed}, got {element}")
        if bound.setdefault(operand.type, element) != element:
            rule = f"operand {operand.name} requires the type {bound[operand.type]} of others"
            raise ModelError(f"{rule}, got {type_of(node.operand(position))}")
