"""A compilation goes on from the text of any of its stages to the same machine code."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from onnx import ModelProto, TensorProto
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from tests.models.graph_writer import GraphWriter
from tests.support.network_checks import build
from tests.support.small_models import dense_model
from weft.cli.opt import run_opt
from weft.compiler.driver.emit import llvm_modules
from weft.compiler.driver.extension import Extension
from weft.compiler.driver.kernel_makers import ScheduledKernels
from weft.compiler.driver.lowering import UNSCHEDULED, lower
from weft.compiler.driver.options import Artifact, Options
from weft.compiler.driver.pipeline import compile_model, read_graph
from weft.compiler.driver.program_code import program_object
from weft.compiler.driver.session import Session
from weft.compiler.graph.bound_sizes import graph_function
from weft.compiler.machine.codegen.code_generator import Level
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.codegen.object_code import compile_object
from weft.compiler.machine.elf.rename_symbols import ANY_PREFIX, rename_symbols
from weft.compiler.program.memory.plan_memory import kernels_of
from weft.compiler.target.module_target import target_of
from weft.compiler.target.x86 import X86_64_V2
from weft.dialects.context import parse_module
from weft.dialects.errors import WeftError
from weft.dialects.loop.program import AWAITS_LAYOUT, TRANSPOSED, ProgramOp, WeightOp
from weft.dialects.module_attributes import code_options

NET = Artifact("net")
STAGES = (
    "weft-inline-calls",
    "weft-graph-to-loop",
    "weft-schedule,1",
    "weft-assign-layouts",
    "weft-poll-loops",
    "weft-schedule,3",
)


@pytest.fixture(scope="module", params=["native", "x86-64-v2, strict", "naive, timed"])
def dumped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """The folder of a compilation's texts, and its machine code by name."""
    options = {
        "native": Options(host_target()),
        "x86-64-v2, strict": Options(X86_64_V2, strict_fp=True, max_iterations=10, artifact=NET),
        "naive, timed": Options(host_target(), naive=True, timed=True, artifact=NET),
    }[request.param]
    folder = tmp_path_factory.mktemp("stages")
    objects = compile_model(dense_model(), options, Session(options, dump_dir=folder)).objects
    assert objects == compile_model(dense_model(), options).objects
    return folder, objects


@pytest.mark.parametrize("stage", STAGES)
def test_the_rest_of_the_passes_gives_the_same_code(
    dumped: tuple[Path, dict[str, bytes]], stage: str
):
    folder, objects = dumped
    name, _, number = stage.partition(",")
    texts = sorted(folder.glob(f"*-{name}.mlir"))[int(number or 1) - 1 :]
    module = parse_module(run_opt([str(texts[0]), "--start-after", stage]), stage)
    code = {
        "program" if name == "main" else name: compiled(text, module, level)
        for name, text, level in llvm_modules(module)
    }
    assert code == {
        name: objects[name] for name in objects if name not in ("runtime", "levels", "facts")
    }


def compiled(text: str, module: ModuleOp, level: Level) -> bytes:
    """The object of a part of a model; kernels are compiled for models of any prefix."""
    target, prefix = target_of(module), code_options(module).prefix
    if ".check_sizes" in text:
        program = next(op for op in module.ops if isinstance(op, ProgramOp))
        return program_object(program, lambda: text, prefix, target, level)
    prefix, *_ = re.findall(r'define hidden .*@"(\w+)\.', text)
    code = compile_object(text.replace(f'@"{prefix}.', f'@"{ANY_PREFIX}.'), target, level)
    return rename_symbols(code, ANY_PREFIX, prefix)


def test_stops_where_it_is_told_to(dumped: tuple[Path, dict[str, bytes]]):
    folder, _ = dumped
    (first,) = folder.glob("*-weft-require-extents.mlir")
    (last,) = folder.glob("*-weft-note-kernels.mlir")
    argv = [str(first), "--start-after", "weft-require-extents", "--stop-after"]
    assert run_opt([*argv, "weft-note-kernels"]).strip() == last.read_text().strip()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--start-after", "weft-tile"], "start or stop after requires one of .*, got weft-tile"),
        (["--stop-after", "weft-schedule,4"], "a comma and a number .*, got weft-schedule,4"),
        (["--start-after", "weft-fuse", "-p", "weft-fuse"], "requires -p, or a part .*, got both"),
    ],
)
def test_refuses_what_is_no_part_of_a_compilation(argv: list[str], message: str):
    with pytest.raises(WeftError, match=message):
        run_opt(argv, "builtin.module {}")


def tied_model() -> ModelProto:
    """y = table[ids] table^T."""
    net = GraphWriter("tied", seed=1)
    ids = net.input("ids", (3,), TensorProto.INT64)
    table = net.weight("table", (2048, 64), 0.1)
    rows = net.op("Gather", table, ids)
    net.output(net.op("MatMul", rows, net.op("Transpose", table, perm=[1, 0])), "y", (3, 2048))
    return net.model


def test_kernels_that_look_up_a_tied_weight_wait_for_its_layout():
    session = Session(Options(host_target()))
    graph = read_graph(tied_model(), session)
    lower(graph.module, graph.weights, ScheduledKernels(session), session, UNSCHEDULED)
    waiting = [AWAITS_LAYOUT in each.attributes for each in kernels_of(graph.module).values()]
    assert sorted(waiting) == [False, True]
    (program,) = (op for op in graph.module.ops if isinstance(op, ProgramOp))
    weights = [op for op in program.walk() if isinstance(op, WeightOp)]
    assert sum(TRANSPOSED in op.attributes for op in weights) == 1


@dataclass(frozen=True)
class DamagingPass(ModulePass):
    """Leaves a function without the operation that ends it."""

    name = "test-damage"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = graph_function(op)
        returned = function.get_return_op()
        assert returned is not None
        Rewriter.erase_op(returned)


def test_a_module_is_verified_behind_each_pass():
    damaging = (Extension(passes=(DamagingPass,)),)
    session = Session(Options(host_target()), extensions=damaging)
    with pytest.raises(VerifyException):
        read_graph(dense_model(), session)
    assert session.report.passes[-1].name == DamagingPass.name


@pytest.mark.usefixtures("own_kernels")
def test_workers_compile_a_network_to_the_code_that_one_process_gives():
    model, options = build("lenet"), Options(host_target())
    alone, beside = (compile_model(model, options, Session(options, cores=n)) for n in (1, 3))
    assert alone.objects == beside.objects
