"""What names hold reaches a terminal as escapes, never as codes that it obeys (N4)."""

import io
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import weft
from weft.cli.table import table
from weft.cli.terminal import show, tell
from weft.dialects.errors import WeftError, printable, shortened

RED = "\x1b[31mred\u202e"
SHOWN = "\\x1b[31mred\\u202e"


def checked_model(name: str) -> onnx.ModelProto:
    """A model that checks sizes at run time, in a node of that name."""
    graph = helper.make_graph(
        [helper.make_node("Reshape", [name, "sizes"], ["y"], name=name)],
        name,
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]),
            helper.make_tensor_value_info("sizes", TensorProto.INT64, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8)


def test_n4_standard_streams_get_escapes(capsys: pytest.CaptureFixture[str]):
    """N4"""
    show(f"{RED}\n\ta\rb")
    tell(RED)
    assert capsys.readouterr() == (f"{SHOWN}\n\ta\\rb\n", f"{SHOWN}\n")


def test_characters_that_a_stream_lacks_are_escaped(monkeypatch: pytest.MonkeyPatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    show("größe", end="")
    stream.flush()
    assert stream.buffer.getvalue() == b"gr\\xf6\\xdfe"


def test_n4_cells_of_tables_are_one_line():
    """N4"""
    assert table([["a\nb", 1]], indent="") == "a\\nb  1"


def test_n4_errors_show_escapes():
    """N4"""
    assert str(WeftError(f"{RED}: a\n  b")) == f"{SHOWN}: a\n  b"


def test_names_are_shortened_between_characters():
    assert shortened("größe", 9) == "größe"
    assert shortened("éééé", 6) == "é..."
    assert printable("größe\x7f") == "größe\\x7f"


def test_n4_compiled_models_show_escapes():
    """N4: in their own texts and in those that a call writes."""
    model = weft.compile(checked_model(RED))
    assert f"model({SHOWN}: float32[n]" in repr(model)
    with pytest.raises(weft.InputError) as refusal:
        model(np.zeros(6, np.float32), np.array([4, 5]))
    assert refusal.value.args[0].count(SHOWN) == 2
    assert "\x1b" not in refusal.value.args[0]


def test_n4_long_names_of_nodes_are_shortened_in_texts_of_calls():
    """N4: texts of calls have 1024 bytes."""
    model = weft.compile(checked_model("\u202e" * 1000))
    with pytest.raises(weft.InputError, match=r"got 6 and 20 in \(6,\), at \\u202e.*\.\.\.$"):
        model(np.zeros(6, np.float32), np.array([4, 5]))
