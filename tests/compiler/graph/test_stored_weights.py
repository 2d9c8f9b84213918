"""Weights that are stored as bytes and used as floats, through the whole compiler."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

import weft
from tests.models.graph_writer import GraphWriter
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import read_graph
from weft.compiler.driver.session import Session

TERMS, COLUMNS = 384, 400


def network(rows: int | str, scales: tuple[int, ...] = (1, COLUMNS)) -> ModelProto:
    """x @ (f32(w) * s) of bytes, with scales of a shape."""
    net, rng = GraphWriter("stored", seed=1), np.random.default_rng(0)
    bytes = rng.integers(-127, 128, (TERMS, COLUMNS)).astype(np.int8)
    weights = net.op("Cast", net.stored("w", bytes), to=TensorProto.FLOAT)
    scale = net.stored("s", (rng.random(scales) + 0.5).astype(np.float32) / 1024)
    product = net.op("MatMul", net.input("x", (rows, TERMS)), net.op("Mul", weights, scale))
    net.output(product, "y", (rows, COLUMNS))
    return net.model


def operators(model: ModelProto, **options: bool) -> list[str]:
    return [op.name for op in read_graph(model, Session(Options(**options))).module.walk()]


def test_products_read_bytes_unless_every_bit_counts_or_scales_are_of_what_is_summed():
    assert "graph.cast" in operators(network(8))
    assert "graph.cast" not in operators(network(8), strict_fp=True)
    assert "graph.cast" not in operators(network(8, (TERMS, 1)))


@pytest.mark.parametrize("cpu", ["native", "x86-64-v3"])
@pytest.mark.parametrize("rows", [1, 13, 48, 300])
def test_floats_of_panels_are_those_of_tiles_for_any_rows(rows: int, cpu: str):
    x = np.random.default_rng(rows).standard_normal((rows, TERMS)).astype(np.float32)
    exact = weft.compile(network(rows), strict_fp=True)(x=x)[0]
    for model in (network(rows), network("m")):
        runs = [weft.compile(model, threads=n, target=cpu)(x=x)[0] for n in (1, 2)]
        np.testing.assert_allclose(runs[0], exact, rtol=0, atol=2e-6 * np.abs(exact).max())
        np.testing.assert_array_equal(*runs)
