"""Stages of a pipeline on ranks that are threads: streams of inputs, training, what it refuses, and
what the model of the wire predicts.
"""
# pyright: basic

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import weft
import weft.numpy as wnp
from weft import Mesh, P
from weft.cli.main import main
from weft.compilation import options_of
from weft.compiler.driver.pipeline import plan_model
from weft.compiler.driver.session import Session
from weft.compiler.graph.partition.read_mesh import read_mesh
from weft.compiler.program.call_time import bandwidth, call_bounds
from weft.compiler.program.memory.plan_memory import buffer_bytes
from weft.compiler.program.predict_step import predict_step, program_of
from weft.compiler.target.wire import MEMORY, Wire
from weft.dialects.loop.communication import WaitOp
from weft.dialects.loop.program import CallOp
from weft.dialects.loop.types import buffer_type_of
from weft.distributed.messages import Messages
from weft.distributed.world import world

NUMBERS = np.random.default_rng(3)
WIDTH = 16


def normal(*dims: int, scale: float = 1.0):
    return NUMBERS.normal(0, scale, dims).astype(np.float32)


PARAMETERS = {"table": normal(WIDTH, WIDTH, scale=0.2)} | {
    f"w{number}": normal(WIDTH, WIDTH, scale=0.3) for number in range(4)
}
X, Y = normal(16, WIDTH), normal(16, WIDTH)


def network(parameters, x):
    """Four stages; the first and the last share a parameter, and a value skips two stages."""
    x = first = x @ parameters["table"]
    for number in range(4):
        x = wnp.stage(x, number) if number else x
        x = wnp.tanh(x @ parameters[f"w{number}"]) + x
    return (x + first) @ parameters["table"].T


def loss_of(parameters, x, y):
    error = network(parameters, x) - y
    return wnp.mean(error * error)


def train(parameters, x, y):
    """Four batches one after the other, with the norm of all gradients clipped."""
    total, loss = None, 0.0
    for start in range(0, 16, 4):
        rows = slice(start, start + 4)
        part, found = weft.value_and_grad(loss_of)(parameters, x[rows], y[rows])
        loss = loss + part
        total = found if total is None else {name: total[name] + found[name] for name in found}
    norm = wnp.sqrt(sum(wnp.sum(each * each) for each in total.values()))
    scale = 0.05 / wnp.maximum(norm, 1.0)
    return {name: p - scale * total[name] for name, p in parameters.items()}, loss


def trained(mesh: Mesh | None, shardings=None):
    step = weft.step(train, PARAMETERS, X, Y, donate=[0], threads=1, mesh=mesh, shardings=shardings)
    parameters, losses = dict(PARAMETERS), []
    for _ in range(5):
        parameters, loss = step(parameters, X, Y)
        losses.append(float(loss))
    return losses, parameters, step


@pytest.mark.parametrize("stages", [2, 4])
def test_calls_and_streams_compute_what_one_rank_does(stages: int):
    inputs = [normal(4, WIDTH) for _ in range(6)]
    alone = weft.step(network, PARAMETERS, inputs[0], threads=1)
    expected = [np.asarray(alone(PARAMETERS, x)) for x in inputs]

    def run():
        step = weft.step(network, PARAMETERS, inputs[0], threads=1, mesh=Mesh(stage=stages))
        streamed = list(step.stream((PARAMETERS, x) for x in inputs))
        return streamed, [step(PARAMETERS, x) for x in inputs]

    for results in weft.simulate(stages, run):
        for found in results:
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(np.asarray(one), other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("stages", "data"), [(4, 1), (2, 2)])
def test_training_follows_one_rank(stages: int, data: int):
    losses, parameters, _ = trained(None)
    rows = {"x": P("data"), "y": P("data")} if data > 1 else None

    def run():
        mesh = Mesh(stage=stages, data=data)
        found, own, step = trained(mesh, rows)
        described = step.executable.metadata["mesh"]
        return weft.rank() // data, found, own, step.whole(own)[0], described

    for stage, found, own, whole, described in weft.simulate(stages * data, run):
        np.testing.assert_allclose(found, losses, rtol=1e-5)
        for name, value in parameters.items():
            np.testing.assert_allclose(whole[name], np.asarray(value), rtol=1e-5, atol=1e-6)
        for name, ranks in zip(sorted(own), described["output_ranks"], strict=False):
            if stage in ranks:
                np.testing.assert_allclose(
                    np.asarray(own[name]), np.asarray(parameters[name]), rtol=1e-5, atol=1e-6
                )
            else:
                with pytest.raises(weft.WeftError, match="keeps requires a rank of that stage"):
                    np.asarray(own[name])
    require_one_forward_one_backward(described["collectives"], stages)


def require_one_forward_one_backward(done, stages: int):
    """The first rank, whose messages come first, goes forward as often as there are ranks before
    anything comes back. It sends a batch to the next rank, and past others to the last.
    """
    ways = [each["operation"] for each in done if each["operation"] in ("send", "recv")]
    assert ways.index("recv") == stages * 2


def layers(width: int = 64) -> onnx.ModelProto:
    """Four layers of named nodes."""
    nodes, weights, value = [], [], "x"
    for number in range(4):
        weights.append(numpy_helper.from_array(normal(width, width, scale=0.1), f"w{number}"))
        nodes.append(helper.make_node("MatMul", [value, f"w{number}"], [f"m{number}"]))
        value = f"r{number}"
        nodes.append(helper.make_node("Relu", [f"m{number}"], [value], name=f"relu{number}"))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (8, width))]
    outputs = [helper.make_tensor_value_info(value, TensorProto.FLOAT, (8, width))]
    graph = helper.make_graph(nodes, "layers", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_a_model_is_cut_behind_nodes(tmp_path: Path):
    """One artifact, which each rank loads; inputs are streamed by name as well."""
    model, inputs = layers(), [normal(8, 64) for _ in range(5)]
    alone = weft.compile(model, threads=1)
    onnx.save(model, tmp_path / "net.onnx")
    path = tmp_path / "net.so"
    words = ["compile", str(tmp_path / "net.onnx"), "-o", str(path), "--mesh", "stage=2"]
    assert main([*words, "--stage", "relu1=1"]) == 0

    def run():
        executable = weft.load(path, threads=1)
        return [each[0] for each in executable.stream({"x": x} for x in inputs)]

    for results in weft.simulate(2, run):
        for x, result in zip(inputs, results, strict=True):
            np.testing.assert_allclose(result, alone(x)[0], rtol=1e-5, atol=1e-6)
    assert [each[0].shape for each in alone.stream(inputs)] == [(8, 64)] * 5


GROWTH = """
import os, sys, weft, numpy as np
def resident():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(each.split()[1]) << 10 for each in lines if each.startswith("VmRSS"))
executable = weft.load(sys.argv[1], threads=1)
executable.stream([])
before = resident()
executable(np.ones((8, 2048), np.float32))
os.write(1, b"%d\\n" % (resident() - before))  # in one piece
"""
"""How many bytes a first call adds to what a process has in memory."""


ALTERNATING = [f"--shard=w{n}={',model' if n % 2 == 0 else 'model'}" for n in range(4)]
"""Columns of a layer and rows of the next one."""


@pytest.mark.parametrize(
    "cut", [["--mesh=stage=2", "--stage=relu1=1"], ["--mesh=model=2", *ALTERNATING]]
)
def test_a_rank_loads_its_part_of_the_weights_alone(cut: list[str], tmp_path: Path):
    """Of four layers of 16 MB two each, or half of each; in memory come whole pages of 2 MB."""
    onnx.save(layers(2048), tmp_path / "net.onnx")
    (tmp_path / "growth.py").write_text(GROWTH)
    words = ["compile", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "net.so")]
    assert main([*words, *cut]) == 0
    launch = "import sys; from weft.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", launch, "launch", "-n", "2", "--all-output"]
    done = subprocess.run(
        [*command, tmp_path / "growth.py", tmp_path / "net.so"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    grown = [int(line) for line in done.stdout.split()]
    assert len(grown) == 2
    assert all((24 << 20) < each < (48 << 20) for each in grown), grown


def test_stages_have_the_kernels_that_one_rank_has():
    """Layouts of images and halos are chosen in each stage, too."""
    filters = [numpy_helper.from_array(normal(16, 16, 3, 3, scale=0.1), f"f{n}") for n in range(4)]
    value, nodes = "x", []
    for number in range(4):
        given, made = [value, f"f{number}"], [f"c{number}"]
        nodes.append(helper.make_node("Conv", given, made, pads=[1] * 4))
        value = f"r{number}"
        nodes.append(helper.make_node("Relu", made, [value], name=f"relu{number}"))
    dims = (1, 16, 20, 20)
    ends = [[helper.make_tensor_value_info(each, TensorProto.FLOAT, dims)] for each in ("x", value)]
    graph = helper.make_graph(nodes, "images", *ends, filters)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)

    def kernels(**options):
        chosen = options_of(model, target="x86-64-v3", **options)
        module = plan_model(model, Session(chosen)).module
        calls = [op.kernel.rpartition("_")[0] for op in module.walk() if isinstance(op, CallOp)]
        return sorted(each for each in calls if each != "expand")

    alone, cut = kernels(), kernels(mesh="stage=2", stage=["relu1=1"])
    assert set(cut) == set(alone)
    assert alone.count("border") - cut.count("border") <= 1  # around what another rank computes


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"mesh": "stage=2", "stage": ["relu9=1"]}, "stages require names of nodes, got relu9"),
        (
            {"mesh": "stage=4", "stage": ["relu1=1"]},
            "requires stages 0 to 3 or more for the 4 ranks",
        ),
        ({"mesh": "stage=2", "stage": ["relu1"]}, "a stage requires the name of a node"),
        ({"stage": ["relu1=1"]}, "stages require a mesh"),
    ],
)
def test_wrong_stages_are_refused(options, rule: str):
    with pytest.raises(weft.OptionError, match=rule):
        weft.compile(layers(), cache=False, **options)


def test_messages_of_any_size_arrive_and_others_are_refused():
    """More bytes than a slot has, none, and another number than was sent."""
    arrays = [np.arange(300_000.0), np.zeros(0), np.arange(3)]

    def run(shift: int):
        mesh = read_mesh("stage=2")
        assert mesh is not None
        messages = Messages(mesh, "stage", world().table)
        for number, array in enumerate(arrays):
            if weft.rank() == 0:
                messages.send(1, number, array)
            else:
                assert np.array_equal(messages.recv(0, number + shift, array), array)

    weft.simulate(2, run, 0)
    with pytest.raises(weft.RankError, match="one program on all ranks, got another on rank 0"):
        weft.simulate(2, run, 1)


def test_a_rank_that_ends_is_named():
    def run():
        executable = weft.compile(layers(), threads=1, mesh="stage=2", stage=["relu1=1"])
        if weft.rank() == 0:
            raise ValueError("ended")
        with pytest.raises(weft.RankError, match="recv requires every rank .* got none of rank 0"):
            executable(normal(8, 64))

    with pytest.raises(ValueError, match="ended"):
        weft.simulate(2, run)


@pytest.mark.parametrize(
    "options",
    [{"mesh": "stage=2", "stage": ["relu1=1"]}, {"mesh": "model=2", "shard": ["x=,model"]}],
)
def test_the_model_predicts_calls_over_a_slow_wire(options):
    """No call is faster than the wire; how much longer it takes at most is a matter of what else
    the machine does, so that only `WEFT_STRESS=1` holds it to the prediction.
    """
    wire = Wire(4e-3, 4e6)
    chosen = options_of(layers(), **options)
    module = plan_model(layers(), Session(chosen)).module
    found = predict_step(program_of(module, read_mesh(chosen.mesh)), wire)

    def run():
        executable = weft.compile(layers(), threads=1, **options)
        x = np.zeros(executable.inputs[0].dims, np.float32)
        times = []
        for _ in range(12):
            start = time.perf_counter()
            executable(x)
            times.append(time.perf_counter() - start)
        return min(times)

    measured = max(weft.simulate(2, run, alpha=wire.alpha, beta=wire.beta))
    assert found.first <= measured * 1.15
    if "WEFT_STRESS" in os.environ:
        assert measured <= found.first * 1.15


def test_ranks_are_predicted_to_add_up_themselves():
    """What a rank does beside its calls is to read and write a sum's buffers."""
    chosen = options_of(layers(), mesh="model=2", shard=["x=,model"])
    module = plan_model(layers(), Session(chosen)).module
    what = program_of(module, read_mesh(chosen.mesh))
    (rank,) = predict_step(what, MEMORY).ranks
    bounds, call = call_bounds(what.kernels, what.target), what.target.cost.call_ns
    calls = [op for op in what.program.walk() if isinstance(op, CallOp)]
    alone = sum(call + max(bounds(op) or ()) for op in calls) * 1e-9
    (sums,) = (op for op in what.program.walk() if isinstance(op, WaitOp))
    size = 2 * (buffer_bytes(buffer_type_of(sums.source)).constant or 0)
    adding = size / bandwidth(size, what.target) * 1e-9
    assert rank.computing + rank.memory == pytest.approx(alone + adding)


def test_plans_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    onnx.save(layers(), tmp_path / "net.onnx")
    words = ["plan", str(tmp_path / "net.onnx"), "--alpha", "2us", "--beta", "12GB/s"]
    cuts = ["--shard", "x=data,model", "--shard", "w2=,model"]
    assert main([*words, "--mesh", "data=4,model=2", *cuts]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"x +data,model\n", shown)
    assert "2 parts, as each rank reads one" in shown
    assert re.search(r"all_reduce +2 +\d+ B", shown)
    assert "8 ranks (data = 4, model = 2)" in shown
    assert "bound by" in shown
    stages = ["--mesh", "stage=2", "--stage", "relu1=1", "--json"]
    times: list[tuple[float, float]] = []
    for more in ([], ["--measure"]):
        assert main([*words, *stages, *more]) == 0
        found = json.loads(capsys.readouterr().out)
        times.append((found["scale"], found["stages"][0]["computing"]))
    assert times[1][1] == pytest.approx(times[1][0] * times[0][1])
    assert main([*words[:2], "--beta", "12"]) == 1
    assert "beta requires a number in one of B/s, kB/s, MB/s, GB/s, got '12'" in (
        capsys.readouterr().err
    )
