"""`layers.pt2`, written by torch.export 2.13, as it is and with parts changed; without torch."""

import json
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import weft
from weft.compiler.frontend.torch.from_pt2 import read_pt2
from weft.dialects.errors import ModelError, WeftError

LAYERS = Path(__file__).with_name("layers.pt2")
PROGRAM = "layers/models/model.json"
WEIGHTS = "layers/data/weights/model_weights_config.json"
LAST = [[0.20855390, 0.03763287], [0.13534975, 0.03920461, 0.26485550, 0.10121617]]
"""What torch computes of the last image."""

OTHERS = (None, -1, 0, 7, 2**70, 1.5, "x", "-s0", [], {}, [None], {"as_int": -5}, True)


def changed(path: Path, part: str, content: Any, method: int = zipfile.ZIP_STORED) -> Path:
    """The file with a part of other content."""
    with zipfile.ZipFile(LAYERS) as old, zipfile.ZipFile(path, "w", method) as new:
        for name in old.namelist():
            new.writestr(name, json.dumps(content) if name == part else old.read(name))
    return path


def read(part: str) -> Any:
    with zipfile.ZipFile(LAYERS) as archive:
        return json.loads(archive.read(part))


def test_program_is_what_torch_computes():
    images = np.linspace(-1, 1, 5 * 3 * 36, dtype=np.float32).reshape(5, 3, 6, 6)
    for found, last in zip(weft.compile(LAYERS)(images), LAST, strict=True):
        assert found.shape == (5, len(last))
        np.testing.assert_allclose(found[-1], last, rtol=1e-5, atol=1e-6)


def spots(value: Any) -> list[tuple[Any, Any]]:
    """Every container in a JSON value with each of its keys."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    inner = [value[key] for key in keys if isinstance(value[key], (dict, list))]
    return [*((value, key) for key in keys), *(spot for each in inner for spot in spots(each))]


@pytest.mark.parametrize("part", [PROGRAM, WEIGHTS])
def test_changed_parts_are_refused_or_read(tmp_path: Path, part: str):
    refused: list[str] = []
    for seed in range(80):
        draw, content = Random(seed), read(part)
        container, key = draw.choice(spots(content))
        if draw.random() < 0.3:
            del container[key]
        else:
            container[key] = draw.choice(OTHERS)
        try:
            read_pt2(changed(tmp_path / "changed.pt2", part, content), "changed.pt2")
        except WeftError as error:
            refused.append(str(error))
    assert len(refused) > 10
    assert all("changed.pt2" in each for each in refused)


def test_memory_before_a_weight_is_not_read(tmp_path: Path):
    content = read(WEIGHTS)
    meta = next(iter(content["config"].values()))["tensor_meta"]
    meta["storage_offset"] = {"as_int": -4}
    with pytest.raises(ModelError, match="requires sizes and strides of .* from 0"):
        read_pt2(changed(tmp_path / "before.pt2", WEIGHTS, content), "before.pt2")


def test_compressed_parts_are_refused(tmp_path: Path):
    path = changed(tmp_path / "small.pt2", "", None, zipfile.ZIP_DEFLATED)
    with pytest.raises(ModelError, match="requires parts that are not compressed"):
        read_pt2(path, "small.pt2")
