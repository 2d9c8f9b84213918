"""Random programs: what Python does with them is what their graphs have to do."""

from __future__ import annotations

import random

HEADER = "import numpy as np\n\n\ndef program(x, a, n, flag):\n"
SCALARS = ("a", "b", "c")
INTEGERS = ("n", "m")


class Writer:
    """Writes one program; the same seed gives the same text."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops = 0
        self.names = 0

    def text(self) -> str:
        for line in ("b = 1.0", "c = a", "m = 2", "y = x.copy()", "kept = []", "pair = (a, 0)"):
            self.line(1, line)
        self.block(1, 4)
        self.line(1, "return a, b, c, n, m, y, len(kept), pair, sum(kept, 0.0)")
        return HEADER + "\n".join(self.lines) + "\n"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def block(self, depth: int, size: int) -> None:
        for _ in range(self.random.randint(1, size)):
            self.statement(depth)

    def statement(self, depth: int) -> None:
        simple = [self.assign] * 4 + [self.store, self.swap, self.append, self.view, self.call]
        leaving = [self.leave] if depth > 1 else []
        nested = [self.branch, self.branch, self.count, self.repeat, self.over] if depth < 4 else []
        self.random.choice(simple + leaving + nested)(depth)

    def scalar(self, depth: int = 0) -> str:
        pick = self.random
        if depth > 2 or pick.random() < 0.35:
            return pick.choice(
                [*SCALARS, *SCALARS, "0.5", "2.0", "-1.5", f"y[{self.place()}]", "x.sum()"]
            )
        one, two = self.scalar(depth + 1), self.scalar(depth + 1)
        return pick.choice(
            [f"({one} + {two})", f"({one} - {two})", f"({one} * 0.5)", f"min({one}, {two})",
             f"max({one}, {two})", f"abs({one})", f"np.tanh({one})",
             f"({one} if {self.test()} else {two})",
             f"np.where({self.test()}, {one}, {two})", f"float({self.integer()})", "pair[0]"]
        )  # fmt: skip

    def integer(self) -> str:
        pick = self.random
        one, two = pick.choice(INTEGERS), pick.choice([*INTEGERS, "1", "3"])
        return pick.choice(
            [one, two, f"({one} + {two})", f"({one} - {two})", f"({one} * 2)", f"({one} // 2)",
             f"({one} % 3)", "len(y)", f"int({pick.choice(SCALARS)} > 0)", f"min({one}, {two})"]
        )  # fmt: skip

    def place(self) -> str:
        return self.random.choice(["0", "1", "-1", "n % 4", "m % 3", "(n + m) % 4"])

    def test(self) -> str:
        pick = self.random
        if pick.random() < 0.2:
            return f"({self.test()} {pick.choice(['and', 'or'])} {self.test()})"
        if pick.random() < 0.15:
            return f"not {self.test()}"
        one, two = pick.choice(SCALARS), pick.choice([*SCALARS, "0.3"])
        float_ = f"{one} {pick.choice(['<', '>', '<='])} {two}"
        integer = (
            f"{self.integer()} {pick.choice(['<', '==', '>='])} {pick.choice(['1', '2', 'm'])}"
        )
        return pick.choice(
            [float_, float_, integer, integer, "flag", f"0 < {pick.choice(SCALARS)} < 2"]
        )

    def assign(self, depth: int) -> None:
        kind = self.random.random()
        if kind < 0.5:
            self.line(depth, f"{self.random.choice(SCALARS)} = {self.scalar()}")
        elif kind < 0.65:
            self.line(depth, f"{self.random.choice(SCALARS)} += {self.scalar()}")
        elif kind < 0.9:
            self.line(depth, f"{self.random.choice(INTEGERS)} = {self.integer()} % 7")
        else:
            self.line(depth, f"pair = ({self.scalar()}, {self.integer()} % 5)")

    def store(self, depth: int) -> None:
        self.line(
            depth,
            self.random.choice(
                [f"y[{self.place()}] = {self.scalar()}", f"y[{self.place()}] += {self.scalar()}",
                 f"y[1:3] = {self.scalar()}", f"y = y * 0.5 + {self.scalar()}", "y *= 0.5",
                 f"y[y > {self.scalar()}] = 0.25", f"y = np.where(y > 0, y, {self.scalar()})"]
            ),
        )  # fmt: skip

    def swap(self, depth: int) -> None:
        self.line(
            depth, self.random.choice(["a, b = b, a", "y[0], y[1] = y[1], y[0]", "n, m = m, n"])
        )

    def append(self, depth: int) -> None:
        self.line(depth, self.random.choice([f"kept.append({self.scalar()})", "kept = kept + [a]"]))

    def view(self, depth: int) -> None:
        self.line(depth, "part = y[1:]")
        self.line(
            depth, self.random.choice([f"part[{self.place()}] = {self.scalar()}", "a = part.sum()"])
        )

    def call(self, depth: int) -> None:
        self.names += 1
        name = f"f{self.names}"
        self.line(depth, f"def {name}(u, v=0.5):")
        self.line(depth + 1, f"if u {self.random.choice(['<', '>'])} v:")
        self.line(depth + 2, f"return u * 0.5 + {self.scalar(2)}")
        self.line(depth + 1, "return v - u")
        self.line(
            depth, f"{self.random.choice(SCALARS)} = {name}({self.scalar()}, {self.scalar()})"
        )

    def branch(self, depth: int) -> None:
        self.line(depth, f"if {self.test()}:")
        self.block(depth + 1, 3)
        if self.random.random() < 0.3:
            self.line(depth, f"elif {self.test()}:")
            self.block(depth + 1, 2)
        if self.random.random() < 0.6:
            self.line(depth, "else:")
            self.block(depth + 1, 2)

    def count(self, depth: int) -> None:
        self.names += 1
        variable = f"i{self.names}"
        bound = self.random.choice(["3", "n % 6", "20", "len(y)", "m % 4 + 1", "1, 4"])
        self.line(depth, f"for {variable} in range({bound}):")
        self._body(depth, f"a = a * 0.5 + {variable}")

    def repeat(self, depth: int) -> None:
        self.names += 1
        variable = f"k{self.names}"
        self.line(depth, f"{variable} = 0")
        self.line(
            depth,
            f"while {variable} < {self.random.choice(['3', 'n % 6', '15'])} and {self.test()}:",
        )
        self.line(depth + 1, f"{variable} += 1")
        self._body(depth, f"b = b * 0.5 - {variable}")

    def over(self, depth: int) -> None:
        self.names += 1
        variable = f"v{self.names}"
        source = self.random.choice(
            [variable + " in x", f"q, {variable} in enumerate(x)", f"{variable} in y.copy()",
             f"{variable}, w in zip(x, y * 1.0)"]
        )  # fmt: skip
        self.line(depth, f"for {source}:")
        self._body(depth, f"c = c * 0.5 + {variable}")

    def _body(self, depth: int, first: str) -> None:
        self.loops += 1
        self.line(depth + 1, first)
        self.block(depth + 1, 3)
        self.loops -= 1
        if self.random.random() < 0.15:
            self.line(depth, "else:")
            self.block(depth + 1, 1)

    def leave(self, depth: int) -> None:
        words = ["return a, b, c, n, m, y, len(kept), pair, sum(kept, 0.0)"]
        if self.loops:
            words += ["break", "continue", "break", "continue"]
        word = self.random.choice(words)
        self.line(depth, f"if {self.test()}:")
        self.line(depth + 1, word)
