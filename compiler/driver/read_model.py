"""A model as the options want it, on the graph level; and what is known of its artifact then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.utils.hints import isa

from weft.compiler.driver.buckets.signature import bucket_signature
from weft.compiler.driver.extension import Extension
from weft.compiler.driver.options import BUCKET_ELSE, BUCKET_FIT, Options
from weft.compiler.driver.session import Session
from weft.compiler.frontend.frontends import ImportOptions, find_frontend
from weft.compiler.frontend.imported import ImportedModel, Source
from weft.compiler.graph.bound_sizes import bound_sizes, graph_function
from weft.compiler.graph.donate_inputs import donate_inputs
from weft.compiler.graph.probe import watch, watched_labels
from weft.compiler.graph.share_weights import replace_constants
from weft.compiler.machine.weights.file import CALLER
from weft.dialects.budget import Budget
from weft.dialects.errors import ModelError, OptionError, UnsupportedError
from weft.dialects.graph import OPS


def begin(source: Source | ImportedModel, session: Session) -> ImportedModel:
    """Imports the model of a session."""
    session.on_stage("import", 0, 1)
    with session.report.stage("import"):
        return _read(source, session)


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
    importers: dict[str, Any] = {}
    for extension in reversed(extensions):
        importers |= extension.importers()
    replaceable = options.artifact.weights == CALLER
    frontend = find_frontend(source)
    donated = {each.input: each.output for each in options.donate}
    choices = options.outputs, sizes, values, replaceable, budget, donated
    imported = frontend.read(source, ImportOptions(ops, importers, *choices))
    if frontend.finished and replaceable:
        replace_constants(imported.module, imported.weights)
    imported = _watched(imported, options.outputs, finished=frontend.finished)
    bound_sizes(imported.module, options.bounds, sizes)
    names = imported.input_names, imported.output_names
    donate_inputs(imported.module, *names, options.donate)
    return imported


def _watched(imported: ImportedModel, outputs: Sequence[str], *, finished: bool) -> ImportedModel:
    """A model that gives those of the outputs, too, which its graph watches. Raises OptionError for
    a choice for which the front end of a finished graph would have to read it again.
    """
    own = imported.output_names
    if finished and outputs and tuple(outputs[: len(own)]) != own:
        rule = f"outputs require a model in a file, or those of the graph first ({', '.join(own)})"
        raise OptionError(f"{rule}, got {', '.join(outputs)} of a graph")
    known = set(outputs[len(own) :] if finished else watched_labels(imported.module))
    labels = [name for name in outputs if name in known]
    if labels:
        function = graph_function(imported.module)
        watch(function, labels)
        names = function.attributes["output_names"]
        assert isa(names, ArrayAttr[StringAttr]), "outputs have names"
        imported = replace(imported, output_names=tuple(each.data for each in names))
    return imported
