"""What programs import: those that this computer has compiled before start without the compiler.

Modules are counted, which takes the same on every machine; each is about a quarter of a
millisecond, those of xDSL two.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys

import numpy as np
import weft
import weft.numpy as wnp
from weft import nn

SCALE, WEIGHT = 2.0, np.ones((3, 3), np.float32)
X = np.ones((2, 3), np.float32)


def layer(x):
    return wnp.tanh(x @ WEIGHT) * SCALE


def loss(w, x):
    return (wnp.tanh(x @ w) ** 2).mean()


def update(w, x):
    return w - 0.1 * weft.grad(loss)(w, x)


def eager():
    x = weft.Tensor(X)
    return (x + x).numpy()


def jitted():
    return weft.jit(layer)(X)


def traced():
    return weft.trace(layer, X)(X)


def step():
    return weft.step(update, WEIGHT, X, donate=(0,))(WEIGHT, X).numpy()


print([each().tolist() for each in (eager, jitted, traced, step)])
print(*sys.modules)
"""

MOST = 200
"""Modules of weft's at most, a tenth more than there are."""

HEAVY = ("xdsl", "llvmlite", "onnx", "weft.dialects.graph", "weft.dialects.loop")


def run(folder: Path) -> tuple[str, list[str]]:
    """The results of the program, and the modules that there are then."""
    script = folder / "program.py"
    script.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "WEFT_CACHE_DIR": str(folder / "cache")}
    shown = subprocess.run(
        [sys.executable, str(script)], env=environment, check=True, capture_output=True, text=True
    )
    result, modules = shown.stdout.splitlines()
    return result, modules.split()


def test_a_program_that_was_compiled_before_starts_without_the_compiler(tmp_path: Path):
    first, modules = run(tmp_path)
    assert "xdsl" in modules
    again, modules = run(tmp_path)
    assert again == first
    assert [name for name in modules if name in HEAVY] == []
    assert sum(name.startswith("weft") for name in modules) <= MOST


def test_weft_numpy_imports_no_module_of_numpys_that_tensors_do_not_need():
    program = "import sys, numpy; a = {*sys.modules}; import weft.numpy; print(*{*sys.modules} - a)"
    shown = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    found = {name for name in shown.stdout.split() if name.startswith("numpy.")}
    needed = {name for name in found if name.startswith("numpy.fft")}  # whose functions it has
    assert found - needed <= {"numpy.typing", "numpy._typing._add_docstring"}


def test_operations_and_attributes_of_xdsl_are_defined_at_their_first_use():
    program = """
import sys
from weft.compiler.driver import pipeline
from xdsl.dialects import arith, builtin, func, math
from weft.dialects import attributes, definitions
print(*(each.irdl_op_definition.__module__ for each in (arith, func, math)))
print(builtin.IntegerType.get_irdl_definition.__func__.__module__)
"""
    shown = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    operations, attribute = shown.stdout.splitlines()
    assert operations.split() == 3 * ["weft.dialects.definitions"]
    assert attribute == "weft.dialects.attributes"
