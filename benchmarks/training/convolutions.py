"""Gradients of convolutions beside PyTorch's, in turns, on one thread:

    PYTHONPATH=. python -m benchmarks.training.convolutions 16 filter stem 64s2

Of so many images, in the filter, in the image or both, for the layers that are named or all of
those of ResNet-18 at 224 x 224: processor time of each, medians and the least.
"""
# pyright: basic

from __future__ import annotations

import statistics
import sys
import time

import numpy as np

import weft
from weft import nn

LAYERS = {
    "stem": (3, 64, 224, 7, 2), "64": (64, 64, 56, 3, 1),
    "64s2": (64, 128, 56, 3, 2), "64p": (64, 128, 56, 1, 2), "128": (128, 128, 28, 3, 1),
    "128s2": (128, 256, 28, 3, 2), "128p": (128, 256, 28, 1, 2), "256": (256, 256, 14, 3, 1),
    "256s2": (256, 512, 14, 3, 2), "256p": (256, 512, 14, 1, 2), "512": (512, 512, 7, 3, 1),
}  # fmt: skip
"""Channels, filters, rows and columns, taps along an axis, stride."""
SIDES = {"image": 0, "filter": 1}
TURNS = 7


def ours(side: int, x, w, dy, stride: int, pad: int):
    """What takes the gradient, by weft."""
    filters, channels, taps, _ = w.shape
    layer = nn.Conv2d(channels, filters, taps, stride, pad, bias=False)

    def slope(x, w, dy):
        def loss(x, w):
            return (layer.apply({"weight": w}, x) * dy).sum()

        return weft.grad(loss, side)(x, w)

    step = weft.step(slope, x, w, dy, threads=1)
    return lambda: step(x, w, dy)


def of_torch(side: int, x, w, dy, stride: int, pad: int):
    import torch

    torch.set_num_threads(1)
    given = [torch.from_numpy(each) for each in (dy, x, w)]
    steps, pads, ones = [stride] * 2, [pad] * 2, [1, 1]
    mask = [side == 0, side == 1, False]
    backward = torch.ops.aten.convolution_backward

    def run():
        return backward(*given, None, steps, pads, ones, False, [0, 0], 1, mask)[side].numpy()

    return run


def main(images: int, sides: list[str], names: list[str]) -> None:
    draw = np.random.default_rng(0)
    for name in names or LAYERS:
        channels, filters, size, taps, stride = LAYERS[name]
        x = draw.standard_normal((images, channels, size, size), np.float32)
        w = draw.standard_normal((filters, channels, taps, taps), np.float32)
        place = (size + taps // 2 * 2 - taps) // stride + 1
        dy = draw.standard_normal((images, filters, place, place), np.float32)
        for side in sides or SIDES:
            if name == "stem" and side == "image":
                continue
            given = SIDES[side], x, w, dy, stride, taps // 2
            ways = {"weft": ours(*given), "torch": of_torch(*given)}
            found = {way: np.asarray(run()) for way, run in ways.items()}
            np.testing.assert_allclose(*found.values(), rtol=1e-2, atol=2e-4 * place * 4)
            times: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(TURNS):
                for way, run in ways.items():
                    begin = time.process_time()
                    run()
                    times[way].append(1e3 * (time.process_time() - begin))
            one, other = (statistics.median(each) for each in times.values())
            least = ", ".join(f"{min(each):.1f}" for each in times.values())
            line = f"{one:7.1f} torch {other:7.1f} ratio {other / one:5.2f} least {least}"
            print(f"{name:6} {side:6} weft {line}", flush=True)


if __name__ == "__main__":
    words = sys.argv[1:]
    count = [int(each) for each in words[:1]] or [16]
    main(*count, [w for w in words[1:] if w in SIDES], [w for w in words[1:] if w in LAYERS])
