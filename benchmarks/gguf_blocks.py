"""Block formats of GGUF: floats beside those of the package `gguf`, and products beside float64.

    python -m benchmarks.gguf_blocks -o OUT.jsonl [--rows 4096] [--terms 8192]

A row for each format: of any bytes, infinite and subnormal scales among them, how many floats have
other bits than the package's; of bytes with usual scales, the greatest error of products of 1, 5
and 64 rows, in parts of the greatest result, and that of NumPy's product in f32.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import weft
from weft import Tensor
from weft.dialects.graph.quantized.gguf_blocks import FORMATS

Array = NDArray[Any]

SCALES: Final = {"Q4_0": (0,), "Q8_0": (0,), "Q4_K": (0, 2), "Q6_K": (208,)}
"""Where a block has its floats of f16."""

COUNTS: Final = (1, 5, 64)


def any_blocks(name: str, rows: int, terms: int, rng: np.random.Generator) -> Array:
    """Blocks of any bytes."""
    form = FORMATS[name]
    return rng.integers(0, 256, (rows, terms // form.elements, form.bytes), np.uint8)


def usual_blocks(name: str, rows: int, terms: int, rng: np.random.Generator) -> Array:
    """Blocks of any codes, with scales as weights have them."""
    blocks = any_blocks(name, rows, terms, rng)
    for place in SCALES[name]:
        scales = rng.uniform(0.005, 0.02, (*blocks.shape[:2], 1)).astype(np.float16)
        blocks[..., place : place + 2] = scales.view(np.uint8)
    return blocks


def product(name: str, blocks: Array, terms: int) -> weft.Executable:
    """A product of a number of rows that only the call knows with the blocks."""
    g = weft.Graph("product")
    x = g.input("x", "float32", ("m", terms))
    rows = g.constant(blocks.reshape(blocks.shape[0], -1))
    g.output("y", x @ g.op("dequantize_gguf", rows, format=name).T)
    return weft.compile(g, threads=1, cache=False)


def measure(name: str, rows: int, terms: int) -> dict[str, Any]:
    """The row of a format."""
    from gguf import GGMLQuantizationType, quants

    rng, stored_as = np.random.default_rng(3), GGMLQuantizationType[name]
    blocks = any_blocks(name, rows, terms, rng).reshape(rows, -1)
    with np.errstate(all="ignore"):
        theirs = quants.dequantize(blocks, stored_as).astype(np.float32)
    own = np.asarray(Tensor(blocks).apply("dequantize_gguf", format=name))
    same = (own.view(np.uint32) == theirs.view(np.uint32)) | (np.isnan(own) & np.isnan(theirs))
    row: dict[str, Any] = {"format": name, "floats": own.size, "other_bits": int((~same).sum())}
    blocks = usual_blocks(name, rows, terms, rng)
    floats = quants.dequantize(blocks.reshape(rows, -1), stored_as)
    executable = product(name, blocks, terms)
    for count in COUNTS:
        x = rng.standard_normal((count, terms)).astype(np.float32)
        exact = x.astype(np.float64) @ floats.T.astype(np.float64)
        for engine, given in (("weft", executable(x)[0]), ("numpy", x @ floats.T)):
            row[f"{engine}_{count}"] = float(np.abs(given - exact).max() / np.abs(exact).max())
    return row


def main() -> None:
    """Prints and records all rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--terms", type=int, default=8192)
    arguments = parser.parse_args()
    for name in FORMATS:
        line = json.dumps(measure(name, arguments.rows, arguments.terms))
        print(line, flush=True)
        with arguments.output.open("a") as file:
            file.write(f"{line}\n")


if __name__ == "__main__":
    main()
