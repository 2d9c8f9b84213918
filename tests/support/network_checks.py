"""Whole networks, compiled once for all the tests that look at them, and answers compared."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

import weft
from tests.models import light, networks
from tests.models.networks import Inputs
from tests.models.peer import run_onnxruntime
from tests.support.shared_kernels import compile_shared
from weft.compiler.driver.options import Artifact, Options
from weft.compiler.machine.codegen.host import host_target

Arrays = Sequence[NDArray[Any]]

PREFIX = "net"
LIBRARY = "libnet.so"
HOST_PROGRAM = Path(__file__).with_name("network_host.c")
CC = shutil.which("cc")
OPTIONS = Options(host_target(), artifact=Artifact(PREFIX))

SMALL = {network.name: network for network in networks.NETWORKS}
SYMBOLIC = ("mlp", "bert", "bert_spelled_out", "gpt2")
STATIC = tuple(name for name in SMALL if name not in SYMBOLIC)
_LIGHT = "light_"
NAMES = (*SMALL, *(f"{_LIGHT}{name}" for name in light.LIGHT))
"""Small networks under their own names, the light graphs with random weights as `light_<name>`."""


@dataclass(frozen=True)
class CompiledNetwork:
    """A network, an input and onnxruntime's answer, the stored one of a light network; in this
    process, and as a .so in `folder`.
    """

    name: str
    inputs: Inputs
    expected: Arrays
    executable: weft.Executable
    folder: Path

    @property
    def library(self) -> Path:
        """The exported shared object."""
        return self.folder / LIBRARY

    def answer(self) -> Arrays:
        """What the model gives in this process."""
        return list(self.executable.run(self.inputs).values())


def build(name: str) -> ModelProto:
    """The network of that name."""
    if name in SMALL:
        return SMALL[name].build()
    return light.with_random_weights(light.load_light(name.removeprefix(_LIGHT)), light.SEED)


def inputs_of(name: str, model: ModelProto) -> Inputs:
    """The arrays that the tests run a network on."""
    if name in SMALL:
        return SMALL[name].make_inputs(1)
    return {model.graph.input[0].name: light.seeded_input()}


def compile_network(name: str, folder: Path) -> CompiledNetwork:
    """Compiles, runs and exports a network; onnxruntime runs first, so that its memory is free."""
    model = build(name)
    inputs = inputs_of(name, model)
    stored = name not in SMALL
    expected = (
        [light.reference(name.removeprefix(_LIGHT))] if stored else run_onnxruntime(model, inputs)
    )
    compiled = compile_shared(model, OPTIONS)
    compiled.export(folder / LIBRARY)
    return CompiledNetwork(name, inputs, expected, compiled.executable(threads=2), folder)


def deviation(answer: Arrays, expected: Arrays) -> float:
    """The largest difference, as a fraction of the largest magnitude of the expected output."""
    assert [array.shape for array in answer] == [array.shape for array in expected]
    return max(
        float(np.abs(found - wanted).max() / np.abs(wanted).max())
        for found, wanted in zip(answer, expected, strict=True)
    )


def bits(arrays: Arrays) -> list[bytes]:
    """The arrays' bytes."""
    return [array.tobytes() for array in arrays]


def run_c_program(network: CompiledNetwork, threads: int) -> bytes:
    """What a C program gets from the artifact of a network of constant sizes."""
    folder = network.folder
    program, source, output = folder / "host", folder / "input.bin", folder / "output.bin"
    flags = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{folder}")
    link = (str(network.library), f"-Wl,-rpath,{folder}", "-o", str(program))
    subprocess.run([str(CC), *flags, str(HOST_PROGRAM), *link], check=True)
    (image,) = network.inputs.values()
    image.tofile(source)
    arguments = [str(program), str(threads), str(source), str(output)]
    subprocess.run(arguments, check=True, timeout=60)
    return output.read_bytes()
