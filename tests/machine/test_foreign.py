"""Artifacts for other processors: they compute there what they compute here."""

from pathlib import Path

import numpy as np
import pytest

import weft
from compiler.cli.demo_model import load_light, with_random_weights
from compiler.pipeline import compile_model
from tests.machine.foreign import AARCH64, RISCV64, Emulator, run_artifact
from tests.models.light import SEED, seeded_input
from tests.models.networks import NETWORKS
from weft.compilation import options_of

EMULATORS = {"aarch64": AARCH64, "riscv64": RISCV64, "riscv64-v": RISCV64}


@pytest.mark.parametrize("target", EMULATORS)
def test_a_network_runs_in_the_emulator(target: str, tmp_path: Path):
    lenet = next(each for each in NETWORKS if each.name == "lenet")
    (array,) = lenet.make_inputs(SEED).values()
    check(lenet.build(), array, target, EMULATORS[target], tmp_path)


@pytest.mark.parametrize("target", EMULATORS)
def test_squeezenet_runs_in_the_emulator(target: str, tmp_path: Path):
    model = with_random_weights(load_light("squeezenet"), SEED)
    check(model, seeded_input(), target, EMULATORS[target], tmp_path)


def check(model, array, target: str, emulator: Emulator, folder: Path) -> None:
    if (missing := emulator.missing()) is not None:
        pytest.skip(missing)
    compiled = compile_model(model, options_of(model, target))
    got = run_artifact(compiled, emulator, array, folder)
    (expected,) = weft.compile(model)(array)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 * scale)
