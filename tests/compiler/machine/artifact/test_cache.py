"""The cache of compiled models: what is found again, what is not, and what a damaged entry does."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from msgspec.structs import replace

from tests.support.small_models import add_model, dense_model, dense_reference, rows_of
from weft.compilation import compile_cached, external_locations, model_key, options_of
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.driver.session import Session
from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.artifact.cache import Cache, default_cache
from weft.compiler.machine.artifact.store import DEFAULT_LIMIT, KERNEL_SUFFIX, CacheWarning
from weft.dialects.errors import OptionError

MODEL = dense_model("rows")
OPTIONS = options_of(MODEL)
KEY = "0" * 64


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return compile_model(MODEL, OPTIONS)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def entry(cache: Cache) -> Path:
    (path,) = cache.folder.glob("*.weft")
    return path


def test_finds_nothing_in_a_folder_that_does_not_exist(cache: Cache):
    assert cache.find(KEY, OPTIONS.target) is None


def test_gives_back_what_it_kept(cache: Cache, compiled: Compiled):
    cache.keep(KEY, compiled)
    found = cache.find(KEY, OPTIONS.target)
    assert found is not None
    assert (found.objects, found.metadata) == (compiled.objects, compiled.metadata)
    assert (found.exports, found.libc) == (compiled.exports, compiled.libc)
    assert found.signature == compiled.signature


def test_runs_what_it_kept(cache: Cache, compiled: Compiled):
    x = rows_of(5)
    (y,) = cache.keep(KEY, compiled).executable(threads=1)(x)
    np.testing.assert_allclose(y, dense_reference(MODEL, x), rtol=1e-5, atol=1e-5)


def test_exports_the_same_bytes_as_a_fresh_compilation(
    cache: Cache, compiled: Compiled, tmp_path: Path
):
    cache.keep(KEY, compiled)
    found = cache.find(KEY, OPTIONS.target)
    assert found is not None
    names = ("found/libm.so", "fresh/libm.so")
    for name, each in zip(names, (found, compiled), strict=True):
        (tmp_path / name).parent.mkdir()
        each.export(tmp_path / name)
    first, second = ((tmp_path / name).read_bytes() for name in names)
    assert first == second


def test_a_found_model_outlives_its_entry(cache: Cache, compiled: Compiled):
    x = rows_of(3)
    found = cache.keep(KEY, compiled).executable(threads=1)
    entry(cache).unlink()
    np.testing.assert_allclose(found(x)[0], dense_reference(MODEL, x), rtol=1e-5, atol=1e-5)


def flip_a_bit_of_the_objects(data: bytearray) -> None:
    data[len(data) // 10] ^= 1


def flip_a_bit_of_the_weights(data: bytearray) -> None:
    data[-100] ^= 1


def cut_off_the_end(data: bytearray) -> None:
    del data[-1:]


@pytest.mark.parametrize(
    "damage",
    [
        flip_a_bit_of_the_objects,
        flip_a_bit_of_the_weights,
        cut_off_the_end,
        lambda data: data.clear(),
        lambda data: data.__delitem__(slice(20, None)),
        lambda data: data.__setitem__(0, 0),
    ],
    ids=["objects", "weights", "end", "empty", "front", "magic"],
)
def test_ignores_and_rewrites_a_damaged_entry(
    cache: Cache, compiled: Compiled, damage: Callable[[bytearray], None]
):
    cache.keep(KEY, compiled)
    data = bytearray(entry(cache).read_bytes())
    damage(data)
    entry(cache).write_bytes(data)
    assert cache.find(KEY, OPTIONS.target) is None
    cache.keep(KEY, compiled)
    assert cache.find(KEY, OPTIONS.target) is not None


def test_a_large_entry_is_read_once_until_it_changes(cache: Cache, compiled: Compiled):
    large = replace(compiled, objects={**compiled.objects, "large": bytes(1 << 20)})
    cache.keep(KEY, large)
    path = entry(cache)
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(status.st_size // 2)
        file.write(b"1")
    assert cache.find(KEY, OPTIONS.target) is None
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # nothing else says that it changed
    assert cache.find(KEY, OPTIONS.target) is not None


class Counted:
    """Facts of a file that say how often they were looked for."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> bytes:
        self.count += 1
        return str(self.count).encode()


def later(seconds: int) -> Callable[[], int]:
    now = time.time_ns
    return lambda: now() + seconds * 10**9


def test_facts_of_a_large_file_are_remembered_until_it_changes(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path, find = tmp_path / "model.onnx", Counted()
    path.write_bytes(bytes(1 << 20))
    status = path.stat()
    monkeypatch.setattr(time, "time_ns", later(10))
    assert [cache.remembered("f", path, find) for _ in range(2)] == [b"1", b"1"]
    assert cache.remembered("other", path, find) == b"2"
    path.write_bytes(bytes(1 << 20))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # as an unpacked archive does
    assert cache.remembered("f", path, find) == b"3"


@pytest.mark.parametrize(("size", "age"), [(1 << 20, 0), (1000, 10)], ids=["new", "small"])
def test_facts_of_new_and_small_files_are_not_remembered(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, age: int
):
    path, find = tmp_path / "model.onnx", Counted()
    path.write_bytes(bytes(size))
    monkeypatch.setattr(time, "time_ns", later(age))
    assert [cache.remembered("f", path, find) for _ in range(2)] == [b"1", b"2"]


def test_writers_and_readers_at_the_same_time_meet_whole_entries(cache: Cache, compiled: Compiled):
    def use(number: int) -> int:
        cache.keep(KEY, compiled)
        found = cache.find(KEY, OPTIONS.target)
        assert found is not None
        return len(found.objects)

    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(use, range(24)))
    assert counts == [len(compiled.objects)] * 24
    assert [path.stem for path in cache.folder.glob("*.weft")] == [KEY]


def test_removes_what_was_used_longest_ago(cache: Cache, compiled: Compiled):
    cache.keep("a", compiled)
    size = entry(cache).stat().st_size
    limited = replace(cache, limit=2 * size)
    limited.keep("b", compiled)
    for age, key in enumerate("ab"):
        os.utime(cache.folder / f"{key}.weft", (age, age))
    assert limited.find("a", OPTIONS.target) is not None
    limited.keep("c", compiled)
    assert sorted(path.stem for path in cache.folder.iterdir()) == ["a", "c"]


def test_keeps_one_entry_above_the_limit(cache: Cache, compiled: Compiled):
    limited = replace(cache, limit=1)
    limited.keep("a", compiled)
    limited.keep("b", compiled)
    assert [path.stem for path in cache.folder.iterdir()] == ["b"]


def test_removes_files_that_a_dead_process_left(cache: Cache, compiled: Compiled):
    cache.folder.mkdir()
    abandoned, foreign, recent = (
        cache.folder / name for name in (".k.weft.x1", "notes", ".k.weft.x2")
    )
    for path in (abandoned, foreign, recent):
        path.write_bytes(b"")
    os.utime(abandoned, (0, 0))
    os.utime(foreign, (0, 0))
    cache.keep(KEY, compiled)
    assert [path.exists() for path in (abandoned, foreign, recent)] == [False, True, True]


def test_warns_and_goes_on_where_it_cannot_write(tmp_path: Path, compiled: Compiled):
    (tmp_path / "file").write_bytes(b"")
    with pytest.warns(CacheWarning, match="cache requires a folder that can be written"):
        kept = Cache(tmp_path / "file" / "cache").keep(KEY, compiled)
    assert kept is compiled


def test_a_folder_is_made_for_its_user_alone(tmp_path: Path):
    """B2"""
    folder = tmp_path / "new" / "cache"
    before = os.umask(0)
    try:
        Cache(folder).keep_kernel("key", b"code")
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert Cache(folder).find_kernel("key") == b"code"


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777])
def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path, mode: int):
    """B2: code of another user would run."""
    folder = tmp_path / "cache"
    Cache(folder).keep_kernel("key", b"code")
    folder.chmod(mode)
    (kept,) = folder.iterdir()
    with pytest.warns(CacheWarning, match=f"got {folder} of mode {mode:o} .chmod 700 .* not used"):
        assert Cache(folder).find_kernel("key") is None
    with pytest.warns(CacheWarning) as told:
        assert compile_cached(add_model((4,)), options_of(b""), Cache(folder)) is not None
    assert len(told) == 1
    assert list(folder.iterdir()) == [kept]


def test_a_folder_in_one_that_everybody_may_write_to_is_used_if_that_is_sticky(tmp_path: Path):
    """B2: there nobody may put another in its place."""
    shared = tmp_path / "shared"
    Cache(shared / "cache").keep_kernel("key", b"code")
    shared.chmod(0o1777)
    assert Cache(shared / "cache").find_kernel("key") == b"code"
    shared.chmod(0o777)
    with pytest.warns(CacheWarning, match=f"got {shared}/cache in {shared} of mode 777; it is not"):
        assert Cache(shared / "cache").find_kernel("key") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
def test_a_folder_of_another_user_is_not_used(tmp_path: Path):
    """B2"""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)
    with pytest.warns(CacheWarning, match=f"got {folder} of the user 12345; it is not used"):
        assert Cache(folder).find_kernel("key") is None


def test_compiles_once(cache: Cache):
    started: list[int] = []

    def start() -> Session:
        started.append(1)
        return Session(OPTIONS)

    for _ in range(2):
        compile_cached(MODEL, OPTIONS, cache, start)
    assert len(started) == 1


def test_models_that_share_kernels_have_the_same_bytes_from_a_warm_cache(tmp_path: Path):
    """The next version of a model: other weights, another name, another number of cores."""
    model, next_one = dense_model("rows"), dense_model("rows", bias=1.0)
    compile_cached(model, OPTIONS, warm := Cache(tmp_path / "warm"))
    target = replace(OPTIONS.target, cores=OPTIONS.target.cores + 1)
    options = options_of(next_one, prefix="next_one").changed(target=target)
    kernels = {each.path for each in warm.entries() if each.suffix == KERNEL_SUFFIX}
    found = compile_cached(next_one, options, warm)
    assert {each.path for each in warm.entries() if each.suffix == KERNEL_SUFFIX} == kernels
    fresh = compile_cached(next_one, options, Cache(tmp_path / "cold"))
    assert (found.objects, found.metadata) == (fresh.objects, fresh.metadata)


def test_a_key_depends_on_the_model():
    assert model_key(MODEL, OPTIONS) == model_key(dense_model("rows"), OPTIONS)
    assert model_key(MODEL, OPTIONS) != model_key(dense_model("rows", bias=1.0), OPTIONS)


@pytest.mark.parametrize(
    "change",
    [
        {"strict_fp": True},
        {"naive": True},
        {"prefix": "other"},
        {"target": replace(OPTIONS.target, cores=77)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_key_depends_on_every_option(change: dict[str, object]):
    assert model_key(MODEL, OPTIONS) != model_key(MODEL, OPTIONS.changed(**change))


def test_a_key_depends_on_external_weights(tmp_path: Path):
    path = tmp_path / "model.onnx"
    onnx.save_model(
        dense_model(), path, save_as_external_data=True, location="w.bin", size_threshold=0
    )
    before = model_key(path, OPTIONS)
    assert before == model_key(path, OPTIONS)
    data = bytearray((tmp_path / "w.bin").read_bytes())
    data[-1] ^= 1
    (tmp_path / "w.bin").write_bytes(data)
    assert before != model_key(path, OPTIONS)


def test_a_key_is_the_same_whether_hashes_are_remembered(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "model.onnx"
    onnx.save_model(dense_model(), path, save_as_external_data=True, location="w.bin")
    for file in (path, tmp_path / "w.bin"):
        with file.open("ab") as out:
            out.write(bytes(1 << 20))
    monkeypatch.setattr(time, "time_ns", later(10))
    fresh = model_key(path, OPTIONS)
    assert [model_key(path, OPTIONS, cache) for _ in range(2)] == [fresh, fresh]
    (tmp_path / "w.bin").write_bytes(b"1")
    assert model_key(path, OPTIONS, cache) == model_key(path, OPTIONS) != fresh


def test_finds_every_external_file():
    model = onnx.ModelProto()
    for number, location in enumerate(("w.bin", "deep/er.bin", "w.bin", "x" * 200)):
        tensor = model.graph.initializer.add(name=f"t{number}", data_location=1)
        tensor.external_data.add(key="location", value=location)
        tensor.external_data.add(key="offset", value="0")
    node = model.graph.node.add(op_type="Constant", output=["c"])
    attribute = node.attribute.add(name="value")
    attribute.t.external_data.add(key="location", value="nested.bin")
    found = external_locations(model.SerializeToString())
    assert sorted(found) == sorted(["w.bin", "deep/er.bin", "x" * 200, "nested.bin"])


def test_elements_of_tensors_name_no_files():
    named = onnx.TensorProto(name="t", data_location=1)
    named.external_data.add(key="location", value="w.bin")
    model = onnx.ModelProto()
    model.graph.initializer.append(named)
    model.graph.initializer.add(name="u", raw_data=b"\n\x08location\x12\x05x.bin")
    data = model.SerializeToString()
    assert external_locations(data) == ["w.bin"]
    no_model = data + b"\x07"
    assert external_locations(no_model) == ["w.bin", "x.bin"]


def test_no_key_for_external_weights_outside_the_folder(tmp_path: Path):
    folder = tmp_path / "inner"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(b"1234")
    model = onnx.ModelProto()
    tensor = model.graph.initializer.add(name="t", data_location=1)
    tensor.external_data.add(key="location", value="../w.bin")
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    assert model_key(folder / "model.onnx", OPTIONS) is None


def test_a_hit_imports_no_compiler(tmp_path: Path):
    path = tmp_path / "model.onnx"
    path.write_bytes(dense_model().SerializeToString())
    program = (
        "import sys, weft; weft.compile(sys.argv[1]); "
        "print(*[name for name in ('onnx', 'xdsl', 'rich') if name in sys.modules])"
    )
    environment = os.environ | {"WEFT_CACHE_DIR": str(tmp_path / "cache")}
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program, path],
            env=environment,
            cwd=Path(__file__).parents[4],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert outputs == [["onnx", "xdsl"], []]


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"WEFT_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/weft"),
        ({}, os.path.expanduser("~/.cache/weft")),
    ],
    ids=["own", "XDG", "home"],
)
def test_the_environment_says_where_the_cache_is(environment: dict[str, str], folder: str):
    assert default_cache(environment) == Cache(Path(folder), DEFAULT_LIMIT)


def test_the_environment_limits_the_cache():
    assert default_cache({"WEFT_CACHE_LIMIT": "1000"}).limit == 1000
    with pytest.raises(OptionError, match="WEFT_CACHE_LIMIT requires a number of bytes, got 1G"):
        default_cache({"WEFT_CACHE_LIMIT": "1G"})


def test_kernels_are_kept_apart_from_models(tmp_path: Path):
    cache = Cache(tmp_path / "cache")
    assert cache.find_kernel("k") is None
    cache.keep_kernel("k", b"code")
    assert cache.find_kernel("k") == b"code"
    assert cache.find("k", OPTIONS.target) is None


@pytest.mark.parametrize("content", [b"", b"short", bytes(32) + b"code"])
def test_a_damaged_kernel_is_no_kernel(tmp_path: Path, content: bytes):
    cache = Cache(tmp_path)
    cache.keep_kernel("k", b"code")
    (path,) = tmp_path.iterdir()
    path.write_bytes(content)
    assert cache.find_kernel("k") is None


def test_kernels_unused_longest_go_too(tmp_path: Path, compiled: Compiled):
    cache = Cache(tmp_path, limit=1)
    cache.keep_kernel("k", b"code")
    cache.keep(KEY, compiled)
    assert [path.stem for path in tmp_path.iterdir()] == [KEY]


def test_kernels_are_not_kept_where_nothing_can_be_written():
    Cache(Path("/proc/none")).keep_kernel("k", b"code")
