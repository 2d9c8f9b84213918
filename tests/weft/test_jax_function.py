"""Functions of JAX, beside what XLA gives; JAX is no part of the development environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft

REASON = "from_jax requires JAX: pip install 'weft[jax]'"
RANDOM = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def agree(jax: Any, ours: Any, theirs: Any) -> None:
    """The same pytree, of values that are close."""
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_a_loss_and_its_gradients():
    jax = pytest.importorskip("jax", reason=REASON)
    jnp: Any = jax.numpy
    table = floats(8, 8)  # closed over, a weight of the compiled function
    parameters = {"w": floats(8, 3), "b": floats(3)}
    x = floats(5, 8)

    def loss(parameters: Any, x: Any) -> Any:
        hidden = jnp.tanh(x @ table) @ parameters["w"] + parameters["b"]
        return -jnp.mean(jax.nn.log_softmax(hidden)[:, 0])

    step = jax.value_and_grad(loss)
    compiled = weft.from_jax(step, parameters, x)
    agree(jax, compiled(parameters, x), step(parameters, x))
    with pytest.raises(weft.InputError, match="requires arguments"):
        compiled(x, parameters)


def test_loops_sorts_and_random_bits():
    jax = pytest.importorskip("jax", reason=REASON)
    jnp: Any = jax.numpy

    def program(x: Any, i: Any) -> Any:
        last, sums = jax.lax.scan(lambda c, row: (c * 0.5 + row, c.sum()), jnp.zeros(4), x)
        bits = jax.random.bits(jax.random.PRNGKey(0), (3,))
        return last, sums, jnp.argmax(x, 1), jnp.sort(x, 1), x[i], jnp.cumsum(x, 0), bits

    x, i = floats(6, 4), np.array([5, 0], np.int32)
    agree(jax, weft.from_jax(program, x, i)(x, i), program(x, i))


def test_complex_arguments_and_results():
    jax = pytest.importorskip("jax", reason=REASON)
    z = floats(3, 4) + np.complex64(1j) * floats(3, 4)

    def program(z: Any, x: Any) -> Any:
        return {"product": z * x, "size": abs(z), "sorted": jax.lax.sort(z)}

    agree(jax, weft.from_jax(program, z, z.real)(z, z.real), program(z, z.real))


def test_symbolic_sizes():
    jax = pytest.importorskip("jax", reason=REASON)
    jnp: Any = jax.numpy
    rows, columns = jax.export.symbolic_shape("rows, columns")

    def program(x: Any) -> Any:
        return jnp.concatenate([x, x]).sum(1) + jnp.arange(2 * x.shape[0])

    compiled = weft.from_jax(program, jax.ShapeDtypeStruct((rows, columns), jnp.float32))
    for shape in ((1, 3), (4, 2)):
        x = floats(*shape)
        agree(jax, compiled(x), program(x))


def test_a_function_in_c(tmp_path: Path):
    pytest.importorskip("jax", reason=REASON)
    example = Path(__file__).parents[2] / "examples" / "jax_in_c.py"
    command = [sys.executable, example]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert shown.startswith("every eighth temperature, in C: 100.00 61.27 ")
