"""Random loops over elements of tensors: a kernel that one becomes does what its graph means."""

from random import Random

import numpy as np
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from tests.compiler.loop.interpreter import run_kernel
from weft.compiler.graph_to_loop.scalar_loops import lower_scalar_loop
from weft.dialects.expr import Expr
from weft.dialects.graph import OPS_BY_NAME, ForOp, IfOp
from weft.dialects.graph.core.builder import GraphBuilder
from weft.dialects.graph.core.evaluate import evaluate_block
from weft.dialects.graph.core.types import F64, ShapeAttr, tensor, type_of
from weft.dialects.graph.regions.fused import YieldOp

LONG, FEW, ONE = tensor([80], F64), tensor([3], F64), tensor([], F64)
KINDS = (LONG, FEW, ONE)


def dims(*values) -> ShapeAttr:
    return ShapeAttr(tuple(map(Expr.of, values)))


class Writer:
    """Writes operators on values of three kinds at the end of a block; loops and branches too."""

    def __init__(self, random: Random, block: Block, values: list[SSAValue], indices: list[str]):
        self.random, self.block, self.indices = random, block, indices
        self.values = [*values, *block.args]
        self.b = GraphBuilder(InsertPoint.at_end(block), OPS_BY_NAME)

    def any(self, kind=ONE) -> SSAValue:
        """A value of that kind; of the long ones mostly the last, which nothing has changed."""
        fitting = [each for each in self.values if type_of(each) == kind]
        last = kind is LONG and self.random.random() < 0.9
        return fitting[-1] if last else self.random.choice(fitting[-4:])

    def place(self) -> Expr:
        """Where an element is: loops have at most six iterations."""
        index = self.random.choice(self.indices)
        return Expr.of(index) * self.random.choice([0, 1, 3]) + self.random.randrange(8)

    def grow(self) -> None:
        kinds = ["read", "read", "turned", "few", "write", "write", "add", "scatter", "numbers"]
        nested = ["if", "if", "for"] if len(self.indices) < 3 else ["if"]
        getattr(self, f"add_{self.random.choice([*kinds, *nested])}")()

    def element(self, x: SSAValue, place: Expr) -> SSAValue:
        one = self.b.slice(x, sizes=dims(1), starts=dims(place), steps=[1])
        return self.b.reshape(one, shape=dims())

    def add_read(self) -> None:
        self.values.append(self.element(self.any(LONG), self.place()))

    def add_turned(self) -> None:
        """An element of what is a long tensor from its end."""
        whole = {"sizes": dims(80), "starts": dims(79), "steps": [-1]}
        self.values.append(self.element(self.b.slice(self.any(LONG), **whole), self.place()))

    def add_few(self) -> None:
        sizes, starts = dims(3), dims(self.place())
        few = self.b.slice(self.any(LONG), sizes=sizes, starts=starts, steps=[2])
        self.values.append(self.random.choice([few, self.b.mul(few, self.any(FEW))]))

    def add_write(self) -> None:
        kind = self.random.choice([FEW, ONE])
        update = self.b.reshape(self.any(kind), shape=dims(kind.size))
        starts = dims(self.place())
        self.values.append(self.b.insert_slice(self.any(LONG), update, starts=starts, steps=[2]))

    def add_scatter(self) -> None:
        """An element of a long tensor and a number are its sum."""
        place = self.b.dims(values=dims(self.place()))
        self.values.append(self.b.scatter_nd(self.any(LONG), place, self.any(), reduction="add"))

    def add_add(self) -> None:
        kind = self.random.choice([FEW, ONE])
        half = self.b.mul(self.any(kind), self.b.constant_of(0.5, F64))
        self.values.append(self.b.sub(half, self.any(ONE)))

    def add_numbers(self) -> None:
        place = dims(self.place())
        self.values.append(self.b.cast(self.b.dims(values=place, scalar=True), to=F64))

    def inner(self, block: Block, handed: list, indices: list[str]) -> Block:
        writer = Writer(self.random, block, self.values, indices)
        for _ in range(self.random.randrange(5)):
            writer.grow()
        block.add_op(YieldOp.create(operands=[writer.any(kind) for kind in handed]))
        return block

    def add_if(self) -> None:
        kinds = self.random.sample(KINDS, 2)
        condition = self.b.less(self.any(), self.any())
        ways = [self.inner(Block(), kinds, self.indices) for _ in range(2)]
        self.values += self.b.builder.insert(IfOp.of(condition, *ways)).results

    def add_for(self) -> None:
        self.values += self.loop(self.random.choices(KINDS, k=2), []).results

    def loop(self, kinds: list, rows: list) -> ForOp:
        index = f"i{len(self.indices)}_{self.random.randrange(10**6)}"
        body = self.inner(Block(arg_types=kinds), [*kinds, *rows], [*self.indices, index])
        count = Expr.of(self.random.randrange(2, 6))
        if len(self.indices) > 1 and self.random.random() < 0.3:
            count = Expr.of(self.indices[-1])
        operands = [self.any(kind) for kind in kinds]
        return self.b.builder.insert(ForOp.of(count, index, operands, body))


def program(seed: int) -> tuple[Block, ForOp, list[np.ndarray]]:
    """A block of one loop, and arrays for its arguments."""
    random = Random(seed)
    block = Block(arg_types=[LONG, LONG, FEW, ONE])
    writer = Writer(random, block, [], ["n"])
    writer.indices = []
    loop = writer.loop(random.sample([LONG, LONG, FEW, ONE, ONE], 3), [random.choice([FEW, ONE])])
    numbers = np.random.default_rng(seed)
    shapes = [type_of(each).static_shape for each in block.args]
    return block, loop, [np.asarray(numbers.normal(size=shape)) for shape in shapes]


def test_kernels_of_random_loops():
    kernels = 0
    for seed in range(120):
        block, loop, arrays = program(seed)
        found = lower_scalar_loop(loop, strict=True, max_iterations=None)
        if found is None:
            continue
        kernels += 1
        kernel, outside = found
        kernel.verify()
        given = dict(zip(block.args, arrays, strict=True))
        empty = [np.full(type_of(each).static_shape, np.nan) for each in loop.results]
        results = run_kernel(kernel, *(given[each] for each in outside), *empty)
        results = results[-len(empty) :]
        block.add_op(YieldOp.create(operands=loop.results))
        wanted = evaluate_block(block, arrays)
        for got, want in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(got, want, err_msg=f"seed {seed}")
    assert kernels > 30
