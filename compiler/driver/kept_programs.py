"""Programs that are kept for a model's next weights: all of what was compiled but the weights, by
the optimised graph.

Passes over the graph read values, and run for each version of a model: what they decided is in the
graph. Those behind it read none (`WeightStore.closed`); they ask which weights are others
transposed, and equal weights are stored once. A program is taken where the answers are the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from xdsl.dialects.builtin import ModuleOp, UnknownLoc

from weft.compiler.driver.session import Session
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.artifact.cache import compiled_of, description
from weft.compiler.machine.weights.file import EMBEDDED
from weft.compiler.machine.weights.prepare import (
    Slicing,
    Weights,
    WeightSource,
    WeightTransform,
    share_equal,
)
from weft.dialects.context import TextParser, WeftContext
from weft.dialects.expr import Expr
from weft.dialects.expr_text import parse_formal_expr
from weft.dialects.fields import text_of
from weft.dialects.weights import WeightStore


def program_key(module: ModuleOp, weights: WeightStore, session: Session) -> str | None:
    """A hash of an optimised graph, the types of its weights and the options. None where a program
    is not kept: one without weights, whose model is a key, one that holds some in its code, and one
    that somebody looks at or adds to.
    """
    options = session.options
    unusual = session.golden is not None or bool(session.extensions) or bool(options.buckets.sizes)
    holds_values = options.artifact.weights != EMBEDDED
    watched = session.observer is not None or session.dump_dir is not None or session.verify_each
    if session.store is None or not len(weights) or unusual or holds_values or watched:
        return None
    return hashlib.sha256("\n".join(_parts(module, weights, options.digest)).encode()).hexdigest()


def _parts(module: ModuleOp, weights: WeightStore, options: str) -> Iterator[str]:
    yield options
    for key in weights:
        yield f"{key} {weights[key].dtype.name} {weights.shape(key)}"
    yield text_of(module)
    for op in module.walk():  # what texts leave out, and artifacts say of themselves
        location = "" if isinstance(op.location, UnknownLoc) else str(op.location)
        inner = (each for region in op.regions for block in region.blocks for each in block.args)
        yield f"{location} {[each.name_hint for each in (*op.results, *inner)]}"


def find_program(key: str, weights: WeightStore, session: Session) -> Compiled | None:
    """The program of that key with these weights; None where there is none, or not for them."""
    data = None if session.store is None else session.store.find_kernel(key)
    if data is None:
        return None
    text, _, objects = data.partition(b"\n")
    head = json.loads(text)
    for one, other, axes in head["transpositions"]:
        if weights.transposition(one, other) != (None if axes is None else tuple(axes)):
            return None
    read = [WeightSource(*each) for each in head["read"]]
    transforms = {name: _transform(*each) for name, each in head["transforms"].items()}
    prepared = share_equal(
        Weights(read, read, {each: weights[each] for each in weights}, transforms)
    )
    program = compiled_of(head, memoryview(objects), prepared, session.options.target)
    same = [[*_fields(each)] for each in prepared.sources] == head["weights"]
    return program if same else None


def keep_program(key: str, compiled: Compiled, weights: WeightStore, session: Session) -> None:
    """Keeps a program under its key, unless only this process can run it."""
    made = compiled.weights
    if session.store is None or compiled.only_here:
        return
    assert isinstance(made, Weights), "what was compiled now has the weights of the store"
    asked = weights.transpositions.items()
    head = description(compiled) | {
        "transpositions": [[*keys, axes] for keys, axes in asked],
        "read": [*map(_fields, made.read)],
        "transforms": {
            name: [each.shape, str(each.address), each.slicing and _slicing(each.slicing)]
            for name, each in made.transforms.items()
        },
    }
    content = b"".join(compiled.objects.values())
    session.store.keep_kernel(key, json.dumps(head).encode() + b"\n" + content)


def _fields(source: WeightSource) -> tuple[Any, ...]:
    return source.key, source.transform, source.elements, source.dtype


def _slicing(slicing: Slicing) -> tuple[int, int, int]:
    return slicing.axis, slicing.step, slicing.elements


def _transform(shape: list[int], address: str, slicing: list[int] | None) -> WeightTransform:
    expression: Expr = parse_formal_expr(TextParser(WeftContext(), address, "<layout>"))
    return WeightTransform(tuple(shape), expression, Slicing(*slicing) if slicing else None)
