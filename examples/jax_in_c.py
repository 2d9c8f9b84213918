"""Writes a function of JAX as a shared object, and runs the C program examples/c/heat.c with it.
Needs JAX (pip install 'weft[jax]') and a C compiler; without them there is nothing to see.
"""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

import weft

if importlib.util.find_spec("jax") is None or shutil.which("cc") is None:
    print("jax, or a C compiler, is not installed")
    sys.exit()

import jax


def heat(rod):
    """The temperatures of a rod after 500 steps; its ends keep theirs."""

    def step(_, rod):
        flow = rod[:-2] - 2 * rod[1:-1] + rod[2:]
        return rod.at[1:-1].add(0.25 * flow)

    return jax.lax.fori_loop(0, 500, step, rod)


rod = np.zeros(33, np.float32)
rod[0] = 100
weft.from_jax(heat, rod, prefix="heat").export("libheat.so")
source = Path(__file__).parent / "c" / "heat.c"
flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-I.", source, "libheat.so", "-Wl,-rpath,."]
subprocess.run(["cc", *flags, "-o", "heat"], check=True)
shown = subprocess.run("./heat", capture_output=True, text=True, check=True).stdout
print(f"every eighth temperature, in C: {shown}", end="")
assert np.allclose([float(each) for each in shown.split()], heat(rod)[::8], atol=0.01)
