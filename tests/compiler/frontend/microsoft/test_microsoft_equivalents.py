"""Forms of operators that onnxruntime has for GPUs alone, beside those of the same meaning that it
has for CPUs.
"""
# pyright: basic

from typing import Any

import numpy as np
from msgspec.structs import replace

import weft
from tests.compiler.frontend.microsoft.attention import (
    BATCH,
    HEADS,
    KEYS,
    PAST,
    SIZE,
    STEPS,
    attention,
    floats,
    grouped,
    mask,
    multi_head,
)
from tests.compiler.frontend.microsoft.quantised import blocks
from tests.compiler.frontend.microsoft.samples import Array, Sample, model_of
from tests.models.peer import run_onnxruntime

Pair = tuple[Sample, Sample]


def changed(sample: Sample, attributes: dict[str, Any] | None = None, **operands: Any) -> Sample:
    kept = {**sample.operands, **operands}
    return replace(sample, operands=kept, attributes={**sample.attributes, **(attributes or {})})


def packed(*names: str, **options: Any) -> Pair:
    """Operands in one, the heads of each beside each other."""
    plain = multi_head(**options)
    rows = [plain.operands[name].reshape(BATCH, -1, HEADS, SIZE) for name in names]
    absent = dict.fromkeys(names[1:])
    return changed(plain, **absent, **{names[0]: np.stack(rows, 3)}), plain


def masked() -> Pair:
    """A mask of all positions that there may be, of which those behind the past are the queries."""
    most = mask(BATCH, 1, 7, 7)
    plain = attention(most[:, 0, PAST : PAST + STEPS, : PAST + STEPS], past=True, outputs="yp")
    return changed(plain, mask=most), plain


def rotated(rows: Array, first: int, width: int) -> Array:
    """`[..., steps, heads, size]` whose columns turn from step to step, the first half with the
    second one.
    """
    places = np.arange(first, first + rows.shape[-3], dtype=np.float32)
    angles = np.outer(places, 10000.0 ** (-np.arange(0, width, 2) / width))[:, None]
    left, right, rest = np.split(rows, [width // 2, width], axis=-1)
    pairs = left * np.cos(angles) - right * np.sin(angles)
    others = right * np.cos(angles) + left * np.sin(angles)
    return np.concatenate([pairs, others, rest], -1).astype(np.float32)


def rotary(*, past: bool, width: int) -> Pair:
    """An attention that turns queries and keys, and one of operands that are turned already."""
    plain = attention(past=past, unidirectional=1, outputs="yp")
    x, weights, bias = (plain.operands[name] for name in "xwb")
    rows = (x @ weights + bias).reshape(BATCH, STEPS, 3, HEADS, SIZE)
    first = PAST if past else 0
    for part in (0, 1):
        rows[:, :, part] = rotated(rows[:, :, part], first, width or SIZE)
    operands = {"x": rows.reshape(BATCH, STEPS, -1), "w": np.eye(3 * HEADS * SIZE), "b": bias * 0}
    given = {name: each.astype(np.float32) for name, each in operands.items()}
    attributes = {"do_rotary": 1} | ({"rotary_embedding_dim": width} if width else {})
    return changed(plain, attributes), changed(plain, **given)


def normalised() -> Pair:
    """Queries and keys over the roots of their mean squares."""
    plain = grouped([5, 3], 5, past=4, groups=2)
    scales, epsilon = [floats(16) for _ in range(2)], 0.1
    normal = {}
    for name, scale in zip("qk", scales, strict=True):
        heads = plain.operands[name].reshape(2, 1, -1, 16)
        root = np.sqrt(np.square(heads).mean(-1, keepdims=True) + np.float32(epsilon))
        normal[name] = (heads / root * scale).reshape(2, 1, -1)
    operands = {"k_scale": None, "v_scale": None, "q_norm": scales[0], "k_norm": scales[1]}
    return changed(plain, {"qk_norm_epsilon": epsilon}, **operands), changed(plain, **normal)


def blocked() -> Pair:
    """Blocks that are named in order: onnxruntime reads an odd count of packed zero points of rows
    wrongly there.
    """
    plain = blocks(4, "p")
    return changed(plain, g=(np.arange(40) // 16).astype(np.int32)), plain


PAIRS = [
    packed("q", "k", "v", keys=STEPS),
    packed("q", "k", "v", keys=STEPS, given="bp", outputs="ykv", unidirectional=1),
    packed("k", "v"),
    packed("k", "v", given="b", masked=mask(BATCH, KEYS), outputs="ykv"),
    masked(),
    rotary(past=False, width=0),
    rotary(past=True, width=2),
    normalised(),
    blocked(),
]


def test_forms_for_gpus_agree_with_those_for_cpus() -> None:
    ours, theirs = (model_of([pair[which] for pair in PAIRS]) for which in (0, 1))
    expected = run_onnxruntime(*theirs)
    given = weft.compile(ours[0], threads=1)(**ours[1])
    for number, (one, other) in enumerate(zip(given, expected, strict=True)):
        np.testing.assert_allclose(one, other, 1e-5, 1e-5, err_msg=f"result {number}")
