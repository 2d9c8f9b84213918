"""`weft quantize`: weights of a model in 4 or 8 bits."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import asdict

from weft.cli.parser import command_parser
from weft.cli.table import shown_bytes, table
from weft.cli.terminal import show
from weft.compiler.adapters.quantize_weights import LEVELS, Format, Layer, Quantized, quantize, save
from weft.compiler.frontend.onnx.load import load_model
from weft.dialects.errors import OptionError

BITS: Final = (4, 8)
LEAST_BLOCK: Final = 16

_EXAMPLES: Final = """\
Each block of weights along the sum of a product has a scale, and its weights are rounded to the
nearest of 16 or 256 steps; activations stay floats. The result is an ONNX file with MatMulNBits
nodes, which weft compiles and onnxruntime runs. The report lists layers from the worst on: 4 bits
in blocks of 32 leave some 20 dB, 8 bits some 45; a layer far below the others is one to --keep.

examples:
  weft quantize model.onnx --bits 4 --block 32          model-4bit.onnx, and the report
  weft quantize model.onnx --bits 8 -o small.onnx
  weft quantize model.onnx --bits 4 --keep lm_head      a layer that stays as it is
  weft quantize model.onnx --bits 4 --activations int8  products of bytes: faster, less exact
  weft quantize model.onnx --bits 4 --json              the report as one JSON object
  weft compare model.onnx model-4bit.onnx --random      what that does to the results

Activations in bytes with calibrated ranges are made by onnxruntime's quantiser: docs/quantizing.md.
"""


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command_parser(
        "weft quantize",
        "Stores the constant weights of MatMul and Gemm in a few bits.",
        _EXAMPLES,
    )
    made.add_argument("model", help="an ONNX file")
    made.add_argument("--bits", type=int, choices=BITS, required=True, help="of a weight")
    made.add_argument(
        "--block",
        type=int,
        default=32,
        metavar="WEIGHTS",
        help="that share a scale: a power of two, 16 or more (32); fewer are more exact and larger",
    )
    made.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="<model>-<bits>bit.onnx by default"
    )
    made.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="NODE",
        help="a node that stays as it is, by its name or that of its result; may be repeated",
    )
    made.add_argument(
        "--activations",
        choices=tuple(LEVELS),
        default="float",
        help="what weights are multiplied with: floats, or blocks of them as bytes",
    )
    made.add_argument("--json", action="store_true", help="the report as one JSON object")
    return made


def run(arguments: argparse.Namespace) -> None:
    """Writes the model and prints the report. Raises WeftError."""
    block, source = arguments.block, Path(arguments.model)
    if block < LEAST_BLOCK or block & (block - 1):
        raise OptionError(f"--block requires a power of two, {LEAST_BLOCK} or more, got {block}")
    output = arguments.output or Path(f"{source.stem}-{arguments.bits}bit.onnx")
    if not output.parent.is_dir():
        raise OptionError(f"-o requires a folder that exists, got {output.parent}")
    if output.exists() and source.exists() and output.samefile(source):
        raise OptionError(f"-o requires another file than the model, got {output}")
    form = Format(arguments.bits, block, arguments.activations)
    quantized = quantize(load_model(source), form, arguments.keep)
    save(quantized.model, output)
    show(_as_json(quantized, output) if arguments.json else _as_text(quantized, output))


def _as_json(quantized: Quantized, output: Path) -> str:
    facts = {
        "output": str(output),
        "layers": [asdict(each) for each in quantized.layers],
        "kept": [asdict(each) for each in quantized.kept],
    }
    return json.dumps(facts, indent=1)


def _as_text(quantized: Quantized, output: Path) -> str:
    layers = quantized.layers
    heads = ("signal to noise", "largest error", "weights", "node")
    rows = [
        (
            "exact" if each.snr_db is None else f"{each.snr_db:.1f} dB",
            f"{each.largest_error:.2g}",
            f"{each.terms} x {each.columns}",
            each.node,
        )
        for each in layers
    ]
    lines = [table([heads, *rows], indent="")]
    if quantized.kept:
        kept = [(each.node, each.reason) for each in quantized.kept]
        lines += ["", "kept as they are", table(kept)]
    before, after = _bytes(layers)
    lines += ["", f"{output}: weights of {shown_bytes(before)} in {shown_bytes(after)}"]
    return "\n".join(lines)


def _bytes(layers: Sequence[Layer]) -> tuple[int, int]:
    """The bytes of all weights before and after; products may share some."""
    distinct = {each.weight: each for each in layers}.values()
    return sum(each.bytes_before for each in distinct), sum(each.bytes_after for each in distinct)
