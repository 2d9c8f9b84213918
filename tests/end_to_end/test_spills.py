"""The machine code of hot loops, for every processor with multiply-adds: sums stay in registers."""

import re
from collections.abc import Iterator

import pytest
from onnx import ModelProto

from tests.models.graph_writer import GraphWriter
from weft.compiler.driver.emit import emit_text
from weft.compiler.driver.options import Artifact, Options
from weft.compiler.driver.session import Session
from weft.compiler.target import TARGETS

FUSED = [target for target in TARGETS if target.has_fma]
LABEL = re.compile(r"^(\.?L?\w+):")
MULTIPLY_ADD = re.compile(r"v?f(n?m)?(add|sub|la|acc)\w*\b|vfn?m\w+|fml[as]")
STACK = re.compile(r"%rsp|\[sp|\(sp\)|, sp$")


def hot_model() -> ModelProto:
    """Products of known and unknown sizes, a convolution of one tap, one with strides, and one of
    each channel.
    """
    net = GraphWriter("hot", seed=1)
    x = convolved(net, net.input("x", (1, 64, 28, 28)), 64, 96, 1)
    x = convolved(net, x, 96, 128, 3, strides=[2, 2])
    net.output(convolved(net, x, 128, 128, 3, group=128), "y", (1, 128, 14, 14))
    rows = net.input("rows", ("n", 96))
    product = net.op("MatMul", rows, net.weight("weight", (96, 200), 0.1))
    net.output(net.op("Relu", product), "z", ("n", 200))
    left, right = net.input("left", (4, 64, 50)), net.input("right", (4, 50, 72))
    net.output(net.op("MatMul", left, right), "products", (4, 64, 72))
    return net.model


def convolved(
    net: GraphWriter,
    x: str,
    channels: int,
    wider: int,
    taps: int,
    group: int = 1,
    **more: list[int],
) -> str:
    weight = net.weight(f"{wider}.{taps}.{group}", (wider, channels // group, taps, taps), 0.1)
    pads = [taps // 2] * 4
    conv = net.op("Conv", x, weight, kernel_shape=[taps] * 2, pads=pads, group=group, **more)
    return net.op("Relu", conv)


def loops(text: str) -> Iterator[list[str]]:
    """The instructions of each block that is a loop of its own, up to the jump to its start."""
    label, lines = "", list[str]()
    for line in text.splitlines():
        if found := LABEL.match(line):
            label, lines = found[1], []
        elif line.startswith("\t") and not line.startswith("\t."):
            lines.append(re.split(r"\s*(?:#|//)", line.strip().replace("\t", " "))[0])
            if re.match(rf"(j|b|cb)[a-z.]* .*{re.escape(label)}$", lines[-1]):
                yield lines[:]


@pytest.mark.parametrize("target", FUSED, ids=lambda target: target.name)
def test_hot_loops_leave_the_stack_alone(target):
    text = emit_text(
        hot_model().SerializeToString(), "asm", Session(Options(target, artifact=Artifact("hot")))
    )
    kernels = dict(part.split("\n", 1) for part in re.split(r"^# (?=\w+$)", text, flags=re.M)[1:])
    hot = {name: code for name, code in kernels.items() if name.startswith(("matmul", "conv"))}
    assert len(hot) == 5
    for name, code in hot.items():
        busy = [
            lines
            for lines in loops(code)
            if sum(bool(MULTIPLY_ADD.match(each)) for each in lines) >= 8
        ]
        assert busy, name
        assert not [each for lines in busy for each in lines if STACK.search(each)], name
