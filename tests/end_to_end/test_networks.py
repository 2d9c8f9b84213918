"""Whole networks from ONNX to native code, against onnxruntime and stored answers.

Tests that share a network are run next to each other, so that each is compiled once and the memory
of the one before is free.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.models import light, networks
from tests.models.networks import SMALL_VOCABULARY, Inputs
from tests.models.peer import run_onnxruntime
from tests.support.network_checks import (
    CC,
    NAMES,
    OPTIONS,
    SMALL,
    STATIC,
    SYMBOLIC,
    CompiledNetwork,
    bits,
    build,
    compile_network,
    deviation,
    inputs_of,
    run_c_program,
)
from tests.support.shared_kernels import compile_shared

TOLERANCE = 1e-4
LIGHT = tuple(name for name in NAMES if name.startswith("light_"))


@pytest.fixture(scope="module")
def network(request: pytest.FixtureRequest) -> Iterator[CompiledNetwork]:
    """The network of that name; its artifact, of up to 575 MB, goes with it."""
    with tempfile.TemporaryDirectory() as folder:
        yield compile_network(request.param, Path(folder))


def each(*names: str):
    return pytest.mark.parametrize("network", names, indirect=True)


@each(*NAMES)
def test_agrees_with_onnxruntime(network: CompiledNetwork):
    assert deviation(network.answer(), network.expected) < TOLERANCE


@each(*NAMES)
def test_artifact_gives_the_same_bits_with_any_number_of_threads(network: CompiledNetwork):
    expected = bits(network.answer())
    for threads in (1, 2, 4):
        loaded = weft.load(network.library, threads=threads)
        assert bits(list(loaded.run(network.inputs).values())) == expected, threads


@pytest.mark.skipif(CC is None, reason="needs a C compiler")
@each(*STATIC, *LIGHT)
def test_a_c_program_gets_the_same_bits(network: CompiledNetwork):
    (expected,) = bits(network.answer())
    assert run_c_program(network, threads=2) == expected


@each("mlp", *STATIC, *LIGHT)
def test_permuted_pixels_change_the_answer(network: CompiledNetwork):
    permuted = {name: light.with_permuted_pixels(image) for name, image in network.inputs.items()}
    other = list(network.executable.run(permuted).values())
    assert deviation(other, network.expected) > 0.02


@each(*STATIC, *LIGHT)
def test_workspace_is_as_large_as_its_buffers_reach(network: CompiledNetwork):
    buffers = network.executable.metadata["memory"]
    peak = network.executable.metadata["workspace_bytes"]
    assert peak == max(buffer["offset"] + buffer["bytes"] for buffer in buffers)
    live = [
        sum(buffer["bytes"] for buffer in buffers if buffer["first"] <= call <= buffer["last"])
        for call in range(max(buffer["last"] for buffer in buffers) + 1)
    ]
    # Buffers of many sizes leave gaps: 1.25 in a network with Winograd's wide temporaries.
    assert peak < 1.35 * max(live), "buffers share memory"


@pytest.mark.parametrize("name", light.LIGHT)
def test_light_network_as_shipped_gives_the_shipped_output(name: str):
    compiled = compile_shared(light.load_light(name), OPTIONS)
    (answer,) = compiled.executable(threads=2)(light.shipped_input())
    np.testing.assert_allclose(answer, light.shipped_output(name), rtol=1e-3)


@pytest.mark.parametrize("name", [*SMALL, "light_squeezenet"])
def test_naive_code_agrees_with_onnxruntime(name: str):
    model = build(name)
    inputs = inputs_of(name, model)
    executable = compile_shared(model, replace(OPTIONS, naive=True)).executable(threads=2)
    answer = list(executable.run(inputs).values())
    assert deviation(answer, run_onnxruntime(model, inputs)) < TOLERANCE


def inputs_of_size(name: str, batch: int, sequence: int) -> Inputs:
    if name == "mlp":
        return networks.image_inputs(2, batch, channels=1, size=28)
    make_inputs = networks.gpt2_inputs if name == "gpt2" else networks.bert_inputs
    return make_inputs(2, batch, sequence, SMALL_VOCABULARY)


@pytest.mark.parametrize(("batch", "sequence"), [(1, 1), (1, 7), (3, 16), (5, 33), (2, 64)])
@each(*SYMBOLIC)
def test_one_artifact_runs_any_size(network: CompiledNetwork, batch: int, sequence: int):
    inputs = inputs_of_size(network.name, batch, sequence)
    expected = run_onnxruntime(build(network.name), inputs)
    loaded = weft.load(network.library, threads=2)
    assert deviation(list(loaded.run(inputs).values()), expected) < TOLERANCE


@each("bert")
def test_bert_runs_its_longest_sequence(network: CompiledNetwork):
    inputs = inputs_of_size("bert", 1, 512)
    expected = run_onnxruntime(build("bert"), inputs)
    assert deviation(list(network.executable.run(inputs).values()), expected) < TOLERANCE


@each("bert", "bert_spelled_out")
def test_bert_refuses_a_sequence_above_its_positions(network: CompiledNetwork):
    with pytest.raises(weft.InputError, match="sequence"):
        network.executable.run(inputs_of_size("bert", 1, 513))


@each("gpt2")
def test_gpt2_refuses_a_sequence_above_its_context(network: CompiledNetwork):
    with pytest.raises(weft.InputError, match="sequence"):
        network.executable.run(inputs_of_size("gpt2", 1, 65))
