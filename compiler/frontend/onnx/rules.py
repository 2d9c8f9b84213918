"""What ONNX says of operators in prose alone: the dims of operands, and the values of attributes
that no importer reads.

Importers read axes, shapes and bounds as lists of numbers, which have lost their rank, and reshape
parameters: so dims are checked here, once for all operators. Operators without an importer are
imported by the functions that ONNX defines them by, which take every other value for the default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import NodeProto
from xdsl.ir import SSAValue

from weft.compiler.frontend.onnx.node import attribute_value, never_equal
from weft.compiler.frontend.onnx.ops.reductions import REDUCTIONS
from weft.compiler.frontend.onnx.ops.training import DOMAIN as TRAINING
from weft.compiler.frontend.onnx.values import Value
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.graph.core.op import AttributeValue
from weft.dialects.graph.core.types import Shape, type_of

ONE = "-|1"
RECURRENT = ("dgi", "dgh", "dt", "b")
LOSS = ("nc~", "n~", "c")

DIMS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(REDUCTIONS, ("*", ".")),
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), (ONE,)),
    **{f"{TRAINING}.{name}": (ONE, ONE) for name in ("Adagrad", "Adam", "Momentum")},
    **dict.fromkeys(("GRU", "RNN"), ("sbi", *RECURRENT, "dbh")),
    **dict.fromkeys(("GRU 1", "RNN 1"), ("bsi", *RECURRENT, "bdh")),
    "LSTM": ("sbi", *RECURRENT, "dbh", "dbh", "dp"),
    "LSTM 1": ("bsi", *RECURRENT, "bdh", "bdh", "dp"),
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), LOSS),
    "AffineGrid": ("n23|n34", "4|5"),
    "Attention": (*("b..|b...", "b..|b...", "b..|b...", ".|..|...|....", "b...", "b...", "b"),),
    "CausalConvWithState": ("bcl", "c1k", "c", "bc."),
    "CenterCropPad": ("*", "A"),
    "Clip": ("*", ONE, ONE),
    "Col2Im": ("nkl", "r", "r"),
    "Compress": ("*", "."),
    "ConstantOfShape": (".",),
    "Conv": ("*", "m*", "m"),
    "ConvInteger": ("*", "m*", ONE, "-|1|m"),
    "CumProd": ("*", ONE),
    "CumSum": ("*", ONE),
    "DFT": ("*", "-", "-"),
    "DeformConv": ("n*", "m&", "no~", "m", "nk~"),
    "Dropout": ("*", "-", "-"),
    "Expand": ("*", "."),
    "GroupNormalization": ("nc*", "c", "c"),
    "InstanceNormalization": ("nc*", "c", "c"),
    "LinearAttention": ("bt.", "bt.", "bt.", "b...", "bt.", "bt."),
    "Loop": (ONE, ONE),
    "MaxUnpool": ("~", "~", "R"),
    "MelWeightMatrix": (ONE,) * 5,
    "NonMaxSuppression": ("bn4", "bcn", ONE, ONE, ONE),
    "OneHot": ("*", ONE, "2"),
    "Pad": ("*", ".", ONE, "."),
    "QLinearConv": ("*", ONE, ONE, "m*", "-|1|m", "-|1|m", ONE, ONE, "m"),
    "Range": (ONE,) * 3,
    "Reshape": ("*", "."),
    "Resize": ("*", ".", ".", "."),
    "ReverseSequence": ("*", "."),
    "RoiAlign": ("nchw", "r4", "r"),
    "RotaryEmbedding": ("bs.|bhs.", "pe|bse", "pe|bse", "bs"),
    "STFT": ("...", ONE, ".", "-"),
    "SequenceAt": ("*", ONE),
    "SequenceErase": ("*", ONE),
    "SequenceInsert": ("*", "*", ONE),
    "Slice": ("*", "k", "k", "k", "k"),
    "Split": ("*", "."),
    "SplitToSequence": ("*", "-|."),
    "Squeeze": ("*", "."),
    "TensorScatter": ("b*", "b&", "b"),
    "Tile": ("*", "R"),
    "TopK": ("*", "1"),
    "Trilu": ("*", ONE),
    "Unsqueeze": ("*", "-|."),
}
"""The dims of operands, by operator, and for some by their `layout`.

A letter is a dim, the same for all operands that have it, a digit that dim, `.` any one, and `-`
none. At the end, `*` is any more of them, `~` more that are the same for all operands that have it,
`&` as many as the first operand has in all. `R` and `A` are its rank, and how many axes the node
names; `|` is between ways.
"""

CHOICES: Mapping[str, Mapping[str, Sequence[AttributeValue]]] = {
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), {"periodic": (0, 1)}),
    **dict.fromkeys(
        ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"),
        {"reduction": ("none", "sum", "mean")},
    ),
    "AffineGrid": {"align_corners": (0, 1)},
    "Attention": {"is_causal": (0, 1), "qk_matmul_output_mode": (0, 1, 2, 3)},
    "CausalConvWithState": {"activation": ("silu", "swish", "none")},
    "LinearAttention": {"update_rule": ("linear", "gated", "delta", "gated_delta")},
    "RotaryEmbedding": {"interleaved": (0, 1)},
}
"""The values of attributes of operators that are imported by functions, by operator."""

LEAST: Mapping[str, Mapping[str, float]] = {
    "Attention": {"left_window_size": -1, "right_window_size": -1, "softcap": 0}
}
"""The least numbers of such attributes that mean something."""


def check_rules(node: NodeProto, operands: Sequence[Value | None]) -> None:
    """Raises ModelError for an operand of other dims than its operator takes there,
    UnsupportedError for an attribute whose value has no meaning.
    """
    name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    if name not in DIMS and name not in CHOICES:
        return
    attributes = {each.name: each for each in node.attribute}
    for key, allowed in CHOICES.get(name, {}).items():
        value = attribute_value(attributes[key]) if key in attributes else allowed[0]
        if value not in allowed:
            listed = ", ".join(map(str, allowed))
            raise UnsupportedError(f"requires {key} out of {listed}, got {value}")
    for key, least in LEAST.get(name, {}).items():
        if key in attributes and not (attributes[key].i + attributes[key].f >= least):
            value = attribute_value(attributes[key])
            raise UnsupportedError(f"requires {key} of at least {least}, got {value}")
    layout = " 1" if "layout" in attributes and attributes["layout"].i else ""
    patterns = DIMS.get(name + layout, ())
    axes = len(attributes["axes"].ints) if "axes" in attributes else None
    check_dims(patterns, operands, axes)
    if name == "Attention":
        _check_mask([_shape(operands, position) for position in range(len(patterns))])


def check_dims(
    patterns: Sequence[str], operands: Sequence[Value | None], axes: int | None = None
) -> None:
    """Raises ModelError for an operand of other dims than its pattern says; `axes` is how many the
    node names.
    """
    shapes = [_shape(operands, position) for position in range(len(patterns))]
    rank = len(shapes[0]) if shapes and shapes[0] is not None else None
    known = {"R": rank, "A": rank if axes is None else axes}
    dims = _Dims({name: size for name, size in known.items() if size is not None})
    for position, (pattern, shape) in enumerate(zip(patterns, shapes, strict=True)):
        ways = pattern.split("|")
        if shape is not None and not any(dims.take(way, shape) for way in ways):
            rule = f"operand {position} requires dims {' or '.join(map(dims.shown, ways))}"
            raise ModelError(f"{rule}, got [{', '.join(map(str, shape))}]")


def _check_mask(shapes: Sequence[Shape | None]) -> None:
    """Refuses masks of more positions than Attention has keys: ONNX's function cuts them off."""
    _, keys, _, mask, past, *_ = shapes
    if keys is not None and mask is not None:
        count = keys[-2] + (past[-2] if past is not None else 0)
        if (below := (count - mask[-1]).constant) is not None and below < 0:
            raise ModelError(f"requires a mask of at most {count} positions, got {mask[-1]}")


def _shape(operands: Sequence[Value | None], position: int) -> Shape | None:
    """The dims of the tensor at a position, if there is one, and its rank is known."""
    value = operands[position] if position < len(operands) else None
    if not isinstance(value, SSAValue) or not type_of(value).has_rank:
        return None
    return type_of(value).shape


class _Dims:
    """What the letters of patterns stand for, as far as operands have shown."""

    def __init__(self, known: dict[str, int]) -> None:
        self.known = known
        self._rest: Shape | None = None

    def take(self, pattern: str, shape: Shape) -> bool:
        """Whether dims are as a pattern says; the sizes of its letters are known then."""
        letters, end = pattern.rstrip("-*~&"), pattern[-1]
        least = self.known.get("R", 0) if end == "&" else len(letters)
        if len(shape) < least or (end not in "*~" and len(shape) > max(least, len(letters))):
            return False
        pairs = [(each, dim.constant) for each, dim in zip(letters, shape, strict=False)]
        found = {each: size for each, size in pairs if each != "." and size is not None}
        if any(self._size(each, size) != size for each, size in found.items()):
            return False
        self.known.update({each: size for each, size in found.items() if not each.isdigit()})
        return end != "~" or self._take_rest(shape[len(letters) :])

    def shown(self, pattern: str) -> str:
        """A pattern as messages have it: `bn4` is [b, n, 4], and [2, n, 4] once b is known."""
        dims = [str(self.known.get(each, each)) for each in pattern.rstrip("-*~&")]
        dims += ["..."] * (pattern[-1] in "*~&")
        return f"[{', '.join('?' if each == '.' else each for each in dims)}]"

    def _size(self, letter: str, default: int) -> int:
        return int(letter) if letter.isdigit() else self.known.get(letter, default)

    def _take_rest(self, rest: Shape) -> bool:
        """Whether dims are the same as where a pattern named them first, unless a call alone
        knows.
        """
        self._rest = rest if self._rest is None else self._rest
        return not never_equal(self._rest, rest)
