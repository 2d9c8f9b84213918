"""Artifacts for other processors: they compute there what they compute here."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.compiler.machine.artifact.foreign import (
    AARCH64,
    RISCV64,
    Emulator,
    build_host,
    run_artifact,
)
from tests.models.light import SEED, seeded_input
from tests.models.networks import NETWORKS
from tests.support.shared_kernels import compile_shared
from tests.support.small_models import dense_model
from weft.cli.demo_model import load_light, with_random_weights
from weft.compilation import options_of
from weft.compiler.machine.artifact.artifact import read_metadata
from weft.compiler.target.arm import NEOVERSE_V1
from weft.compiler.target.features import feature_groups

HOST = Path(__file__).with_name("wasm_host.js")
EMULATORS = {"aarch64": AARCH64, "riscv64": RISCV64, "riscv64-v": RISCV64}


@pytest.mark.parametrize("target", [*EMULATORS, "neoverse-v1"])
def test_a_network_runs_in_the_emulator(target: str, tmp_path: Path):
    lenet = next(each for each in NETWORKS if each.name == "lenet")
    (array,) = lenet.make_inputs(SEED).values()
    check(lenet.build(), array, target, EMULATORS.get(target, AARCH64), tmp_path)


@pytest.mark.parametrize("target", ["cortex-a76", "neoverse-n1"])
def test_a_table_is_all_that_a_new_cpu_needs(target: str, tmp_path: Path):
    lenet = next(each for each in NETWORKS if each.name == "lenet")
    (array,) = lenet.make_inputs(SEED).values()
    emulator = replace(AARCH64, options=("-cpu", target))
    check(lenet.build(), array, target, emulator, tmp_path, self_test=True)


V82 = "crc, dotprod, fullfp16, lse, rcpc, rdm"
V1 = (
    "bf16, complxnum, crc, dotprod, fp16fml, fullfp16, i8mm, jsconv, lse, rcpc, rcpc-immo, rdm, sve"
)
REFUSALS = [
    (
        "riscv64-v",
        RISCV64,
        "rv64,v=false",
        "m, a, f, d, c, v, got one with m, a, f, d, c that lacks some of v",
    ),
    (
        "neoverse-n1",
        AARCH64,
        "cortex-a57",
        f"neon, {V82}, got one with neon that lacks some of {V82}",
    ),
    (
        "neoverse-v1",
        AARCH64,
        "cortex-a57",
        f"neon, {V1}, got one with neon that lacks some of {V1}",
    ),
]


@pytest.mark.parametrize(("target", "emulator", "cpu", "facts"), REFUSALS)
def test_a_lesser_processor_is_told_what_it_lacks(
    target: str, emulator: Emulator, cpu: str, facts: str, tmp_path: Path
):
    if (missing := emulator.missing()) is not None:
        pytest.skip(missing)
    model = dense_model(5)
    compiled = compile_shared(model, options_of(model, target=target))
    done = emulator.run(build_host(compiled, np.ones((5, 96), np.float32), tmp_path), cpu)
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout == f"create requires a CPU with {facts}\n"


def test_all_that_a_processor_can_be_asked_for_is_asked():
    assert feature_groups(NEOVERSE_V1) == (("neon",), tuple(V1.split(", ")))


@pytest.mark.parametrize("target", EMULATORS)
def test_squeezenet_runs_in_the_emulator(target: str, tmp_path: Path):
    model = with_random_weights(load_light("squeezenet"), SEED)
    check(model, seeded_input(), target, EMULATORS[target], tmp_path)


def test_squeezenet_runs_as_webassembly(tmp_path: Path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    model = with_random_weights(load_light("squeezenet"), SEED)
    array = seeded_input()
    compiled = compile_shared(model, options_of(model, target="wasm32", self_test=True))
    compiled.export_wasm(tmp_path / "model.wasm")
    (expected,) = weft.compile(model)(array)
    (tmp_path / "input").write_bytes(array.tobytes())
    workspace = compiled.metadata["workspace_bytes"]
    arguments = ["input", "output", expected.nbytes, workspace]
    done = subprocess.run(
        [node, HOST, "model.wasm", *map(str, arguments)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"run requires a workspace of {workspace} bytes, got 0\n"
    got = np.frombuffer((tmp_path / "output").read_bytes(), np.float32).reshape(expected.shape)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_webassembly_is_inspected_and_not_loaded(tmp_path: Path):
    lenet = next(each for each in NETWORKS if each.name == "lenet").build()
    path = tmp_path / "lenet.wasm"
    compiled = compile_shared(lenet, options_of(lenet, target="wasm32"))
    compiled.export_wasm(path)
    assert read_metadata(path)["triple"] == "wasm32-unknown-unknown"
    with pytest.raises(weft.ArtifactError, match="requires a WebAssembly engine, got a "):
        weft.load(path)
    with pytest.raises(weft.OptionError, match=r"a name in \.wasm, got .*lenet\.so for wasm32"):
        compiled.export(tmp_path / "lenet.so")
    whole = path.read_bytes()
    seal = 46  # the last section: a digest of the rest
    path.write_bytes(whole[: -seal - 1])
    with pytest.raises(weft.ArtifactError, match="requires a whole file"):
        read_metadata(path)
    path.write_bytes(whole[: -seal - 1] + b"?" + whole[-seal:])
    with pytest.raises(weft.ArtifactError, match="requires intact metadata"):
        read_metadata(path)


def check(
    model, array, target: str, emulator: Emulator, folder: Path, *, self_test: bool = False
) -> None:
    if (missing := emulator.missing()) is not None:
        pytest.skip(missing)
    compiled = compile_shared(model, options_of(model, target=target, self_test=self_test))
    got = run_artifact(compiled, emulator, array, folder)
    (expected,) = weft.compile(model)(array)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 * scale)
