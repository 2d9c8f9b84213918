"""Weights in the layouts that kernels read: made whole, and streamed a part at a time."""

import hashlib

import numpy as np
import pytest
from onnx import numpy_helper, parser
from xdsl.dialects.builtin import f32

import weft
from weft.compiler.driver.options import Artifact, Options
from weft.compiler.driver.prepare_weights import prepare_weights
from weft.compiler.loop_to_llvm.program.emit import WeightKey
from weft.compiler.machine.weights.prepare import Weights
from weft.compiler.target import TARGETS
from weft.dialects.expr import Expr, Operand
from weft.dialects.loop.types import BufferType, ExprsAttr, LayoutAttr, buffer
from weft.dialects.weights import BLOCK_BYTES, Array, WeightStore, byte_blocks

ROWS, COLUMNS = 1100, 1030
FIRST, SECOND = (Expr.atom(Operand(number)) for number in range(2))


def layout(*subscripts: Expr, storage: tuple[int, ...]) -> BufferType:
    """A matrix in this layout."""
    dims = ExprsAttr(tuple(Expr.of(dim) for dim in storage))
    return buffer((ROWS, COLUMNS), f32, LayoutAttr(ExprsAttr(subscripts), dims))


PLAIN = buffer((ROWS, COLUMNS), f32)
COLUMN_PANELS = layout(SECOND // 32, FIRST, SECOND % 32, storage=(33, ROWS, 32))
ROW_PANELS = layout(FIRST // 16, SECOND, FIRST % 16, storage=(69, COLUMNS, 16))
TURNED = layout(SECOND, FIRST, storage=(COLUMNS, ROWS))
BORDERED = layout(FIRST + 1, SECOND, storage=(ROWS + 2, COLUMNS))
SKEWED = layout((FIRST + SECOND) // 8, SECOND, FIRST % 8, storage=(267, COLUMNS, 8))


def matrix() -> Array:
    """A tensor of more than one block."""
    return np.random.default_rng(7).random((ROWS, COLUMNS), np.float32)


def weights_of(array: Array, *kinds: BufferType) -> Weights:
    """A tensor as programs read it."""
    store = WeightStore()
    keys: list[WeightKey] = [(store.add("w", array), kind) for kind in kinds]
    return prepare_weights(keys, store, Options(TARGETS[0], artifact=Artifact("model")))


def expected(array: Array, kind: BufferType) -> Array:
    """The storage of a layout, by its subscripts."""
    assert isinstance(kind.layout, LayoutAttr)
    grid = np.indices(array.shape)
    values = {Operand(axis): indices for axis, indices in enumerate(grid)}
    places = tuple(each.evaluate(values) for each in kind.layout.subscripts.data)
    storage = np.zeros([dim.constant or 0 for dim in kind.storage], array.dtype)
    storage[places] = array
    return storage.reshape(-1)


@pytest.mark.parametrize(
    "kind", [COLUMN_PANELS, ROW_PANELS, TURNED, BORDERED, SKEWED], ids=lambda kind: str(kind.layout)
)
@pytest.mark.parametrize("transposed", [False, True])
def test_pieces_are_the_whole_weight(kind: BufferType, transposed: bool):
    array = np.ascontiguousarray(matrix().T).T if transposed else matrix()
    made = weights_of(array, kind)
    (source,) = made.sources
    wanted = expected(array, kind)
    np.testing.assert_array_equal(made.prepare(source), wanted)
    pieces = list(made.pieces(source))
    assert b"".join(piece.tobytes() for piece in pieces) == wanted.tobytes()


@pytest.mark.parametrize(
    "kind", [COLUMN_PANELS, ROW_PANELS, TURNED], ids=lambda kind: str(kind.layout)
)
def test_panels_are_made_a_block_at_a_time(kind: BufferType):
    made = weights_of(matrix(), kind)
    sizes = [piece.nbytes for piece in made.pieces(made.sources[0])]
    assert len(sizes) > 1
    assert max(sizes) <= BLOCK_BYTES


@pytest.mark.parametrize("shape", [(3, 1100, 1030), (2, 3 << 20), (1,), (), (0, 4)])
def test_blocks_are_the_bytes_in_order(shape: tuple[int, ...]):
    array = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    for each in (array, array.T, array[..., ::2] if shape else array):
        blocks = list(byte_blocks(each))
        assert b"".join(block.tobytes() for block in blocks) == each.tobytes()
        assert all(block.nbytes <= BLOCK_BYTES for block in blocks)


def test_a_digest_is_of_the_bytes_in_order():
    store = WeightStore()
    turned = matrix().T
    start = f"{turned.dtype.str}{turned.dtype.name}".encode()
    assert (
        store.digest(store.add("w", turned)) == hashlib.sha256(start + turned.tobytes()).hexdigest()
    )


def test_forms_of_equal_bytes_are_one():
    kind = buffer((1, 64), f32, None)
    column = BufferType(
        kind.dims, f32, LayoutAttr(ExprsAttr((SECOND, FIRST)), ExprsAttr((Expr.of(64), Expr.of(1))))
    )
    made = weights_of(np.ones((1, 64), np.float32), kind, column)
    assert len(made.sources) == 2
    assert len(set(made.sources)) == 1


def test_weights_of_equal_bytes_and_other_shapes_are_brought_into_layouts() -> None:
    model = parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
    g (float[4, 96] x) => (float[4, 96] y) { t = MatMul(x, a) y = MatMul(t, b) }""")
    values = np.random.default_rng(0).standard_normal(96 * 32, np.float32)
    a, b = values.reshape(96, 32), values.reshape(32, 96)
    model.graph.initializer.extend(
        [numpy_helper.from_array(a, "a"), numpy_helper.from_array(b, "b")]
    )
    x = np.ones((4, 96), np.float32)
    (y,) = weft.compile(model, cache=False)(x)
    np.testing.assert_allclose(y, x @ a @ b, rtol=1e-4, atol=1e-3)
