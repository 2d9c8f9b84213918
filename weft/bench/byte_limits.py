"""What the machine can do with bytes and bf16, measured by loops that weft compiles: the
instructions of a register tile of a quantised product, over and over, whose operands L1 has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache
from math import prod
from typing import Final

import numpy as np
from msgspec import Struct

from weft.bench.limits import on_cores, touched_memory
from weft.bench.rounds import choose_cores
from weft.compiler.driver.options import Artifact, Options
from weft.compiler.driver.pipeline import compile_loops
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.target.target import Target
from weft.dialects.errors import WeftError
from weft.dialects.weights import Array

_CHAINS: Final = 16
"""Registers of sums of words, as many as hide what an instruction takes."""

_TILE: Final = 32
"""Rows and columns of a tile of registers that hold tiles, which have 16 words along a sum."""

_BLOCK_ROWS: Final = 8
"""Rows that share a block's bytes."""

_BLOCK_WORDS: Final = 8
"""Words of four bytes of a block of 32 terms."""

_REPEATS: Final = 1 << 17
_CALLS: Final = 9

_BYTES: Final = """\
            loop.for %q = 0 to 4 {mark}reduction(add) {{
              %a = loop.load %x[%t, {row}, {of_x}] : {x}
              %b = loop.load %y[%t, {word}, 4 * %j + %q] : {y}
              %s = loop.load %acc[%i, %j] : {acc}
              %c = arith.extui %a : i8 to i32
              %d = arith.extsi %b : i8 to i32
              %p = arith.muli %c, %d : i32
              %u = arith.addi %s, %p : i32
              loop.store %u, %acc[%i, %j] : {acc}
            }}
"""

_BF16: Final = """\
            %a = loop.load %x[%t, %i, %o] : {x}
            %b = loop.load %y[%t, %o, %j] : {y}
            %s = loop.load %acc[%i, %j] : {acc}
            %p = loop.dot_bf16 %a, %b : f32
            %u = arith.addf %s, %p : f32
            loop.store %u, %acc[%i, %j] : {acc}
"""

_CLEAR: Final = """\
    loop.for %i = 0 to {rows}{unroll} {{
      loop.for %j = 0 to {columns} unroll vector({lanes}) {{
        %zero = arith.constant {zero} : {sum}
        loop.store %zero, %acc[%i, %j] : {acc}
      }}
    }}
"""

_WORDS: Final = f"""\
{_CLEAR}    loop.for %again = 0 to repeats {{{{
      loop.for %i = 0 to {{rows}} unroll {{{{
        loop.for %j = 0 to {{columns}} unroll vector({{lanes}}) {{{{
{_BYTES}        }}}}
      }}}}
    }}}}
"""

_NEST: Final = """ matrix reduction(add) {{
      loop.for %i = 0 to {rows} {{
        loop.for %j = 0 to {columns} {{
          loop.for %o = 0 to 16 reduction(add) {{
{product}          }}
        }}
      }}
    }}
"""

_KEPT_TILES: Final = f"{_CLEAR}    loop.for %again = 0 to repeats{_NEST}"

_STORED_TILES: Final = f"""\
    loop.for %again = 0 to repeats {{{{
{_CLEAR}    loop.for %k = 0 to {{steps}}{_NEST}    }}}}
"""

_BLOCKS: Final = """\
    %part = loop.alloc registers : {part}
    loop.for %i = 0 to {rows} unroll {{
      loop.for %j = 0 to {columns} unroll vector({lanes}) {{
        %zero = arith.constant 0.0 : f32
        loop.store %zero, %acc[%i, %j] : {acc}
      }}
    }}
    loop.for %again = 0 to repeats {{
      loop.for %i = 0 to {rows} unroll {{
        loop.for %j = 0 to {columns} unroll vector({lanes}) {{
          %none = arith.constant 0 : i32
          loop.store %none, %part[%i, %j] : {part}
        }}
      }}
      loop.for %w = 0 to {words} unroll {{
        loop.for %i = 0 to {rows} unroll {{
          loop.for %j = 0 to {columns} unroll vector({lanes}) {{
            %a = loop.load %x[%t, %i, {words} * (%again mod 2) + %w] : {x}
            %b = loop.load %y[%t, {words} * (%again mod 2) + %w, %j] : {y}
            %s = loop.load %part[%i, %j] : {part}
            %u = loop.dot_bytes %s, %b, %a : i32
            loop.store %u, %part[%i, %j] : {part}
          }}
        }}
      }}
      loop.for %i = 0 to {rows} unroll {{
        loop.for %j = 0 to {columns} unroll vector({lanes}) {{
          %s = loop.load %part[%i, %j] : {part}
          %exact = arith.sitofp %s : i32 to f32
          %m = loop.load %v[%t, 0, %j] : {v}
          %n = loop.load %v[%t, 1, %i] : {v}
          %step = arith.mulf %m, %n : f32
          %p = arith.mulf %exact, %step : f32
          %o = loop.load %acc[%i, %j] : {acc}
          %u = arith.addf %o, %p : f32
          loop.store %u, %acc[%i, %j] : {acc}
        }}
      }}
    }}
"""

_MODULE: Final = """\
loop.kernel @loops[threads, repeats](%x: {x}, %y: {y}, %v: {v}, %z: {z}) {{
  loop.for %t = 0 to threads parallel {{
    %acc = loop.alloc {scope} : {acc}
{loops}    loop.for %i = 0 to {rows}{unroll} {{
      loop.for %j = 0 to {columns} unroll vector({lanes}) {{
        %r = loop.load %acc[%i, %j] : {acc}
        loop.store %r, %z[%t, %i, %j] : {z}
      }}
    }}
  }}
}}
loop.program @main[threads, repeats](
    %x: {x}, %y: {y}, %v: {v}, %again: !loop.buffer<[repeats], i8>, %z: {z}) inputs 4 {{
  loop.call @loops[threads, repeats](%x, %y, %v, %z) : {x}, {y}, {v}, {z}
}}
"""


class _Loop(Struct, frozen=True):
    """A tile of rows and columns, and the text of its loops. An iteration has `terms` of a sum, the
    operands' innermost dims so many elements of a type.
    """

    text: str
    rows: int
    columns: int
    terms: int
    x: tuple[int, str]
    y: tuple[int, int, str]
    sum: str
    steps: int = 1
    tiles: bool = False


class Limit(Struct, frozen=True):
    """A call of such a loop, which returns its sums, and its operations, two for a product and its
    sum.
    """

    run: Callable[[], Array]
    operations: int
    threads: int

    def measure_gops(self) -> float:
        """GOP/s by processor time, which is the same beside other work."""
        with on_cores(choose_cores(self.threads)):
            least = min(_seconds(self.run) for _ in range(_CALLS))
        return self.operations / (least / self.threads) * 1e-9


def byte_limit(threads: int, terms: int | None = None) -> Limit:
    """Products of an unsigned and a signed byte by the instruction that products of matrices take
    on this machine. Their sums stay in registers, or, where registers hold tiles, are of so many
    `terms` each and stored. Raises OptionError for too many threads.
    """
    target = host_target()
    if not target.has_matrix_products(4):
        lanes = target.lanes(4)
        x, y = (4, "ui8"), (1, 4 * lanes, "i8")
        return _limit(_Loop(_WORDS, _CHAINS, lanes, 4, x, y, "i32"), threads)
    x, y, steps = (64, "ui8"), (16, 4 * _TILE, "i8"), -(-(terms or 64) // 64)
    text = (_KEPT_TILES if terms is None else _STORED_TILES).replace("{product}", _BYTES)
    return _limit(_Loop(text, _TILE, _TILE, 64 * steps, x, y, "i32", steps, True), threads)


def block_limit(threads: int) -> Limit:
    """Products of blocks of 32 bytes in lanes, whose sums become floats, are scaled by a factor of
    the row's block and one of the column's, and are added up. Raises as `byte_limit`.
    """
    lanes = host_target().lanes(4)
    x, y = (2 * _BLOCK_WORDS, "i32"), (2 * _BLOCK_WORDS, lanes, "i32")
    loop = _Loop(_BLOCKS, _BLOCK_ROWS, lanes, 4 * _BLOCK_WORDS, x, y, "f32")
    return _limit(loop, threads)


def bf16_limit(threads: int) -> Limit:
    """Products of bf16 whose sums stay in registers that hold tiles. Raises as `byte_limit`, and
    WeftError where the machine has no such registers.
    """
    if not host_target().has_matrix_products(2):
        raise WeftError("products of tiles of bf16 require a CPU that has them, got another one")
    text = _KEPT_TILES.replace("{product}", _BF16)
    x, y = (16, "i32"), (16, _TILE, "i32")
    return _limit(_Loop(text, _TILE, _TILE, 32, x, y, "f32", tiles=True), threads)


def _limit(loop: _Loop, threads: int) -> Limit:
    """The loop with operands of its own."""
    repeats = max(1, _REPEATS // loop.steps)
    x = _ones((threads, loop.rows, loop.x[0]), loop.x[1])
    y = _ones((threads, *loop.y[:2]), loop.y[2])
    v = np.ones((threads, 2, max(loop.rows, loop.columns)), np.float32)
    again = np.empty(repeats, np.int8)
    executable = _compiled(host_target(), loop).executable(threads)
    operations = 2 * threads * loop.rows * loop.columns * loop.terms * repeats
    return Limit(lambda: np.asarray(executable(x, y, v, again)[0]), operations, threads)


def _seconds(call: Callable[[], object]) -> float:
    """Processor time of a call on all threads, which is the same beside other work."""
    start = time.process_time()
    call()
    return time.process_time() - start


def _ones(shape: tuple[int, ...], element: str) -> Array:
    """Numbers of a type that begin with a line of the cache."""
    types: Mapping[str, type[np.generic]] = {"ui8": np.uint8, "i8": np.int8, "i32": np.int32}
    dtype = np.dtype(types[element])
    size = prod(shape)
    return touched_memory(size * dtype.itemsize).view(dtype)[:size].reshape(shape)


@cache
def _compiled(target: Target, loop: _Loop) -> Compiled:
    """A program of the loops, which has registers of tiles where the target has such."""
    rows, columns, tiles = loop.rows, loop.columns, loop.tiles
    names = {
        "x": f"!loop.buffer<[threads, {rows}, {loop.x[0]}], {loop.x[1]}>",
        "y": f"!loop.buffer<[threads, {loop.y[0]}, {loop.y[1]}], {loop.y[2]}>",
        "v": f"!loop.buffer<[threads, 2, {max(rows, columns)}], f32>",
        "z": f"!loop.buffer<[threads, {rows}, {columns}], {loop.sum}>",
        "acc": f"!loop.buffer<[{rows}, {columns}], {loop.sum}>",
        "part": f"!loop.buffer<[{rows}, {columns}], i32>",
        "mark": "" if tiles else "unroll dot ",
        "row": "%i",
        "word": "%o" if tiles else "0",
        "of_x": "4 * %o + %q" if tiles else "%q",
        "scope": "scratch" if tiles else "registers",
        "unroll": "" if tiles else " unroll",
        "sum": loop.sum,
        "zero": "0" if loop.sum == "i32" else "0.0",
        "rows": str(rows),
        "columns": str(columns),
        "words": str(_BLOCK_WORDS),
        "steps": str(loop.steps),
        "lanes": str(target.lanes(4)),
    }
    text = _MODULE.format(loops=loop.text.format(**names), **names)
    return compile_loops(text, Options(target, artifact=Artifact("byte_limits")))
