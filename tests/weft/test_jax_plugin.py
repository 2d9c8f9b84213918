"""The platform `weft` of JAX: programs in a process of their own, which check themselves against
NumPy; JAX is no part of the development environment.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

START = """
import numpy as np
import jax
import jax.numpy as jnp
jax.config.update("jax_platforms", "PLATFORMS")
from weft.jax_plugin import initialize
initialize()
random = np.random.default_rng(0)
"""

PROGRAM = """
assert [str(each) for each in jax.devices()] == ["weft:0"]
assert np.asarray(jnp.arange(3) + 1).tolist() == [1, 2, 3]

# derivatives, pytrees and control flow
def loss(parameters, x):
    return jnp.mean(jnp.maximum(x @ parameters["w"] + parameters["b"], 0) ** 2)

x, w = random.standard_normal((5, 4)).astype("f"), random.standard_normal((4, 3)).astype("f")
value, gradients = jax.jit(jax.value_and_grad(loss))({"w": w, "b": np.zeros(3, "f")}, x)
hidden = np.maximum(x @ w, 0)
np.testing.assert_allclose(value, np.mean(hidden**2), rtol=1e-5)
np.testing.assert_allclose(gradients["w"], x.T @ hidden * 2 / 15, rtol=1e-4, atol=1e-5)

@jax.jit
def several(x):
    last, sums = jax.lax.scan(lambda c, row: (c * 0.5 + row, c.sum()), jnp.zeros(4), x)
    z = x[0] + 1j * x[1]
    return jax.lax.cond(x[0, 0] > 9, lambda: last, lambda: -last), sums, z * z

last, sums, square = several(x)
expected = np.zeros(4, "f")
for row, total in zip(x, sums):
    np.testing.assert_allclose(total, expected.sum(), rtol=1e-4, atol=1e-5)
    expected = expected * 0.5 + row
np.testing.assert_allclose(last, -expected, rtol=1e-5)
np.testing.assert_allclose(square, (x[0] + 1j * x[1]) ** 2, rtol=1e-4)

# bits, and what is transferred
assert np.asarray(jax.random.bits(jax.random.PRNGKey(0), (2,))).tolist() == [4070199207, 4202968722]
table = np.arange(12).reshape(3, 4)
for view in (table.T, table[::-1, ::2], table[:0]):
    np.testing.assert_array_equal(jnp.asarray(view), view)
step = jax.jit(lambda x: x + 1, donate_argnums=0)
given = jnp.ones(1000)
place = given.unsafe_buffer_pointer()
taken = step(given)
assert given.is_deleted() and taken.unsafe_buffer_pointer() == place
assert np.asarray(taken).ctypes.data == place

# errors are exceptions
for broken in (lambda: step(given), lambda: jax.jit(jax.lax.linalg.schur)(jnp.eye(3))):
    try:
        broken()
    except (RuntimeError, NotImplementedError, ValueError) as error:
        print(error)
    else:
        raise AssertionError("an error is expected")
print("done")
"""


def run(program: str, platforms: str = "weft") -> str:
    """What a program prints, in a process that ends well."""
    pytest.importorskip("jax", reason="the platform requires JAX: pip install 'weft[jax]'")
    command = [sys.executable, "-c", START.replace("PLATFORMS", platforms) + program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_programs_of_jax():
    lines = run(PROGRAM).splitlines()
    assert "deleted" in lines[0]
    assert "schur" in lines[1]
    assert lines[2:] == ["done"]


ALIKE = """
import os
from pathlib import Path

def one(x):
    return x * 3

def other(x):
    return x * 3

x = jnp.ones(4)
for each in (one, other):
    compiled = jax.jit(each).lower(x).compile()
    assert np.asarray(compiled(x)).tolist() == [3] * 4
    print(compiled.runtime_executable().fingerprint.decode().split()[0])
    print(sum(path.is_file() for path in Path(os.environ["XDG_CACHE_HOME"]).rglob("*")))
"""


def test_programs_that_are_alike_but_for_their_names_are_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one, files, other, files_then = run(ALIKE).splitlines()
    assert (one, other) == ("jit_one", "jit_other")
    assert files == files_then


DECOMPOSITIONS = """
@jax.jit
def decomposed(a):
    return jnp.linalg.qr(a), jnp.linalg.svd(a), jnp.linalg.eigh(a[:3] + a[:3].T)

a = random.standard_normal((4, 3)).astype("f")
(q, r), (u, s, v), (w, x) = jax.tree.map(np.asarray, decomposed(a))
for product, expected in (
    (q @ r, a), (np.tril(r, -1), np.zeros((3, 3))), (q.T @ q, np.eye(3)),
    (u[:, :3] * s @ v, a), (u.T @ u, np.eye(4)), (v @ v.T, np.eye(3)),
    (x * w @ x.T, a[:3] + a[:3].T), (x.T @ x, np.eye(3)),
):
    np.testing.assert_allclose(product, expected, atol=5e-6)
np.testing.assert_allclose(s, np.linalg.svd(a)[1], rtol=1e-5)
np.testing.assert_allclose(w, np.linalg.eigvalsh(a[:3] + a[:3].T), rtol=1e-4, atol=1e-5)

stack = np.stack([a[:3], a[1:]])
values, vectors = jnp.linalg.eig(stack)
np.testing.assert_allclose(stack @ vectors, vectors * values[:, None], atol=5e-6)
"""


def test_decompositions():
    assert run(DECOMPOSITIONS) == ""


CALLBACKS = """
from jax.experimental import io_callback

seen = []

@jax.jit
def program(x):
    jax.debug.print("x = {}, sum {:.1f}", x, x.sum())
    kind = jax.ShapeDtypeStruct((2,), jnp.complex64)
    z = jax.pure_callback(lambda v: np.exp(1j * np.asarray(v)).astype("F"), kind, x)

    def step(n, total):
        add = lambda n, t: (seen.append(int(n)), t + n)[1]
        return io_callback(add, total, n, total, ordered=True)

    return z, jax.lax.fori_loop(0, 4, step, jnp.float32(0))

z, total = program(jnp.arange(2.0))
jax.effects_barrier()
np.testing.assert_allclose(z, np.exp(1j * np.arange(2)), rtol=1e-6)
assert (float(total), seen) == (6, [0, 1, 2, 3])
four = jnp.arange(-8, 8).astype("int4")
assert (np.asarray(four + four, "i4") == (np.arange(-8, 8) * 2 + 8) % 16 - 8).all()

def fails(x):
    return jax.pure_callback(lambda v: np.zeros(3, "f"), jax.ShapeDtypeStruct((2,), "f"), x)

try:
    jax.jit(fails)(jnp.ones(2)).block_until_ready()
except RuntimeError as error:
    print(error)
"""


def test_callbacks_and_narrow_types():
    printed, failed = run(CALLBACKS).splitlines()
    assert printed == "x = [0. 1.], sum 1.0"
    assert "Expected: (2,), Actual: (3,)" in failed


MEMORY = """
import gc, threading, weakref

# NumPy's arrays become arrays of JAX where they lie, and are held as long as those
given = random.standard_normal(100_000).astype("f")
array = jax.device_put(given)
assert array.unsafe_buffer_pointer() == given.ctypes.data
copied = jnp.array(given)
assert copied.unsafe_buffer_pointer() != given.ctypes.data
held = weakref.ref(given)
expected = given[:3].tolist()
del given
gc.collect()
assert held() is not None and np.asarray(array)[:3].tolist() == expected
twice = jax.jit(lambda x: x * 2, donate_argnums=0)(array)  # what is not the plugin's is not taken
assert held()[:3].tolist() == expected
del array
gc.collect()
jax.device_put(1.0).block_until_ready()
assert held() is None
assert np.asarray(twice)[:3].tolist() == [2 * each for each in expected]

# XLA's CPU beside it
cpu, weft = jax.devices("cpu")[0], jax.devices()[0]
there = jax.device_put(copied, cpu)
product = jax.jit(lambda x: x @ x)
assert product(there).devices() == {cpu} and product(copied).devices() == {weft}
np.testing.assert_allclose(product(there), product(copied), rtol=1e-4)
assert jax.device_put(there + 1, weft).devices() == {weft}
assert jax.dlpack.from_dlpack(np.arange(3.0), device=weft).devices() == {weft}
jax.debug.callback(lambda x: print(float(x)), jnp.float32(1.5))
jax.effects_barrier()

# numbers that are differences of logarithms have the bits of XLA's
@jax.jit
def drawn(key):
    return jax.random.logistic(key, (99,)), jax.random.truncated_normal(key, -1.0, 2.0, (99,))

for ours, theirs in zip(*(drawn(jax.device_put(jax.random.PRNGKey(7), at)) for at in (weft, cpu))):
    assert ours.devices() == {weft} and theirs.devices() == {cpu}
    np.testing.assert_array_equal(ours, theirs)

# the interpreter ends while another thread computes
step = jax.jit(lambda x: jax.lax.fori_loop(0, 20_000, lambda _, x: jnp.cos(x), x))
step(copied[:100]).block_until_ready()

def work():
    for _ in range(5):
        result = step(copied[:100])
    print(round(float(result[0]), 3))

threading.Thread(target=work).start()
"""


def test_memory_and_platforms_and_the_end():
    assert run(MEMORY, "weft,cpu").splitlines() == ["1.5", "0.739"]


def test_other_minors_are_refused():
    """By a sentence, before anything of JAX is touched."""
    pytest.importorskip("jax", reason="the platform requires JAX: pip install 'weft[jax]'")
    program = """
import jaxlib
jaxlib.__version__ = "0.12.1"
import jax
jax.config.update("jax_platforms", "weft")
from weft.jax_plugin import initialize
initialize()
"""
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 1
    rule = "the platform weft requires jaxlib of 0.9 or 0.10, got 0.12.1"
    assert ended.stderr.rstrip().endswith(rule)
