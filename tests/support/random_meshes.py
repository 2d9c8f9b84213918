"""Random graphs, meshes and shardings, for ranks that compute together what one computes."""
# pyright: basic

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from weft.compiler.graph.differentiate.differentiate import append_gradients
from weft.compiler.graph.partition.read_mesh import read_mesh
from weft.compiler.graph.partition.written import read_shardings
from weft.dialects.graph import OPS_BY_NAME
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.types import F32, I64, tensor, type_of
from weft.dialects.weights import Array

MESHES = ("data=2", "a=4", "data=2,model=2", "data=2,model=4", "a=2,b=2,c=2", "data=1,model=2")


class RandomProgram:
    """A graph of whole tensors with gradients in its inputs, a mesh, and shardings of inputs and
    outputs; all follow from the seed. With `stages` there are at least as many of a pipeline, which
    begin at random values, and ranks for them in front of the mesh.
    """

    def __init__(self, seed: int, operators: int = 8, stages: int = 1):
        self.draw = random.Random(seed)
        self.mesh = self.draw.choice(MESHES if stages == 1 else MESHES[:1])
        inputs = [tensor(self._shape(), F32) for _ in range(self.draw.randint(2, 4))]
        self.block = Block(arg_types=inputs)
        self.b = GraphBuilder(InsertPoint.at_end(self.block), OPS_BY_NAME)
        self.values: list[SSAValue] = list(self.block.args)
        more = self.draw.randrange(2) if stages > 1 else 0
        begins = sorted(self.draw.sample(range(operators), max(0, stages - 2 + more)))
        for number in range(operators):
            self._operator()
            if number in begins:
                mark = begins.index(number) + 1
                self.values[-1] = self.b.stage(self.values[-1], index=mark)
        result = self.values[-1]
        if stages > 1:
            result = self.b.stage(result, index=len(begins) + 1)
        loss = self.b.reduce_mean(
            self.b.mul(result, result), axes=list(range(type_of(result).rank)), keepdims=False
        )
        self.block.add_op(ReturnOp(loss, *self.draw.sample(self.values, 2)))
        self.names = [f"x{number}" for number in range(len(inputs))]
        self.module = self._module()
        self.shard = list(self._shardings())
        if stages > 1:
            self.mesh = f"stage={stages},{self.mesh}"
        numbers = np.random.default_rng(seed)
        shapes = [type_of(each).static_shape or () for each in self.function.body.block.args]
        self.inputs = [numbers.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]

    @property
    def function(self) -> FuncOp:
        main = self.module.ops.first
        assert isinstance(main, FuncOp)
        return main

    def _shape(self) -> list[int]:
        return [self.draw.choice((1, 2, 4, 8, 8, 6)) for _ in range(self.draw.randint(1, 3))]

    def _module(self) -> ModuleOp:
        returned = self.block.last_op
        types = [each.type for each in self.block.args], [each.type for each in returned.operands]
        function = FuncOp("main", types, Region(self.block))
        function.attributes["input_names"] = ArrayAttr([StringAttr(name) for name in self.names])
        outputs = ["loss", "y0", "y1"]
        function.attributes["output_names"] = ArrayAttr([StringAttr(name) for name in outputs])
        module = ModuleOp([function])
        append_gradients(function)
        return module

    def _operator(self) -> None:
        x = self.draw.choice(self.values)
        shape = type_of(x).static_shape or ()
        made = getattr(self, f"_{self.draw.choice(OPERATORS)}")(x, shape)
        if made is not None:
            self.values.append(made)

    def _unary(self, x, shape):
        return self.b.op(self.draw.choice(("relu", "tanh", "neg")), x).results[0]

    def _binary(self, x, shape):
        others = [
            y
            for y in self.values
            if all(
                a == b or 1 in (a, b)
                for a, b in zip(shape[::-1], type_of(y).static_shape[::-1], strict=False)
            )
        ]
        return self.b.op(
            self.draw.choice(("add", "mul", "sub")), x, self.draw.choice(others)
        ).results[0]

    def _matmul(self, x, shape):
        if not shape:
            return None
        fits = [
            y
            for y in self.values
            if type_of(y).rank in (1, 2) and type_of(y).static_shape[-2:][0] == shape[-1]
        ]
        return self.b.matmul(x, self.draw.choice(fits)) if fits else None

    def _transpose(self, x, shape):
        return self.b.transpose(x, permutation=self.draw.sample(range(len(shape)), len(shape)))

    def _reshape(self, x, shape):
        size = int(np.prod(shape))
        first = self.draw.choice([n for n in range(1, size + 1) if size % n == 0])
        return self.b.reshape(x, shape=[first, size // first])

    def _reduce(self, x, shape):
        if not shape:
            return None
        name = self.draw.choice(("reduce_sum", "reduce_mean", "reduce_max"))
        axes = [self.draw.randrange(len(shape))]
        return self.b.op(name, x, axes=axes, keepdims=self.draw.random() < 0.5).results[0]

    def _softmax(self, x, shape):
        return self.b.softmax(x, axis=self.draw.randrange(len(shape))) if shape else None

    def _concat(self, x, shape):
        return self.b.concat(x, x, axis=self.draw.randrange(len(shape))) if shape else None

    def _slice(self, x, shape):
        if not shape:
            return None
        sizes = list(shape)
        axis = self.draw.randrange(len(shape))
        sizes[axis] = (sizes[axis] + 1) // 2
        starts = [n - m for n, m in zip(shape, sizes, strict=True)]
        return self.b.slice(x, starts=_exprs(starts), sizes=_exprs(sizes), steps=[1] * len(shape))

    def _gather(self, x, shape):
        if not shape:
            return None
        axis = self.draw.randrange(len(shape))
        places = [self.draw.randrange(shape[axis]) for _ in range(4)]
        return self.b.gather(x, self.b.constant_of(places, I64), axis=axis)

    def _cumsum(self, x, shape):
        if not shape:
            return None
        axis = self.draw.randrange(len(shape))
        return self.b.cumsum(x, axis=axis, exclusive=False, reverse=False)

    def _noise(self, x, shape):
        """Numbers that are drawn; each is that of its place in the whole tensor."""
        bits = self.b.random_bits(shape=type_of(x).dims, seed=self.draw.randrange(99), stream=0)
        return self.b.mul(
            x, self.b.mul(self.b.cast(bits, to=F32), self.b.constant_of(2.0**-64, F32))
        )

    def _shard(self, x, shape):
        """A constraint; one of no axes has the value whole."""
        from weft.dialects.graph.mesh.attributes import ShardingAttr

        return self.b.shard(x, sharding=ShardingAttr(self._dims(shape)))

    def _dims(self, shape: Sequence[int]):
        mesh = read_mesh(self.mesh)
        assert mesh is not None
        free = [name for name, _ in mesh.data]
        self.draw.shuffle(free)
        dims = []
        for size in shape:
            axes: list[str] = []
            while free and self.draw.random() < 0.5 and size % mesh.parts([*axes, free[-1]]) == 0:
                axes.append(free.pop())
            dims.append(tuple(axes))
        return tuple(dims)

    def _shardings(self):
        returned = self.block.last_op
        outputs = zip(["loss", "y0", "y1"], returned.operands, strict=False)
        for name, value in (*zip(self.names, self.block.args, strict=False), *outputs):
            if self.draw.random() < 0.6:
                dims = self._dims(type_of(value).static_shape or ())
                yield f"{name}={','.join('+'.join(axes) for axes in dims)}"


def _exprs(numbers: Sequence[int]):
    from weft.dialects.expr import Expr

    return [Expr.of(n) for n in numbers]


OPERATORS = ("unary", "binary", "binary", "matmul", "matmul", "transpose", "reshape", "reduce",
             "softmax", "concat", "slice", "gather", "cumsum", "shard", "noise")  # fmt: skip


def cut(array: Array, dims, mesh, rank: int) -> Array:
    """A rank's part of a tensor."""
    for axis, axes in enumerate(dims):
        array = np.split(array, mesh.parts(axes), axis)[mesh.index(rank, axes)]
    return np.array(array, order="C")


def parts_of(arrays: Sequence[Array], names: Sequence[str], shard, mesh, rank: int) -> list[Array]:
    """A rank's parts of several, by what is written of their names."""
    written = read_shardings(shard)
    return [
        cut(array, written.get(name, ()), mesh, rank)
        for array, name in zip(arrays, names, strict=True)
    ]
