"""What the machine can do with bytes, measured by loops that weft compiles: products that one
instruction adds up, of the registers that products of quantised networks are computed in.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from math import prod
from typing import Final

import numpy as np

from weft.bench.limits import on_cores, touched_memory
from weft.bench.rounds import choose_cores
from weft.compiler.driver.options import Artifact, Options
from weft.compiler.driver.pipeline import compile_loops
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.target.target import Target
from weft.dialects.weights import Array

_CHAINS: Final = 16
"""Registers of sums of words, as many as hide what an instruction takes."""

_REPEATS: Final = 1 << 17
_CALLS: Final = 9

_PRODUCT: Final = """\
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

_WORDS: Final = """\
    loop.for %again = 0 to repeats {{
      loop.for %i = 0 to {rows} unroll {{
        loop.for %j = 0 to {columns} unroll vector({lanes}) {{
{product}        }}
      }}
    }}
"""

_TILES: Final = """\
    loop.for %again = 0 to repeats matrix reduction(add) {{
      loop.for %i = 0 to {rows} {{
        loop.for %j = 0 to {columns} {{
          loop.for %o = 0 to 16 reduction(add) {{
{product}          }}
        }}
      }}
    }}
"""

_MODULE: Final = """\
loop.kernel @loops[threads, repeats](%x: {x}, %y: {y}, %z: {z}) {{
  loop.for %t = 0 to threads parallel {{
    %acc = loop.alloc {scope} : {acc}
    loop.for %i = 0 to {rows}{unroll} {{
      loop.for %j = 0 to {columns} unroll vector({lanes}) {{
        %zero = arith.constant 0 : i32
        loop.store %zero, %acc[%i, %j] : {acc}
      }}
    }}
{loops}    loop.for %i = 0 to {rows}{unroll} {{
      loop.for %j = 0 to {columns} unroll vector({lanes}) {{
        %v = loop.load %acc[%i, %j] : {acc}
        loop.store %v, %z[%t, %i, %j] : {z}
      }}
    }}
  }}
}}
loop.program @main[threads, repeats](
    %x: {x}, %y: {y}, %again: !loop.buffer<[repeats], i8>, %z: {z}) inputs 3 {{
  loop.call @loops[threads, repeats](%x, %y, %z) : {x}, {y}, {z}
}}
"""


def measure_byte_gops(threads: int) -> float:
    """GOP/s of products of an unsigned and a signed byte and their sums, two operations each, in
    processor time, by the instruction that products of matrices take on this machine. Raises
    OptionError for too many threads.
    """
    target = host_target()
    rows, columns, words = _shape(target)
    x = _ones((threads, rows, 4 * words)).view(np.uint8)
    y, again = _ones((threads, words, 4 * columns)), np.empty(_REPEATS, np.int8)
    with on_cores(choose_cores(threads)):
        executable = _compiled(target).executable(threads)
        least = min(_seconds(lambda: executable(x, y, again)) for _ in range(_CALLS))
    return 2 * x.size * columns * _REPEATS / (least / threads) * 1e-9


def _seconds(call: Callable[[], object]) -> float:
    """Processor time of a call on all threads, which is the same beside other work."""
    start = time.process_time()
    call()
    return time.process_time() - start


def _ones(shape: tuple[int, ...]) -> Array:
    """Signed bytes that begin with a line of the cache."""
    size = prod(shape)
    return touched_memory(size).view(np.int8)[:size].reshape(shape)


def _shape(target: Target) -> tuple[int, int, int]:
    """Rows and columns of sums, and the words along them of an instruction."""
    return (32, 32, 16) if target.has_matrix_products(4) else (_CHAINS, target.lanes(4), 1)


@cache
def _compiled(target: Target) -> Compiled:
    """A program of the loops, which has registers of tiles where the target has such."""
    tiles = target.has_matrix_products(4)
    rows, columns, words = _shape(target)
    names = {
        "x": f"!loop.buffer<[threads, {rows}, {4 * words}], ui8>",
        "y": f"!loop.buffer<[threads, {words}, {4 * columns}], i8>",
        "z": f"!loop.buffer<[threads, {rows}, {columns}], i32>",
        "acc": f"!loop.buffer<[{rows}, {columns}], i32>",
        "mark": "" if tiles else "unroll dot ",
        "row": "%i",
        "word": "%o" if tiles else "0",
        "of_x": "4 * %o + %q" if tiles else "%q",
        "scope": "scratch" if tiles else "registers",
        "unroll": "" if tiles else " unroll",
        "rows": str(rows),
        "columns": str(columns),
        "lanes": str(target.lanes(4)),
    }
    product = _PRODUCT.format(**names)
    loops = (_TILES if tiles else _WORDS).format(product=product, **names)
    text = _MODULE.format(loops=loops, **names)
    return compile_loops(text, Options(target, artifact=Artifact("byte_limits")))
