"""weft inspect: what it says of artifacts and models."""

import json
import re
from pathlib import Path

import onnx
import onnx.parser
import pytest

from tests.weft.cli.command import Command
from weft.bench.limits import Bandwidth, Limits
from weft.cli.drawing.roofline import drawn_roofline
from weft.compiler.driver.lowering import program_passes
from weft.compiler.graph.passes import GRAPH_PASSES
from weft.compiler.machine.python.profile import Profile
from weft.compiler.machine.python.spans import CallProfile, KernelCall, Span
from weft.dialects.module_attributes import CodeOptions


def test_reads_an_artifact(weft_command: Command, dense_folder: Path):
    text = weft_command.succeeds("inspect", dense_folder / "libdense.so")
    assert "x  float32  [rows, 96]" in text
    assert "15520 * rows flop" in text
    assert "graph.matmul" in text
    assert "workspace at its peak" in text


@pytest.mark.usefixtures("own_kernels")
def test_compiles_a_model_and_times_its_stages(weft_command: Command, dense_folder: Path):
    text = weft_command.succeeds("inspect", dense_folder / "dense.onnx")
    stages = text.split("\nstages\n")[1]
    assert "ms" in stages
    assert {"import", "weft-fuse", "schedule", "llvm"} <= set(stages.split())


def test_json_holds_everything(weft_command: Command, dense_folder: Path):
    facts = json.loads(weft_command.succeeds("inspect", dense_folder / "libdense.so", "--json"))
    assert facts["inputs"] == [{"name": "x", "dtype": "float32", "dims": ["rows", 96]}]
    assert facts["file_bytes"] == (dense_folder / "libdense.so").stat().st_size
    assert {"kernels", "memory", "operators", "workspace_bytes", "weights"} < facts.keys()


def test_takes_the_time_of_a_call(weft_command: Command, dense_folder: Path):
    arguments = ("--time", "--dim", "rows=4", "--threads", "1", "--json")
    facts = json.loads(weft_command.succeeds("inspect", dense_folder / "libdense.so", *arguments))
    assert 0 < facts["run_ms"] < 1000


def test_refuses_other_files(weft_command: Command, dense_folder: Path):
    assert "x.npy" in weft_command.fails("inspect", dense_folder / "x.npy")


def test_schedules_are_printed_edited_and_forced(
    weft_command: Command, dense_folder: Path, tmp_path: Path
):
    model, file = dense_folder / "dense.onnx", tmp_path / "schedule.txt"
    text = weft_command.succeeds("inspect", model, "--schedules")
    assert "vectorize{loop=" in text
    header, first = text.split("\n\n")[:2]
    file.write_text("// as it was\n" + text)
    assert weft_command.succeeds("inspect", model, "--schedule", file, "--schedules") == text
    file.write_text(f"{header}\n" + first.split("{\n")[0] + "{\n}\n")
    forced = weft_command.succeeds("inspect", model, "--schedule", file)
    assert forced.count("forced") == 1
    one = weft_command.succeeds("inspect", model, "--schedules", first[1:9])
    assert one.startswith(f"{header}\n\n{first[:9]}")


PRODUCT = """
<ir_version: 10, opset_import: ["": 23]>
product (float[64, 48] x, float[48, 80] y) => (float[64, 80] z) { z = MatMul(x, y) }
"""


def test_says_why_products_are_scheduled_as_they_are(
    weft_command: Command, dense_folder: Path, tmp_path: Path
):
    dynamic = weft_command.succeeds("inspect", dense_folder / "dense.onnx", "--why")
    assert re.search(r"n0 x 80 x 96, the chosen of \d\d plans first", dynamic)
    model, file = tmp_path / "product.onnx", tmp_path / "schedule.txt"
    onnx.save(onnx.parser.parse_model(PRODUCT), model)
    text = weft_command.succeeds("inspect", model, "--why", "matmul", "--target-cpu", "znver4")
    assert "plans first" in text
    assert "compute  panel  rows  packing  once  plan" in text
    arguments = ("--why", "matmul", "--target-cpu", "znver4", "--json")
    ((kernel, (product, *_)), *_) = json.loads(
        weft_command.succeeds("inspect", model, *arguments)
    ).items()
    plans = [each["plan"] for each in product["plans"]]
    assert product["chosen"] in plans
    file.write_text(f"schedules 2\n@{kernel} {{\n  plan {plans[-1]}\n}}\n")
    arguments = ("--schedule", file, "--target-cpu", "znver4", "--schedules", kernel)
    assert f"plan {plans[-1]}" in weft_command.succeeds("inspect", model, *arguments)
    assert "--why requires a kernel out of" in weft_command.fails("inspect", model, "--why", "no")
    library = dense_folder / "libdense.so"
    assert "--why requires a model" in weft_command.fails("inspect", library, "--why")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "tile{loop=nowhere size=2}",
            'step 1: tile{loop="nowhere" size=2}: @KERNEL requires a loop out of',
        ),
        ("plan column=1 rows=99", "requires a contraction that has it, got column=1 rows=99"),
        ("plan column=x", "FILE:3: a plan requires NAME=VALUE ..., got column=x"),
        ("tyle{loop=i}", "FILE:3: requires a primitive out of tile, "),
        ("tile{loop=i}", 'FILE:3: tile{loop="i"}: weft-tile requires argument "size"'),
        ("tile{loop", "FILE:3: requires PRIMITIVE{NAME=VALUE ...}, got tile{loop"),
        ("@other {", "FILE:3: requires PRIMITIVE{NAME=VALUE ...}, got @other {"),
    ],
)
def test_refuses_schedules(
    line: str, message: str, weft_command: Command, dense_folder: Path, tmp_path: Path
):
    model, file = dense_folder / "dense.onnx", tmp_path / "schedule.txt"
    kernel = weft_command.succeeds("inspect", model, "--schedules").split(" {")[0].split("@")[1]
    file.write_text(f"schedules 2\n@{kernel} {{\n{line}\n}}\n")
    said = weft_command.fails("compile", model, "--schedule", file, "-o", tmp_path / "out.so")
    assert message.replace("FILE", str(file)).replace("KERNEL", kernel) in said
    assert not (tmp_path / "out.so").exists()


def test_refuses_schedules_of_other_kernels(
    weft_command: Command, dense_folder: Path, tmp_path: Path
):
    file = tmp_path / "schedule.txt"
    file.write_text("schedules 2\n@other {\n}\n")
    said = weft_command.fails("inspect", dense_folder / "dense.onnx", "--schedule", file)
    assert "schedules require kernels of the model (@" in said
    assert said.endswith("got @other")


@pytest.mark.parametrize("text", ["@scale {\n  normalize{loop=i}\n}\n", "schedules 1\n", ""])
def test_refuses_schedules_of_other_versions(
    text: str, weft_command: Command, dense_folder: Path, tmp_path: Path
):
    file = tmp_path / "schedule.txt"
    file.write_text(text)
    said = weft_command.fails("inspect", dense_folder / "dense.onnx", "--schedule", file)
    first = text.split("\n")[0] or "no line"
    assert f"{file}: requires `schedules 2` in its first line" in said
    assert said.endswith(f"got {first}")


def test_all_passes_are_listed(weft_command: Command, dense_folder: Path):
    model = dense_folder / "dense.onnx"
    shown = weft_command.succeeds("inspect", model, "--passes")
    rows = [line.split() for line in shown.splitlines()]
    assert rows[0] == ["pass", "before", "after", "time", "changes"]
    assert [row[0] for row in rows[1:]] == [
        each.name for each in (*GRAPH_PASSES, *program_passes(CodeOptions()))
    ]
    facts = json.loads(weft_command.succeeds("inspect", model, "--passes", "--json"))
    assert [each["after"] for each in facts[:-1]] == [each["before"] for each in facts[1:]]
    for each in facts:
        assert each["after"] - each["before"] == sum(each["changes"].values())


def test_passes_of_an_artifact_are_not_known(weft_command: Command, dense_folder: Path):
    message = weft_command.fails("inspect", dense_folder / "libdense.so", "--passes")
    assert "--passes requires a model" in message


def test_the_tree_has_calls_and_nodes(weft_command: Command, dense_folder: Path):
    lines = weft_command.succeeds("inspect", dense_folder / "libdense.so", "--tree").splitlines()
    assert lines[0] == "dense"
    texts = [line.lstrip("│├└─ ") for line in lines]
    assert "program: 1 calls of 1 kernels" in texts
    (call,) = (text for text in texts if text.startswith("0 matmul_add_relu_"))
    assert "15520 * rows flop" in call
    position = texts.index(call)
    assert texts[position + 1 : position + 4] == ["/MatMul", "/Add", "/Relu"]
    assert "x  float32  [rows, 96]" in texts


@pytest.mark.usefixtures("small_memory")
def test_the_roofline_has_a_letter_for_each_kernel(weft_command: Command, dense_folder: Path):
    arguments = ("--roofline", "--random-dim", "rows=64", "--threads", "1")
    text = weft_command.succeeds("inspect", dense_folder / "libdense.so", *arguments)
    assert "GFLOP/s   ─ multiply-adds" in text
    plot, table = text.split("% of roofline")
    assert any("A" in line.split("│", 1)[1] for line in plot.splitlines() if "│" in line)
    cells = next(line.split() for line in table.splitlines() if "matmul_add_relu" in line)
    flops, moved = 15520 * 64, 704 * 64 + 37184
    assert float(cells[4]) == pytest.approx(flops / moved, rel=0.01)
    assert float(cells[5]) == pytest.approx(flops / (float(cells[2]) * 1e6), rel=0.02)


def test_the_roof_is_memory_then_arithmetic():
    calls = tuple(KernelCall(n, f"k{n}_0123abcd", (), 10 ** (4 + n), 10**4, n) for n in range(3))
    spans = (Span(0, 0, 0, -2), *(Span(0, 1000 * n, 1000 * (n + 1), n) for n in range(3)))
    profile = Profile("m", calls, (), (CallProfile(0, 3000, spans),))
    limits = Limits("cpu", 1, 1000.0, (Bandwidth("read", "memory", 1 << 30, 20.0),))
    text = drawn_roofline(profile, limits)
    lines = [line.split("│")[1] for line in text.splitlines() if "│" in line]
    roof = next(line for line in lines if "─" in line)
    assert "·" not in roof.split("─", 1)[1]
    assert sum("·" in line for line in lines) > 3
    shares = {line.split()[0]: line.split()[6] for line in text.splitlines() if "_0123abcd" in line}
    assert shares == {"k0_0123abcd": "50.0", "k1_0123abcd": "50.0", "k2_0123abcd": "100.0"}
