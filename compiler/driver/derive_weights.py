"""Weights that graph passes computed of the model's own tensors, where these come from a caller:
the recipes of the weight store -> a program of the artifact that computes them again.

    result = main(tensors of the caller, constants of the artifact)

Every operator is a kernel of naive loops: each runs once, when weights are prepared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from msgspec import Struct
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from weft.compiler.driver.options import Options
from weft.compiler.graph_to_loop.lower_graph import MAIN, lower_module
from weft.compiler.loop_to_llvm.data import data_ir
from weft.compiler.loop_to_llvm.kernel import emit_kernel, kernel_symbol
from weft.compiler.loop_to_llvm.program.emit import emit_program, workspace_bytes
from weft.compiler.loop_to_llvm.runtime.external_weights import DERIVE, OWN, DerivedTensors
from weft.compiler.machine.codegen.object_code import compile_object
from weft.compiler.machine.weights.prepare import ALIGNMENT
from weft.compiler.program.memory.hoist_workspace import hoist_workspace
from weft.compiler.program.memory.plan_memory import kernels_of, plan_memory
from weft.compiler.target.features import baseline
from weft.dialects.expr import Expr
from weft.dialects.graph import OPS_BY_NAME, ConstantOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.dtypes import element_type
from weft.dialects.graph.core.types import ShapeAttr, tensor
from weft.dialects.loop.program import KernelOp, ProgramOp
from weft.dialects.weights import Array, Properties, Recipe, WeightStore

MOST_OWN_BYTES: Final = 1 << 20
"""A tensor with more that is not the model's own, but computed while compiling of sizes and single
numbers, is asked of the caller too.
"""


class DerivedWeights(Struct, frozen=True, dict=True):
    """The tensors that kernels read, by where a caller's artifact has them from: `given` to it,
    its `own`, and `made` by the program from these.
    """

    given: tuple[str, ...]
    own: tuple[str, ...]
    made: tuple[str, ...]
    store: WeightStore

    @staticmethod
    def of(keys: Sequence[str], store: WeightStore) -> DerivedWeights:
        """Those of the keys that kernels read, and what these are made of."""
        made = [key for key in dict.fromkeys(keys) if store.recipe(key) is not None]
        read = dict.fromkeys([*keys, *(name for key in made for name in _leaves(key, store))])
        plain = [key for key in read if store.recipe(key) is None]
        large = {key for key in plain if store[key].nbytes > MOST_OWN_BYTES}
        given = tuple(key for key in plain if store.is_given(key) or key in large)
        return DerivedWeights(given, tuple(k for k in plain if k not in given), tuple(made), store)

    def number(self, key: str) -> int:
        """The place of a tensor among all."""
        return self._numbers[key]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {key: n for n, key in enumerate((*self.given, *self.own, *self.made))}

    @property
    def own_offsets(self) -> list[int]:
        """Where the artifact's own ones lie among each other."""
        offsets, end = list[int](), 0
        for key in self.own:
            offsets.append(end)
            end += -(-self.store[key].nbytes // ALIGNMENT) * ALIGNMENT
        return offsets

    def objects(self, options: Options) -> dict[str, bytes]:
        """The artifact's own tensors, and the program with its kernels, for any processor of the
        architecture.
        """
        target = baseline(options.target)
        texts: dict[str, str] = {}
        if self.own:
            texts[OWN] = data_ir(target.triple, {f"{options.prefix}.{OWN}": self._own_bytes()})
        if self.made:
            prefix = kernel_symbol(options.prefix, DERIVE)
            texts[DERIVE] = emit_program(self._program, target, prefix=prefix, alone=True)
            for name, kernel in self._kernels.items():
                texts[f"{DERIVE}_{name}"] = emit_kernel(
                    kernel, target, prefix=prefix, strict_fp=True
                )
        return {name: compile_object(text, target) for name, text in texts.items()}

    def tensors(self) -> DerivedTensors | None:
        """What the run time has to know of the program, None where there is none."""
        if not self.made:
            return None
        workspace = workspace_bytes(self._program).constant
        assert workspace is not None, "weights have static shapes"
        inputs = [self.number(key) for key in self._inputs]
        return DerivedTensors(inputs, [self.store[key].nbytes for key in self.made], workspace)

    def _own_bytes(self) -> bytes:
        parts = [self.store[key].tobytes() for key in self.own]
        return b"".join(part + bytes(-len(part) % ALIGNMENT) for part in parts)

    @cached_property
    def _inputs(self) -> list[str]:
        """The tensors that the program reads."""
        return list(dict.fromkeys(name for key in self.made for name in _leaves(key, self.store)))

    @cached_property
    def _lowered(self) -> ModuleOp:
        module = recipes_graph(self.made, self._inputs, self.store)
        lower_module(module, strict=True)
        hoist_workspace(module)
        kernels = kernels_of(module)
        for op in module.ops:
            if isinstance(op, ProgramOp):
                plan_memory(op, kernels)
        return module

    @property
    def _program(self) -> ProgramOp:
        return next(op for op in self._lowered.ops if isinstance(op, ProgramOp))

    @property
    def _kernels(self) -> Mapping[str, KernelOp]:
        return kernels_of(self._lowered)


def recipes_graph(made: Sequence[str], inputs: Sequence[str], store: WeightStore) -> ModuleOp:
    """The graph that computes tensors of a store as their recipes say."""
    block = Block(arg_types=[_type_of_array(store[key]) for key in inputs])
    b = GraphBuilder(InsertPoint.at_end(block), OPS_BY_NAME)
    writer = _Writer(b, store, dict(zip(inputs, block.args, strict=True)))
    results = [writer.tensor(key) for key in made]
    block.add_op(ReturnOp(*results))
    types = [value.type for value in block.args], [value.type for value in results]
    return ModuleOp([FuncOp(MAIN, types, Region(block))])


@dataclass
class _Writer:
    """Writes recipes as operators, each once."""

    b: GraphBuilder
    store: WeightStore
    tensors: dict[str, SSAValue]

    def __post_init__(self) -> None:
        self.done: dict[Recipe, SSAValue] = {}

    def tensor(self, key: str) -> SSAValue:
        """The value of a tensor of the store."""
        recipe = self.store.recipe(key)
        if key not in self.tensors and recipe is not None:
            self.tensors[key] = self.result(recipe)
        return self.tensors[key]

    def result(self, recipe: Recipe) -> SSAValue:
        """What a recipe gives."""
        if recipe not in self.done:
            operands = [self._operand(each) for each in recipe.operands]
            op = self.b.builder.insert(
                recipe.operator.from_properties(operands, dict(recipe.properties))
            )
            self.done[recipe] = op.results[recipe.result]
        return self.done[recipe]

    def _operand(self, operand: Recipe | Properties | None) -> SSAValue | None:
        if operand is None or isinstance(operand, Recipe):
            return operand and self.result(operand)
        properties = dict(operand)
        key = properties.get("key")
        if not isinstance(key, StringAttr):
            return self.b.builder.insert(ConstantOp.from_properties([], properties)).result
        value = self.tensor(key.data)
        same = value.type == _type_of_entry(properties)
        return value if same else self.b.reshape(value, shape=_shape(properties))


def _leaves(key: str, store: WeightStore) -> Iterator[str]:
    """The tensors without recipes that one is made of."""
    pending: list[Recipe | Properties | None] = [store.recipe(key)]
    while pending:
        part = pending.pop()
        if isinstance(part, Recipe):
            pending += reversed(part.operands)
            continue
        name = dict(part or ()).get("key")
        if isinstance(name, StringAttr):
            recipe = store.recipe(name.data)
            if recipe is None:
                yield name.data
            else:
                pending.append(recipe)


def _type_of_array(array: Array) -> Attribute:
    return tensor([Expr.of(dim) for dim in array.shape], element_type(array.dtype))


def _shape(properties: Mapping[str, Attribute]) -> ShapeAttr:
    shape = properties["shape"]
    assert isinstance(shape, ShapeAttr), "a constant has a shape"
    return shape


def _type_of_entry(properties: Mapping[str, Attribute]) -> Attribute:
    return tensor(_shape(properties).data, properties["element"])
