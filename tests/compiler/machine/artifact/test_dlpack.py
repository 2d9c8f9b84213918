"""`m_run_dlpack`: tensors of NumPy and PyTorch through their capsules, and what it refuses."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from onnx import helper, parser

from tests.support.small_models import add_model, dense_model, rows_of
from weft.compilation import options_of
from weft.compiler.abi.constants import Status
from weft.compiler.driver.named_sizes import Bound
from weft.compiler.driver.pipeline import compile_model
from weft.compiler.machine.python.checked_call import _Call
from weft.compiler.machine.python.executable import Executable

PAIR = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[n, 4] x, float[m, 4] y) => (float[n, 4] z) { t = Mul(x, y) z = Add(t, x) }"""


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


@dataclass
class Tensor:
    """A tensor of another library, and its DLTensor, which tests may spoil."""

    array: object

    def __post_init__(self) -> None:
        self.capsule = self.array.__dlpack__()
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        self.struct = DLTensor.from_address(get(self.capsule, b"dltensor"))


class Model:
    """A compiled model, called by DLPack's tensors."""

    def __init__(self, executable: Executable, symbols: int):
        self.executable = executable
        self.dims = (ctypes.c_int64 * (symbols + 1))(*[-7] * (symbols + 1))
        checked = executable._checked
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
        self.function = partial(kind(checked.address("run_dlpack")), checked.context)
        self.checked = checked

    def run(
        self, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor | None], /, **fields: object
    ) -> Status:
        tables = [
            (ctypes.c_void_p * (1 + len(side)))(
                *(None if each is None else ctypes.addressof(each.struct) for each in side)
            )
            for side in (inputs, outputs)
        ]
        places = [ctypes.addressof(each) for each in (*tables, self.dims)]
        call = _Call(ctypes.sizeof(_Call), *places)
        for name, value in fields.items():
            setattr(call, name, value)
        return Status(self.function(ctypes.addressof(call)))

    @property
    def error(self) -> str:
        return self.checked._last_error(self.checked.context).decode()


def model_of(model: object, **options: object) -> Model:
    compiled = compile_model(model, options_of(model, prefix="net", **options))
    symbols = (*compiled.signature.symbols, *compiled.signature.found)
    return Model(compiled.executable(threads=1), len(symbols))


@pytest.fixture(scope="module")
def dense() -> Model:
    return model_of(dense_model("rows"), bounds=[Bound("rows", 1, 32)])


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.mark.parametrize(
    "library", [np.asarray, lambda array: pytest.importorskip("torch").from_numpy(array)]
)
def test_tensors_of_libraries_are_taken_as_they_are(dense: Model, library: Any):
    x, y = rows_of(5), np.zeros((5, 80), np.float32)
    assert dense.run([Tensor(library(x))], [Tensor(library(y))]) == Status.OK
    assert dense.dims[0] == 5
    np.testing.assert_array_equal(y, dense.executable(x)[0])


def test_a_byte_offset_and_null_strides_are_taken(dense: Model):
    memory, y = rows_of(6), np.zeros((4, 80), np.float32)
    x = Tensor(memory[:4])
    x.struct.byte_offset, x.struct.strides = 2 * 96 * 4, None
    assert dense.run([x], [Tensor(y)]) == Status.OK
    np.testing.assert_array_equal(y, dense.executable(memory[2:])[0])


def test_strides_of_axes_of_one_element_do_not_matter(dense: Model):
    y = np.zeros((1, 80), np.float32)
    x = Tensor(rows_of(1))
    x.struct.strides[0] = 12345
    assert dense.run([x], [Tensor(y)]) == Status.OK
    np.testing.assert_array_equal(y, dense.executable(rows_of(1))[0])


TORCH_TYPES = {
    1: "float32", 11: "float64", 10: "float16", 16: "bfloat16", 6: "int32", 7: "int64", 3: "int8",
    2: "uint8",
}  # fmt: skip


@pytest.mark.parametrize("dtype", TORCH_TYPES)
def test_types_are_those_of_dlpack(dtype: int, torch: Any):
    x = torch.arange(8).to(getattr(torch, TORCH_TYPES[dtype]))
    y = torch.zeros_like(x)
    assert model_of(add_model((8,), dtype)).run([Tensor(x), Tensor(x)], [Tensor(y)]) == Status.OK
    assert torch.equal(y, x + x)


def test_booleans_and_narrow_floats_have_types_of_their_own(torch: Any):
    x = helper.make_tensor_value_info("x", 17, ["n"])
    y = helper.make_tensor_value_info("y", 9, ["n"])
    wide = helper.make_node("Cast", ["x"], ["wide"], to=1)
    node = helper.make_node("Cast", ["wide"], ["y"], to=9)
    graph = helper.make_graph([wide, node], "net", [x], [y])
    model = model_of(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
    given = torch.tensor([0.0, 1.5, -2.0]).to(torch.float8_e4m3fn)
    got = torch.ones(3, dtype=torch.bool)
    assert model.run([Tensor(given)], [Tensor(got)]) == Status.OK, model.error
    assert got.tolist() == [False, True, True]
    assert model.run([Tensor(given.view(torch.uint8))], [Tensor(got)]) == Status.BAD_TENSOR
    assert "requires float8_e4m3fn (code 10, 8 bits" in model.error


def test_tensors_without_elements_need_no_address():
    model = model_of(add_model(("n",)))
    tensors = [Tensor(np.zeros(0, np.float32)) for _ in range(3)]
    for tensor in tensors:
        tensor.struct.data = None
    assert model.run(tensors[:2], tensors[2:]) == Status.OK, model.error


def test_a_call_without_a_workspace_borrows_one():
    text = PAIR.replace("z = Add(t, x)", "s = ReduceSum<keepdims=0>(t) u = Mul(t, s) z = Add(u, x)")
    model = model_of(parser.parse_model(text), naive=True)
    x = np.ones((3, 4), np.float32)
    z = np.zeros_like(x)
    sized = model.checked._workspace_size((ctypes.c_int64 * 2)(3, 3))
    assert sized > 0
    assert model.run([Tensor(x), Tensor(x)], [Tensor(z)]) == Status.OK
    np.testing.assert_array_equal(z, 13 * x)
    short = {"workspace": z.ctypes.data // 64 * 64, "workspace_size": sized - 1}
    assert model.run([Tensor(x), Tensor(x)], [Tensor(z)], **short) == Status.BAD_WORKSPACE
    assert model.error == f"run requires a workspace of {sized} bytes, got {sized - 1}"
    assert list(model.dims[:2]) == [3, 3]  # for m_workspace_size


def test_the_call_fills_tensors_of_outputs_that_it_makes():
    text = "agraph (float[n, 4] x) => (int64[2, k] places) { places = NonZero(x) }"
    model = model_of(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>{text}'))
    x = np.eye(3, 4, dtype=np.float32)
    made = Tensor(np.zeros((1, 1), np.int64))
    assert model.run([Tensor(x)], [made]) == Status.OK, model.error
    shape = made.struct.shape[0], made.struct.shape[1]
    assert (*shape, model.dims[1]) == (2, 3, 3)
    assert not made.struct.strides
    got = np.array((ctypes.c_int64 * 6).from_address(made.struct.data)).reshape(shape)
    np.testing.assert_array_equal(got, np.nonzero(x))
    model.checked._release(model.checked.context, made.struct.data)


def spoiled(**fields: object) -> Tensor:
    tensor = Tensor(rows_of(5))
    for name, value in fields.items():
        setattr(tensor.struct, name, value)
    return tensor


REFUSED = {
    "null": (lambda: None, Status.NULL_POINTER, "a DLTensor for input 'x', got NULL"),
    "device": (
        lambda: spoiled(device_type=2),
        Status.BAD_TENSOR,
        "memory of the CPU (device 1) for input 'x', got device 2",
    ),
    "dtype": (
        lambda: Tensor(rows_of(5).astype(np.float64)),
        Status.BAD_TENSOR,
        "float32 (code 2, 32 bits, 1 lanes) for input 'x', got code 2, 64 bits, 1 lanes",
    ),
    "lanes": (
        lambda: spoiled(lanes=4),
        Status.BAD_TENSOR,
        "float32 (code 2, 32 bits, 1 lanes) for input 'x', got code 2, 32 bits, 4 lanes",
    ),
    "rank": (
        lambda: Tensor(rows_of(5)[0]),
        Status.BAD_DIMS,
        "shape (rows, 96) for input 'x', got (96,)",
    ),
    "negative rank": (
        lambda: spoiled(ndim=-1),
        Status.BAD_DIMS,
        "shape (rows, 96) for input 'x', got -1 dims",
    ),
    "no shape": (
        lambda: spoiled(shape=None),
        Status.NULL_POINTER,
        "shape (rows, 96) for input 'x', got NULL",
    ),
    "dim": (
        lambda: Tensor(np.zeros((3, 224), np.float32)),
        Status.BAD_DIMS,
        "shape (rows, 96), here (3, 96), for input 'x', got (3, 224)",
    ),
    "strides": (
        lambda: Tensor(rows_of(10)[::2]),
        Status.BAD_TENSOR,
        "elements one after the other in row-major order for input 'x', "
        "got shape (5, 96) with strides (192, 1)",
    ),
    "data": (lambda: spoiled(data=None), Status.NULL_POINTER, "data for input 'x', got NULL"),
    "alignment": (
        lambda: spoiled(byte_offset=2),
        Status.BAD_TENSOR,
        "data aligned to 4 bytes for input 'x', got data 2 bytes beyond",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_tensor_that_does_not_fit_is_named_with_both_sides(dense: Model, case: str):
    make, status, text = REFUSED[case]
    y = np.zeros((5, 80), np.float32)
    assert dense.run([make()], [Tensor(y)]) == status
    assert dense.error == f"run_dlpack requires {text}"
    assert not y.any()


def test_an_output_of_another_shape_is_refused(dense: Model):
    got = dense.run([Tensor(rows_of(5))], [Tensor(np.zeros((4, 80), np.float32))])
    assert got == Status.BAD_DIMS
    rule = "shape (rows, 80), here (5, 80), for output 'y', got (4, 80)"
    assert dense.error == f"run_dlpack requires {rule}"


def test_a_size_beyond_its_bound_shows_both_shapes(dense: Model):
    got = dense.run([Tensor(rows_of(40))], [Tensor(np.zeros((40, 80), np.float32))])
    assert got == Status.BAD_DIMS
    place = "rows (dim 0 of shape (rows, 96) of input 'x')"
    assert dense.error == f"run requires {place} to be 1 to 32, got 40 in (40, 96)"


def test_sizes_that_have_to_be_equal_show_both_shapes():
    model = model_of(parser.parse_model(PAIR))
    x, y = np.ones((3, 4), np.float32), np.ones((2, 4), np.float32)
    assert model.run([Tensor(x), Tensor(y)], [Tensor(x.copy())]) == Status.BAD_DIMS
    for part in ("shape (n, 4) of input 'x'", "shape (m, 4) of input 'y'", "(3, 4)", "(2, 4)"):
        assert part in model.error


def test_names_of_any_length_with_any_letters_are_shown():
    name = "{}" + "very long " * 30
    x = helper.make_tensor_value_info(name, 1, ["n", 2])
    y = helper.make_tensor_value_info("y", 1, ["n", 2])
    node = helper.make_node("Relu", [name], ["y"])
    proto = helper.make_model(helper.make_graph([node], "net", [x], [y]))
    model = model_of(proto, bounds=[Bound("n", 1, 2)])
    array = np.zeros((3, 2), np.float32)
    assert model.run([Tensor(array)], [Tensor(array.copy())]) == Status.BAD_DIMS
    assert model.error.startswith("run requires n (dim 0 of shape (n, 2) of input '{ }very long")
    assert model.error.endswith("to be 1 to 2, got 3 in (3, 2)")
    assert model.run([None], [None]) == Status.NULL_POINTER
    assert "a DLTensor for input '{}very long" in model.error


def test_tables_and_the_call_itself_are_checked(dense: Model):
    x, y = Tensor(rows_of(5)), Tensor(np.zeros((5, 80), np.float32))
    assert dense.run([x], [y], size=63) == Status.BAD_CALL
    assert dense.run([x], [y], outputs=None) == Status.NULL_POINTER
    assert dense.error == "run_dlpack requires a table of 1 outputs, got NULL"
    assert dense.run([x], [y], dims=None) == Status.OK
