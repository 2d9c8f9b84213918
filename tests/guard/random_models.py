"""Random ONNX models whose sizes are symbols: what schedules leave over at the end of loops, masks
and tails are reached by the sizes that a call has.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

SIDES = (0, 1, 2, 3, 5, 7, 8, 13, 15, 16, 17, 24, 31, 32, 33, 63, 64, 65, 100, 129)
"""What named sizes are drawn from: around the widths of vectors and tiles."""

Dim = int | str


@dataclass
class Writer:
    """Writes one model; the same seed gives the same text."""

    seed: int
    lines: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.kind = self.random.choice(["float", "float", "double", "float16"])
        self.values: list[tuple[str, tuple[Dim, ...]]] = []

    def text(self) -> str:
        """The graph in ONNX's text."""
        for _ in range(self.random.randint(1, 2)):
            rank = self.random.choice([1, 2, 2, 3, 4])
            self.input(tuple(self.side() for _ in range(rank)))
        for _ in range(self.random.randint(1, 6)):
            self.step()
        outputs = [name for name, _ in self.values[-2:]]
        body = " ".join(self.lines)
        return f"({', '.join(self.inputs)}) => ({', '.join(outputs)}) {{ {body} }}"

    def side(self) -> Dim:
        return self.random.choice(["n", "m", "k", "n", "m", 3, 8, 17])

    def input(self, shape: tuple[Dim, ...]) -> str:
        """A new input; now and then another size is named than the operator wants."""
        shape = tuple("other" if self.random.random() < 0.02 else dim for dim in shape)
        name = f"x{len(self.inputs)}"
        dims = f"[{', '.join(map(str, shape))}]" if shape else ""
        self.inputs.append(f"{self.kind}{dims} {name}")
        self.values.append((name, shape))
        return name

    def add(self, text: str, shape: tuple[Dim, ...]) -> None:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.values.append((name, shape))

    def constant(self, numbers: list[int]) -> str:
        name = f"c{len(self.lines)}"
        self.lines.append(f"{name} = Constant<value_ints = {numbers}>()")
        return name

    def step(self) -> None:
        name, shape = self.random.choice(self.values[-3:])
        writers = [self.unary, self.unary, self.binary]
        if shape:
            writers += [self.reduce, self.soft, self.transpose, self.concat, self.cumulate]
            writers += [self.slice, self.pad, self.gather, self.norm]
        if len(shape) >= 2:
            writers += [self.product, self.product]
        if len(shape) == 4:
            writers += [self.pool, self.convolution, self.convolution]
        self.random.choice(writers)(name, shape)

    def unary(self, x: str, shape: tuple[Dim, ...]) -> None:
        function = self.random.choice(
            ["Relu", "Exp", "Tanh", "Sigmoid", "Neg", "Abs", "Erf", "Sin", "Floor", "Gelu", "Sqrt"]
        )
        self.add(f"{function}({x})", shape)

    def named(self, shape: tuple[Dim, ...]) -> bool:
        """Whether inputs can have these dims, none of which an operator computed."""
        return all(not isinstance(dim, str) or dim in ("n", "m", "k", "other") for dim in shape)

    def binary(self, x: str, shape: tuple[Dim, ...]) -> None:
        others = [name for name, other in self.values if other == shape]
        end = shape[self.random.randint(0, len(shape)) :]
        if self.named(end):
            others.append(self.input(end))
        other = self.random.choice(others)
        self.add(f"{self.random.choice(['Add', 'Mul', 'Sub', 'Max', 'Min'])}({x}, {other})", shape)

    def axis(self, shape: tuple[Dim, ...]) -> int:
        return self.random.randrange(len(shape))

    def reduce(self, x: str, shape: tuple[Dim, ...]) -> None:
        axis, keep = self.axis(shape), self.random.randint(0, 1)
        function = self.random.choice(["Sum", "Mean", "Sum", "L2", "SumSquare"])
        result = (*shape[:axis], *([1] * keep), *shape[axis + 1 :])
        axes = self.constant([axis])
        self.add(f"Reduce{function}<keepdims = {keep}>({x}, {axes})", result)

    def soft(self, x: str, shape: tuple[Dim, ...]) -> None:
        function = self.random.choice(["Softmax", "LogSoftmax"])
        self.add(f"{function}<axis = {self.axis(shape)}>({x})", shape)

    def norm(self, x: str, shape: tuple[Dim, ...]) -> None:
        if not self.named(shape[-1:]):
            return
        scale = self.input(shape[-1:])
        self.add(f"LayerNormalization<axis = -1>({x}, {scale})", shape)

    def transpose(self, x: str, shape: tuple[Dim, ...]) -> None:
        order = self.random.sample(range(len(shape)), len(shape))
        self.add(f"Transpose<perm = {order}>({x})", tuple(shape[axis] for axis in order))

    def concat(self, x: str, shape: tuple[Dim, ...]) -> None:
        axis, more = self.axis(shape), self.side()
        wanted = (*shape[:axis], more, *shape[axis + 1 :])
        other = self.input(wanted) if self.named(wanted) else x
        total = f"t{len(self.lines)}"
        self.add(f"Concat<axis = {axis}>({x}, {other})", (*shape[:axis], total, *shape[axis + 1 :]))

    def cumulate(self, x: str, shape: tuple[Dim, ...]) -> None:
        axis = self.constant([self.axis(shape)])
        self.add(f"CumSum<reverse = {self.random.randint(0, 1)}>({x}, {axis})", shape)

    def slice(self, x: str, shape: tuple[Dim, ...]) -> None:
        axis = self.axis(shape)
        start, step = self.random.choice([(1, 1), (0, 2), (-1, -1), (-2, -3)])
        numbers = [[start], [10**6 if step > 0 else -(10**6)], [axis], [step]]
        given = ", ".join(map(self.constant, numbers))
        some = f"s{len(self.lines)}"
        self.add(f"Slice({x}, {given})", (*shape[:axis], some, *shape[axis + 1 :]))

    def pad(self, x: str, shape: tuple[Dim, ...]) -> None:
        axis = self.axis(shape)
        pads = [0] * (2 * len(shape))
        pads[axis], pads[axis + len(shape)] = self.random.choice([(1, 0), (0, 2), (3, 3)])
        given = self.constant(pads)
        some = f"s{len(self.lines)}"
        self.add(f"Pad({x}, {given})", (*shape[:axis], some, *shape[axis + 1 :]))

    def gather(self, x: str, shape: tuple[Dim, ...]) -> None:
        axis, name = self.axis(shape), f"i{len(self.inputs)}"
        self.inputs.append(f"int64[k] {name}")
        self.add(f"Gather<axis = {axis}>({x}, {name})", (*shape[:axis], "k", *shape[axis + 1 :]))

    def product(self, x: str, shape: tuple[Dim, ...]) -> None:
        columns = self.side()
        batch = shape[:-2] if self.random.random() < 0.4 else ()
        if not self.named((*batch, shape[-1])):
            return
        other = self.input((*batch, shape[-1], columns))
        self.add(f"MatMul({x}, {other})", (*shape[:-1], columns))

    def pool(self, x: str, shape: tuple[Dim, ...]) -> None:
        function, stride = self.random.choice(["MaxPool", "AveragePool"]), self.random.randint(1, 2)
        some = f"s{len(self.lines)}"
        self.add(
            f"{function}<kernel_shape = [2, 2], strides = [{stride}, {stride}], "
            f"pads = [1, 1, 1, 1]>({x})",
            (*shape[:2], f"{some}h", f"{some}w"),
        )

    def convolution(self, x: str, shape: tuple[Dim, ...]) -> None:
        filters, size = self.random.choice([1, 4, 16, 33]), self.random.choice([1, 3])
        stride, some = self.random.randint(1, 2), f"s{len(self.lines)}"
        if not self.named(shape[1:2]):
            return
        weights = self.input((filters, shape[1], size, size))
        self.add(
            f"Conv<strides = [{stride}, {stride}], pads = [1, 1, 1, 1]>({x}, {weights})",
            (shape[0], filters, f"{some}h", f"{some}w"),
        )
