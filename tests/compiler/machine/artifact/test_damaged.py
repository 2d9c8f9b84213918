"""200 artifacts that are damaged, foreign, too new or beside other weights: each is refused with
one line by whom it concerns, and none ends the process that looks at it.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from tests.support.small_models import dense_model
from weft.compilation import options_of
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.codegen.host import host_target

LOOK_AT = """\
import contextlib, io, json, sys
import numpy as np
import weft
from weft.cli.main import main
for path in sys.argv[1:]:
    said, loaded = io.StringIO(), ""
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        status = main(["verify", path])
    try:
        weft.load(path, threads=1)(np.ones((3, 96), np.float32))
    except weft.ArtifactError as error:
        loaded = str(error)
    print(json.dumps([path, status, said.getvalue(), loaded]))
"""
"""What `weft verify` and `weft.load` say of each; what is loaded is run as well."""

FOREIGN = ("aarch64", "neoverse-v1", "riscv64", "riscv64-v")


def compiled_for(target: str = "native", bias: float = 0.0, weights: str = "embedded") -> Compiled:
    model = dense_model("rows", bias)
    return compile_model(model, options_of(model, target=target, prefix="dense", weights=weights))


def damaged(whole: bytes, count: int, header: int, seed: int) -> Iterator[bytes]:
    """So many copies: a third cut off, a third with a bit of the header flipped, a third with a bit
    anywhere.
    """
    random = np.random.default_rng(seed)
    for number in range(count):
        place = int(random.integers(header if number % 3 == 1 else len(whole)))
        if number % 3 == 0:
            yield whole[:place]
            continue
        changed = bytearray(whole)
        changed[place] ^= 1 << int(random.integers(8))
        yield bytes(changed)


def write_shared_objects(folder: Path) -> None:
    compiled_for().export(folder / "whole")
    whole = (folder / "whole").read_bytes()
    for number, content in enumerate(damaged(whole, 120, 1000, seed=1)):
        (folder / f"m{number}.so").write_bytes(content)


def write_modules(folder: Path) -> None:
    compiled_for("wasm32").export_wasm(folder / "whole")
    whole = (folder / "whole").read_bytes()
    for number, content in enumerate(damaged(whole, 36, 100, seed=2)):
        (folder / f"{number}.wasm").write_bytes(content)


def write_beside_others(folder: Path) -> None:
    """Artifacts beside damaged weights, those of another model, and none."""
    compiled = compiled_for(weights="file")
    compiled.export(folder / "whole")
    compiled_for(weights="file", bias=1.0).export(folder / "other")
    whole, other = ((folder / f"{name}.safetensors").read_bytes() for name in ("whole", "other"))
    for number, content in enumerate([other, *damaged(whole, 33, 500, seed=3)]):
        compiled.export(folder / f"m{number}.so")
        (folder / f"m{number}.safetensors").write_bytes(content)
    compiled.export(folder / "none.so")
    (folder / "none.safetensors").unlink()


def write_newer(folder: Path) -> None:
    compiled = compiled_for()
    for abi in (0, 2, 3, 1000, -1):
        replace(compiled, metadata={**compiled.metadata, "abi": abi}).export(folder / f"m{abi}.so")


def write_foreign(folder: Path) -> None:
    for target in FOREIGN:
        if not target.startswith(host_target().arch):
            compiled_for(target).export(folder / f"m{target}.so")


def outcomes(folder: Path) -> list[tuple[int, str, str]]:
    """Of each artifact there, status and text of `weft verify`, and what `weft.load` says where it
    refuses; one process looks at all.
    """
    paths = sorted(path for path in folder.iterdir() if path.suffix in (".so", ".wasm"))
    done = subprocess.run(
        [sys.executable, "-c", LOOK_AT, *paths], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    seen = [json.loads(line) for line in done.stdout.splitlines()]
    assert [path for path, *_ in seen] == [str(path) for path in paths]
    return [(status, said, loaded) for _, status, said, loaded in seen]


@pytest.mark.parametrize(
    ("write", "count", "least"),
    [
        (write_shared_objects, 120, 60),  # the rest is where no loader looks, or in the weights
        (write_modules, 36, 36),
        (write_beside_others, 35, 12),  # the rest is in the weights
        (write_newer, 5, 5),
    ],
)
def test_what_is_damaged_is_refused(
    write: Callable[[Path], None], count: int, least: int, tmp_path: Path
):
    write(tmp_path)
    seen = outcomes(tmp_path)
    assert len(seen) == count
    for status, said, loaded in seen:
        assert status == 1
        assert said.startswith("weft: error: ")
        assert said.count("\n") == 1
        assert "\n" not in loaded
    assert sum(loaded != "" for *_, loaded in seen) >= least


def test_what_is_foreign_is_whole_and_not_loaded(tmp_path: Path):
    write_foreign(tmp_path)
    for status, said, loaded in outcomes(tmp_path):
        assert (status, said) == (0, "")
        assert re.fullmatch(r".* requires a \w+ machine, got \w+", loaded)
