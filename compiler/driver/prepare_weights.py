"""The weights of planned programs: what they read, in which layout, and what brings them there,
this process or kernels in the artifact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.compiler.driver.derive_weights import DerivedWeights
from weft.compiler.driver.options import Options
from weft.compiler.graph_to_loop.naive_kernels import canonicalize_kernel, copy_kernel
from weft.compiler.loop_to_llvm.kernel import emit_kernel, kernel_symbol
from weft.compiler.loop_to_llvm.program.emit import WeightKey
from weft.compiler.loop_to_llvm.runtime.external_weights import (
    ExternalWeights,
    PreparedWeight,
    PreparedWeights,
)
from weft.compiler.machine.codegen.object_code import compile_object
from weft.compiler.machine.weights.file import CALLER, EMBEDDED, FILE, data_bytes, file_header
from weft.compiler.machine.weights.prepare import (
    Slicing,
    Weights,
    WeightSource,
    WeightTransform,
    share_equal,
)
from weft.compiler.machine.weights.prepared import weight_offsets, weights_digest
from weft.compiler.target.features import baseline
from weft.dialects.expr import Atom, Expr, Operand, Quotient, product
from weft.dialects.loop.program import KernelOp
from weft.dialects.loop.types import BufferType, ExprsAttr, LayoutAttr, buffer
from weft.dialects.weights import WeightStore

_PREPARE = "prepare"


def prepare_weights(keys: Sequence[WeightKey], weights: WeightStore, options: Options) -> Weights:
    """All weights that programs read; each is made when it is asked for. Equal forms of a tensor
    are one, unless other values may come.
    """
    arrays = {key: weights[key] for key in weights}
    names = _transform_names(keys)
    transforms = {name: _weight_transform(buffer_type) for buffer_type, name in names.items()}
    sources = _weight_sources(keys, weights, names)
    made = Weights(sources, sources, arrays, transforms)
    return made if options.artifact.weights == CALLER else share_equal(made)


def _is_plain(buffer_type: BufferType) -> bool:
    """Whether a weight of this type is read as the store has it."""
    return buffer_type == buffer(buffer_type.shape, buffer_type.element)


def _weight_sources(
    keys: Sequence[WeightKey], weights: WeightStore, names: Mapping[BufferType, str]
) -> list[WeightSource]:
    """Where the entries of the artifact's table come from."""
    sources: list[WeightSource] = []
    for key, buffer_type in keys:
        elements = buffer_type.size.constant
        assert elements is not None, "a weight has a static shape"
        sources.append(WeightSource(key, names.get(buffer_type), elements, weights[key].dtype.name))
    return sources


def _transform(buffer_type: BufferType) -> KernelOp:
    kernel = copy_kernel(buffer(buffer_type.shape, buffer_type.element), buffer_type)
    canonicalize_kernel(kernel)
    return kernel


def _transform_kernels(keys: Sequence[WeightKey]) -> dict[BufferType, KernelOp]:
    """The kernels that bring weights into the layouts that programs read."""
    derived = dict.fromkeys(each for _, each in keys if not _is_plain(each))
    return {each: _transform(each) for each in derived}


def _transform_names(keys: Sequence[WeightKey]) -> dict[BufferType, str]:
    """The symbols of these kernels."""
    kernels = _transform_kernels(keys).items()
    return {each: kernel_symbol(_PREPARE, kernel.sym_name.data) for each, kernel in kernels}


def _weight_transform(buffer_type: BufferType) -> WeightTransform:
    """How this process brings a tensor into the layout, a part of it at a time where that permits
    it.
    """
    slicing, part = _sliced(buffer_type)
    shape = tuple(dim.evaluate({}) for dim in buffer_type.shape)
    indices = [Expr.of(Operand(axis)) for axis in range(part.rank)]
    return WeightTransform(shape, part.address(indices), slicing)


def _sliced(buffer_type: BufferType) -> tuple[Slicing | None, BufferType]:
    """How a tensor is brought into a layout some rows of storage at a time, and the type of such a
    part, `n` indices long; None and the type itself where rows depend on more than one dimension.

        [768, 768], [(d1 floordiv 16), d0, (d1 mod 16)] in [48, 768, 16]
        -> [768, n], ... in [((n + 15) floordiv 16), 768, 16], 16 indices of d1 a row
    """
    assert isinstance(buffer_type.layout, LayoutAttr), "a weight that is transformed has a layout"
    first, *rest = buffer_type.storage
    for axis, extent in enumerate(buffer_type.shape):
        step = _indices_in_row(buffer_type.layout, axis)
        if step is None or first != extent.ceildiv(step):
            continue
        elements = product(rest).constant
        assert elements is not None, "a weight has a static shape"
        shape = (*buffer_type.shape[:axis], Expr.of("n"), *buffer_type.shape[axis + 1 :])
        storage = ExprsAttr((Expr.of("n").ceildiv(step), *rest))
        layout = LayoutAttr(buffer_type.layout.subscripts, storage)
        return Slicing(axis, step, elements), buffer(shape, buffer_type.element, layout)
    return None, buffer_type


def _indices_in_row(layout: LayoutAttr, axis: int) -> int | None:
    """How many indices of a dimension are in a row of storage, None unless it alone says which row
    this is, and rows are alike.
    """
    lead, *others = layout.subscripts.data
    index = Expr.atom(Operand(axis))
    atoms = [atom for monomial in lead.terms for atom in monomial]
    for step in (1, *(each.divisor.constant for each in atoms if isinstance(each, Quotient))):
        if step is None or lead != index // step:
            continue
        moved: dict[Atom, Expr] = {Operand(axis): index + step}
        return step if all(each.substitute(moved) == each for each in others) else None
    return None


def derived_weights(
    keys: Sequence[WeightKey], weights: WeightStore, options: Options
) -> DerivedWeights | None:
    """What the artifact makes of a caller's tensors; None where none come from a caller."""
    if options.artifact.weights != CALLER:
        return None
    return DerivedWeights.of([key for key, _ in keys], weights)


def transform_objects(
    keys: Sequence[WeightKey], derived: DerivedWeights | None, options: Options
) -> dict[str, bytes]:
    """The transforms by name, where the artifact has to have them, for any processor of its
    architecture, and what they read beside the caller's tensors.
    """
    if derived is None:
        return {}
    prefix, target = kernel_symbol(options.prefix, _PREPARE), baseline(options.target)
    kernels = _transform_kernels(keys).values()
    return derived.objects(options) | {
        f"{_PREPARE}_{kernel.sym_name.data}": compile_object(
            emit_kernel(kernel, target, prefix=prefix), target
        )
        for kernel in kernels
    }


def describe_weights(
    weights: Weights, derived: DerivedWeights | None, options: Options
) -> dict[str, object]:
    """What an artifact says of its weights: of each that its kernels read, name, dtype, and place;
    of the tensors of a caller, where it prepares them, name, dtype and dims.
    """
    metadata: dict[str, object] = {
        "weights_in": options.artifact.weights,
        "weights": [
            {
                "name": source.name,
                "dtype": source.dtype,
                "bytes": weights.bytes(source),
                "offset": offset,
            }
            for source, offset in zip(weights.sources, weight_offsets(weights), strict=True)
        ],
    }
    if options.artifact.weights == FILE:
        metadata["weights_sha256"] = weights_digest(weights)
    if derived is not None:
        metadata["logical_weights"] = [
            {
                "name": key,
                "dtype": weights.arrays[key].dtype.name,
                "dims": list(weights.arrays[key].shape),
            }
            for key in derived.given
        ]
        metadata["fixed_weights"] = derived.store.fixed
    return metadata


def external_weights(
    weights: Weights,
    derived: DerivedWeights | None,
    metadata: Mapping[str, object],
    options: Options,
) -> ExternalWeights | None:
    """What the run time has to know of weights that are not in the artifact."""
    if options.artifact.weights == EMBEDDED:
        return None
    offsets = weight_offsets(weights)
    sizes = [
        {"offset": offset, "bytes": weights.bytes(one)}
        for one, offset in zip(weights.sources, offsets, strict=True)
    ]
    header = file_header(metadata) if options.artifact.weights == FILE else b""
    prepared = None if derived is None else _prepared(weights, derived)
    return ExternalWeights(offsets, header, data_bytes(sizes), prepared)


def _prepared(weights: Weights, derived: DerivedWeights) -> PreparedWeights:
    """How the run time makes the weights."""
    each = [
        PreparedWeight(offset, weights.bytes(one), derived.number(one.key), one.transform)
        for one, offset in zip(weights.sources, weight_offsets(weights), strict=True)
    ]
    return PreparedWeights(each, len(derived.given), derived.own_offsets, derived.tensors())
