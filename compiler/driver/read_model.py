"""A model as the options want it, on the graph level; and what is known of its artifact then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.compiler.driver.bucket_signature import bucket_signature
from weft.compiler.driver.compile_run_time import likely_run_time
from weft.compiler.driver.extension import Extension
from weft.compiler.driver.options import BUCKET_ELSE, BUCKET_FIT, Options
from weft.compiler.driver.session import Session
from weft.compiler.frontend.frontends import ImportOptions, find_frontend
from weft.compiler.frontend.onnx.from_onnx import ImportedModel, Source
from weft.compiler.frontend.onnx.ops.composites import COMPOSITES
from weft.compiler.graph.bound_sizes import bound_sizes, graph_function, input_sizes
from weft.compiler.graph.share_weights import replace_constants
from weft.compiler.machine.artifact.signature import Signature, TensorSpec
from weft.compiler.machine.weights.file import CALLER
from weft.dialects.budget import Budget
from weft.dialects.errors import ModelError, OptionError, UnsupportedError
from weft.dialects.graph import OPS
from weft.dialects.graph.core.dtypes import numpy_dtype
from weft.dialects.graph.core.types import TensorType, type_of


def begin(source: Source | ImportedModel, session: Session) -> ImportedModel:
    """Imports the model of a session, and lets its worker compile the run time that is likely."""
    session.on_stage("import", 0, 1)
    with session.report.stage("import"):
        imported = _read(source, session)
    if session.worker is not None:
        signature, has_weights = _likely_signature(imported), bool(imported.weights)
        task = likely_run_time(signature, session.options, has_weights=has_weights)
        if task is not None:
            session.worker.begin(task)
    return imported


def _read(source: Source | ImportedModel, session: Session) -> ImportedModel:
    """The model; of one that is none but with the sizes of its buckets, which have no other copy,
    what it takes and gives.
    """
    options, extensions, budget = session.options, session.extensions, session.budget
    try:
        return read_model(source, options, extensions, budget=budget)
    except (ModelError, UnsupportedError):
        buckets, read_inputs = options.buckets, find_frontend(source).read_inputs
        whole = buckets.otherwise != BUCKET_ELSE[0] or buckets.fit != BUCKET_FIT[0]
        if not buckets.sizes or whole or options.artifact.self_test or read_inputs is None:
            raise
    table = buckets.combinations()
    made = [read_model(source, options, extensions, sizes, budget) for sizes in table]
    fixed = {each.name: each.size for each in options.dims}
    values = {each.name: each.array for each in options.values}
    imported = bucket_signature(read_inputs(source, fixed, values), table, made)
    bound_sizes(imported.module, options.bounds, fixed)
    return imported


def _likely_signature(imported: ImportedModel) -> Signature:
    """What the model takes and gives before passes have seen it: they may find an output's size."""
    function = graph_function(imported.module)
    returned = function.get_return_op()
    assert returned is not None, "a graph function returns"
    values = (*function.body.block.args, *returned.operands)
    names = (*imported.input_names, *imported.output_names)
    specs = [
        TensorSpec(name, numpy_dtype(type_of(value).element).name, _dims(type_of(value)))
        for name, value in zip(names, values, strict=True)
    ]
    count = len(imported.input_names)
    symbols = input_sizes(imported.module)
    shapes = [type_of(value).shape for value in returned.operands if type_of(value).has_rank]
    others = (name for shape in shapes for dim in shape for name in dim.symbols())
    found = (name for name in dict.fromkeys(others) if name not in symbols)
    return Signature(tuple(specs[:count]), tuple(specs[count:]), tuple(symbols), tuple(found))


def _dims(tensor_type: TensorType) -> tuple[int | str, ...]:
    """The sizes of a tensor; none where even how many there are is unknown."""
    shape = tensor_type.shape if tensor_type.has_rank else ()
    return tuple(str(dim) if dim.constant is None else dim.constant for dim in shape)


def read_model(
    source: Source | ImportedModel,
    options: Options,
    extensions: Sequence[Extension] = (),
    sizes: Mapping[str, int] | None = None,
    budget: Budget | None = None,
) -> ImportedModel:
    """Imports a model as the options say, which is checked to have the sizes that they bound;
    `sizes` are values of further ones. One that was imported already keeps its outputs: it raises
    OptionError for others.
    """
    sizes = {each.name: each.size for each in options.dims} | dict(sizes or {})
    values = {each.name: each.array for each in options.values}
    ops = (*OPS, *(op for extension in extensions for op in extension.ops))
    importers = dict(COMPOSITES)
    for extension in reversed(extensions):
        importers |= extension.onnx
    replaceable = options.artifact.weights == CALLER
    frontend = find_frontend(source)
    choices = options.outputs, sizes, values, replaceable, budget
    imported = frontend.read(source, ImportOptions(ops, importers, *choices))
    if frontend.finished:
        _require_no_choice(options)
        if replaceable:
            replace_constants(imported.module, imported.weights)
    bound_sizes(imported.module, options.bounds, sizes)
    return imported


def _require_no_choice(options: Options) -> None:
    """Refuses options that a front end would have to read a model by."""
    if options.outputs:
        got = ", ".join(options.outputs)
        raise OptionError(f"outputs require a model in a file, got {got} of a graph")
