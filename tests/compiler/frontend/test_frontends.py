"""A model is read by the front end of its file's suffix, or of its Python type."""

from dataclasses import replace
from pathlib import Path

import pytest

import weft
from tests.models.networks import build_mlp
from weft.compiler.driver.options import Artifact, Options
from weft.compiler.driver.read_model import read_model
from weft.compiler.frontend.frontends import FRONTENDS, find_frontend
from weft.compiler.frontend.onnx.from_onnx import import_model
from weft.compiler.machine.codegen.host import host_target
from weft.dialects.errors import OptionError

OPTIONS = Options(host_target(), artifact=Artifact("model"))


def test_every_front_end_reads_the_model(tmp_path: Path):
    proto = build_mlp()
    graph, onnx = tmp_path / "mlp.mlir", tmp_path / "mlp.pb"
    weft.compile(proto, naive=True).export(graph)
    onnx.write_bytes(proto.SerializeToString())
    sources = (str(graph), graph, import_model(proto), proto, proto.SerializeToString(), onnx)
    names = [find_frontend(source).reads for source in sources]
    assert names == ["graph files", "graph files", "graphs", "ONNX", "ONNX", "ONNX"]
    program = find_frontend("model.pt2").reads  # read in tests/compiler/frontend/torch
    assert {*names, program, "StableHLO"} == {each.reads for each in FRONTENDS}
    for source in sources:
        imported = read_model(source, OPTIONS)
        assert (imported.input_names, imported.output_names) == (("image",), ("logits",))


def test_a_graph_keeps_its_outputs():
    own, graph = replace(OPTIONS, outputs=("logits",)), import_model(build_mlp())
    assert read_model(graph, own).output_names == ("logits",)
    with pytest.raises(OptionError, match="require a model in a file"):
        read_model(graph, replace(OPTIONS, outputs=("image",)))
    with pytest.raises(OptionError, match=r"names of values \(none has one\), got image"):
        read_model(graph, replace(OPTIONS, outputs=("logits", "image")))


def test_what_no_front_end_reads_is_refused():
    with pytest.raises(OptionError, match=r"\(.*, graphs, ONNX\), got int"):
        find_frontend(5)  # pyright: ignore[reportArgumentType]
