"""The front door: what `import weft` offers."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.support.small_models import add_model, dense_model, dense_reference, rows_of
from weft.compiler.machine.codegen.host import host_target

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_everything_that_is_promised_is_there():
    assert [name for name in weft.__all__ if not hasattr(weft, name)] == []
    homes = [name for names in weft._HOMES.values() for name in names]
    assert sorted([*homes, "__version__"]) == sorted(weft.__all__)
    assert {*weft.__all__} <= {*dir(weft)}


def test_importing_weft_loads_none_of_its_modules():
    assert loaded("weft, weft.cli.main", "weft.") <= {
        "weft.cli",
        "weft.cli.main",
        "weft.cli.parser",
        "weft.cli.terminal",
        "weft.compiler",
        "weft.compiler.version",
        "weft.dialects",
        "weft.dialects.errors",
    }
    assert loaded("weft, weft.cli.main", "numpy") == set()


def test_modules_are_loaded_when_they_are_first_used():
    used = "weft; weft.random.key; weft.nn.Linear; weft.optim.schedules.cosine; weft.numpy.sin"
    assert {"weft.nn", "weft.numpy", "weft.optim", "weft.random"} <= loaded(used, "weft.")


def loaded(modules: str, prefix: str) -> set[str]:
    """The modules with this prefix that are there once some were imported."""
    program = f"import sys, {modules}; print(*(n for n in sys.modules if n.startswith({prefix!r})))"
    shown = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return {*shown.stdout.split()}


@pytest.mark.parametrize("kind", ["path", "text", "bytes", "proto"])
def test_compiles_models_in_every_form(tmp_path: Path, kind: str):
    model = dense_model("rows")
    path = tmp_path / "dense.onnx"
    path.write_bytes(model.SerializeToString())
    forms = {"path": path, "text": str(path), "bytes": path.read_bytes(), "proto": model}
    x = rows_of(4)
    (y,) = weft.compile(forms[kind], threads=1)(x)
    np.testing.assert_allclose(y, dense_reference(model, x), rtol=1e-5, atol=1e-5)


def test_an_export_is_loaded_back(tmp_path: Path):
    exe = weft.compile(dense_model("rows"), threads=1)
    exe.export(str(tmp_path / "libmodel.so"))
    back = weft.load(str(tmp_path / "libmodel.so"), threads=2)
    assert (back.inputs, back.outputs) == (exe.inputs, exe.outputs)
    x = rows_of(9)
    assert back(x)[0].tobytes() == exe(x)[0].tobytes()
    assert (tmp_path / "libmodel.h").is_file()


def test_symbols_start_with_the_name_of_the_model(tmp_path: Path):
    path = tmp_path / "Res-Net 50.onnx"
    path.write_bytes(add_model().SerializeToString())
    weft.compile(path).export(tmp_path / "m.so")
    assert "Res_Net_50_run" in (tmp_path / "m.h").read_text()


def test_symbols_start_with_the_prefix(tmp_path: Path):
    weft.compile(add_model(), prefix="tiny").export(tmp_path / "m.so")
    assert "tiny_run" in (tmp_path / "m.h").read_text()


@pytest.mark.parametrize("options", [{"naive": True}, {"strict_fp": True}, {"target": "x86-64"}])
def test_options_leave_the_answer_as_it_is(options: dict[str, object]):
    x = rows_of(6)
    (y,) = weft.compile(dense_model("rows"), **options)(x)
    expected = dense_reference(dense_model("rows"), x)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("strict", [False, True])
def test_a_softmax_has_subnormal_numbers_where_bits_count(strict: bool):
    g = weft.Graph("shares")
    g.output("y", g.op("softmax", g.input("x", "float32", (1, 4)), axis=1))
    (y,) = weft.compile(g, strict_fp=strict)(np.array([[0, -87, -90, -np.inf]], np.float32))
    assert y[0, 1] >= np.finfo(np.float32).tiny
    assert (y[0, 2] > 0) == strict
    assert y[0, 3] == 0


def test_refuses_to_run_code_for_another_machine():
    other = "x86-64" if host_target().arch == "aarch64" else "aarch64"
    with pytest.raises(weft.ArtifactError, match="machine"):
        weft.compile(add_model(), target=other)


def test_refuses_an_unknown_target():
    with pytest.raises(weft.OptionError, match="target requires one of native, .*, got vax"):
        weft.compile(add_model(), target="vax")


def test_uses_the_cache_unless_told(own_cache: Path):
    weft.compile(add_model(), cache=False)
    assert not own_cache.exists()
    weft.compile(add_model())
    assert len(list(own_cache.glob("*.weft"))) == 1


def test_uses_the_cache_it_is_given(own_cache: Path, tmp_path: Path):
    weft.compile(add_model(), cache=weft.Cache(tmp_path / "mine"))
    assert not own_cache.exists()
    assert len(list((tmp_path / "mine").glob("*.weft"))) == 1


def test_errors_are_of_one_family():
    with pytest.raises(weft.WeftError):
        weft.compile(b"no model")


def test_compile_brings_no_compiler_before_it_is_called():
    for package in ("onnx", "xdsl", "rich", "onnxruntime"):
        assert loaded("weft.api", package) == set()


def test_folders_of_a_user_are_not_taken_for_parts_of_weft(own_cache: Path, tmp_path: Path):
    for name in ("compiler", "dialects"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('this is not weft')\n")
    script = tmp_path / "script.py"
    script.write_text("import weft\nprint(weft.jit(lambda x: x + x)(weft.Tensor(2.0)))\n")
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path)
    assert (ran.stdout, ran.stderr) == ("4.0\n", "")
