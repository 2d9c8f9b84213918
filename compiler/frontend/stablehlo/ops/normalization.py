"""Batch normalisation: each feature of a batch by its own mean and variance."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from xdsl.dialects.builtin import FloatAttr

from weft.compiler.frontend.stablehlo.node import HloImporter, Node
from weft.dialects.errors import ModelError, UnsupportedError
from weft.dialects.expr import product
from weft.dialects.graph.core.algebra import Term, size_term
from weft.dialects.graph.core.types import BF16, F16, F32, FLOATS


class Features(Struct, frozen=True):
    """The dim that counts the features, and what is added to variances."""

    axis: int
    epsilon: float

    def spread(self, values: Term, like: Term) -> Term:
        """A value of each feature, along the dim of a tensor."""
        return values.reshape([
            size if at == self.axis else 1 for at, size in enumerate(like.shape)
        ])  # fmt: skip

    def sums(self, x: Term) -> Term:
        """The sum of each feature's elements."""
        return x.sum([at for at in range(len(x.shape)) if at != self.axis])

    def count(self, x: Term) -> Term:
        """How many elements each feature has."""
        dims = [size for at, size in enumerate(x.shape) if at != self.axis]
        return size_term(x.b, product(dims), x.type.element)

    def root(self, variance: Term) -> Term:
        """The deviation that elements are divided by."""
        return (variance + self.epsilon).math("sqrt")


def inference(f: Features, x: Term, scale: Term, offset: Term, mean: Term, variance: Term) -> Term:
    """`(x - mean) / sqrt(variance + epsilon) * scale + offset`."""
    normal = (x - f.spread(mean, x)) / f.spread(f.root(variance), x)
    return normal * f.spread(scale, x) + f.spread(offset, x)


def training(f: Features, x: Term, scale: Term, offset: Term) -> Sequence[Term]:
    """The same by the batch's own mean and variance, and these."""
    mean = f.sums(x) / f.count(x)
    centred = x - f.spread(mean, x)
    variance = f.sums(centred * centred) / f.count(x)
    return [inference(f, x, scale, offset, mean, variance), mean, variance]


def gradient(
    f: Features, x: Term, scale: Term, mean: Term, variance: Term, slope: Term
) -> Sequence[Term]:
    """The slopes of what `training` has normalised by `x`, by the scale and by the offset."""
    centred, count, root = x - f.spread(mean, x), f.count(x), f.root(variance)
    of_offset, of_products = f.sums(slope), f.sums(slope * centred)
    along = f.spread(of_products / (variance + f.epsilon), x)
    rest = slope - (f.spread(of_offset, x) + centred * along) / count
    return [f.spread(scale / root, x) * rest, of_products / root, of_offset]


def of_features(function: Callable[..., Term | Sequence[Term]]) -> HloImporter:
    """A formula of features, of halves in f32."""

    def build(node: Node) -> Sequence[Term]:
        element, epsilon = node.only.type.element, node.written.get("epsilon")
        if element not in FLOATS:
            raise UnsupportedError(f"requires floats, got {element}")
        if not isinstance(epsilon, FloatAttr):
            raise ModelError(f"requires a number epsilon, got {epsilon}")
        features = Features(node.integer("feature_index"), epsilon.value.data)
        work = F32 if element in (F16, BF16) else element
        found = function(features, *(each.cast(work) for each in node.operands))
        return [each.cast(element) for each in ([found] if isinstance(found, Term) else found)]

    return build


NORMALIZATION = {
    "batch_norm_grad": of_features(gradient),
    "batch_norm_inference": of_features(inference),
    "batch_norm_training": of_features(training),
}
"""By the name in StableHLO."""
