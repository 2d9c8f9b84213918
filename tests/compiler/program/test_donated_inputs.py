"""`donate` of models in files: an output takes an input's memory; a cache costs what is written."""
# pyright: basic

import time
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from onnx import ModelProto, parser

import weft
from weft.cli.main import main
from weft.dialects.errors import OptionError

ROWS, COLUMNS = 4096, 16
CACHE = f"float[2, {ROWS}, {COLUMNS}]"
INPUTS = (
    f"{CACHE} past, float[2, 1, {COLUMNS}] new, int64[2] at, "
    f"int64[1, 2] place, float[1, {COLUMNS}] row"
)
BODIES = {
    "tensor scatter": ("present = TensorScatter(past, new, at)", True),
    "scatter nd": ("present = ScatterND(past, place, row)", True),
    "read before": (
        "m = ReduceMax<keepdims = 0>(past) w = Add(row, m) present = ScatterND(past, place, w)",
        False,
    ),
    "read after": ("present = ScatterND(past, place, row) other = Add(past, present)", False),
    "read behind": ("present = TensorScatter(past, new, at) other = Mul(present, present)", True),
    "twice": ("t = ScatterND(past, place, row) present = TensorScatter(t, new, at)", False),
    "elementwise": ("present = Tanh(past)", True),
    "backwards": ("r = Constant<value = int64[2] {1, 0}>() present = Gather(past, r)", False),
}


def model(body: str, given: str = INPUTS) -> ModelProto:
    others = [name for name in ("other",) if name in body]
    outputs = ", ".join([f"{CACHE} present", *(f"{CACHE} {name}" for name in others)])
    text = f'<ir_version: 11, opset_import: ["" : 24]> g ({given}) => ({outputs}) {{ {body} }}'
    return parser.parse_model(text)


def operands(names) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    arrays = {
        "past": rng.standard_normal((2, ROWS, COLUMNS)).astype(np.float32),
        "new": rng.standard_normal((2, 1, COLUMNS)).astype(np.float32),
        "at": np.array([ROWS - 1, 3]),
        "place": np.array([[1, 7]]),
        "row": rng.standard_normal((1, COLUMNS)).astype(np.float32),
    }
    return [arrays[each.name] for each in names]


@pytest.mark.parametrize("name", BODIES)
def test_results_are_those_without(name: str):
    body, _ = BODIES[name]
    plain, donating = (
        weft.compile(model(body)),
        weft.compile(model(body), donate={"past": "present"}),
    )
    arrays = operands(plain.inputs)
    expected = plain(*arrays)
    results = donating(*[each.copy() for each in arrays])
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("name", [name for name, (_, cheap) in BODIES.items() if cheap])
def test_the_cache_is_written_where_it_is(name: str):
    compiled = weft.compile(model(BODIES[name][0]), donate={"past": "present"})
    arrays = operands(compiled.inputs)
    place = [each.name for each in compiled.inputs].index("past")
    result = compiled(*arrays)[0]
    assert np.shares_memory(result, arrays[place])


def test_a_row_costs_less_than_the_cache():
    body = BODIES["tensor scatter"][0]
    plain, donating = (
        weft.compile(model(body)),
        weft.compile(model(body), donate={"past": "present"}),
    )
    arrays = operands(plain.inputs)
    assert cpu_time(donating, arrays) * 5 < cpu_time(plain, arrays)


def cpu_time(call, arrays) -> float:
    """The least of some rounds of calls, which others on the machine do not change."""

    def once() -> float:
        start = time.thread_time()
        for _ in range(20):
            call(*arrays)
        return time.thread_time() - start

    return min(once() for _ in range(10))


def test_a_caller_may_give_other_memory():
    """As C does: the output lies elsewhere, and the input stays."""
    compiled = weft.compile(model(BODIES["tensor scatter"][0]), donate={"past": "present"})
    arrays = operands(compiled.inputs)
    before = [each.copy() for each in arrays]
    apart = compiled._checked
    apart._signature = replace(apart._signature, donated=())
    (result,) = apart(*arrays)
    (expected,) = weft.compile(model(BODIES["tensor scatter"][0]))(*before)
    np.testing.assert_array_equal(result, expected)
    for now, then in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(now, then)


GROWS = f"float[2, p, {COLUMNS}] past, float[2, 1, {COLUMNS}] new"


@pytest.mark.parametrize(
    ("body", "inputs", "donate", "message"),
    [
        ("present = Tanh(past)", INPUTS, {"cache": "present"}, "inputs of the model (past, new"),
        (
            "present = Tanh(past)",
            INPUTS,
            {"past": "x"},
            "outputs of the model (present), each once",
        ),
        ("present = Tanh(past)", INPUTS, {"row": "present"}, "an output of its input's type"),
        (
            "present = Concat<axis = 1>(past, new)",
            GROWS,
            {"past": "present"},
            "[2, p, 16] f32 as 'past', got [2, p + 1, 16] f32 for 'present' of Concat",
        ),
    ],
)
def test_what_cannot_be_is_refused(body: str, inputs: str, donate, message: str):
    made = model(body, inputs)
    if "p," in inputs:
        made.graph.output[0].type.tensor_type.shape.dim[1].dim_param = "q"
    with pytest.raises(OptionError) as refusal:
        weft.compile(made, donate=donate)
    assert message in str(refusal.value)


def test_command_line(tmp_path: Path):
    (tmp_path / "cache.onnx").write_bytes(model("present = Tanh(past)").SerializeToString())
    output = tmp_path / "libcache.so"
    arguments = ["compile", tmp_path / "cache.onnx", "-o", output, "--donate", "past=present"]
    assert main(list(map(str, arguments))) == 0
    assert weft.load(output).donated == ((0, 0),)


def decoder() -> ModelProto:
    """An attention of four heads to caches of two, which as many inputs declare as outputs deny."""
    cache, rows = "float[1, 2, past, 16]", "float[1, s, 32]"
    return parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]> g
        (float[1, s, 64] q, {rows} k, {rows} v, {cache} pk, {cache} pv, int32[1] ends, int32[1] all)
        => (float[1, s, 64] y, float[1, 2, t, 16] nk, float[1, 2, t, 16] nv) {{
          y, nk, nv = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2>
            (q, k, v, pk, pv, ends, all)
        }}"""
    )


def test_an_attention_writes_its_rows_to_the_cache():
    session = pytest.importorskip("onnxruntime").InferenceSession
    peer = session(decoder().SerializeToString(), providers=["CPUExecutionProvider"])
    compiled = weft.compile(decoder(), donate={"pk": "nk", "pv": "nv"})
    rng = np.random.default_rng(2)
    ours = [np.zeros((1, 2, 12, 16), np.float32) for _ in "kv"]
    theirs = [each.copy() for each in ours]
    position = 0
    for steps in (5, 1, 3, 1):
        shapes = ((1, steps, width) for width in (64, 32, 32))
        rows = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
        position += steps
        ends, total = (np.array([n], np.int32) for n in (position - 1, position))
        names = ("q", "k", "v", "pk", "pv", "ends", "all")
        given = dict(zip(names, (*rows, *theirs, ends, total), strict=True))
        expected, *theirs = peer.run(None, given)
        result, *written = compiled(*rows, *ours, ends, total)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
        for now, cache, other in zip(written, ours, theirs, strict=True):
            assert np.shares_memory(now, cache)
            np.testing.assert_array_equal(now[:, :, :position], other[:, :, :position])
    full = np.array([12], np.int32), np.array([13], np.int32)
    with pytest.raises(weft.InputError, match="at most 12 positions in the cache, got 13"):
        compiled(*(each[:, :1].copy() for each in rows), *ours, *full)
