"""weft-opt: text of any level in, passes, text out; xDSL's driver with weft's dialects and passes.

Two options of xDSL turn an expected error into output that a golden test can check:
`--verify-diagnostics` for what the verifier or a pass refuses, `--parsing-diagnostics` for syntax.
"""

import contextlib
import io
import sys
from collections.abc import Callable, Generator, Sequence
from typing import IO, Any, TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ParseError
from xdsl.xdsl_opt_main import xDSLOptMain

from weft.cli.opt_targets import OUTPUTS
from weft.compiler.driver.layout_choices import (
    AssignLayoutsPass,
    ChooseLayoutsPass,
    DropCopiesPass,
    PlaceHalosPass,
)
from weft.compiler.graph.check_indices import CheckIndicesPass
from weft.compiler.graph.differentiate.differentiate import DifferentiatePass
from weft.compiler.graph.passes import GRAPH_PASSES
from weft.compiler.graph.probe import ProbePass
from weft.compiler.graph_to_loop.lower_graph import GraphToLoopPass
from weft.compiler.loop.primitive_passes import PRIMITIVE_PASSES
from weft.compiler.loop.schedules import SchedulePass
from weft.compiler.program.layouts.assign_layouts import DropUnusedWeightsPass
from weft.compiler.program.memory.donate import DonatePass
from weft.compiler.program.memory.double_buffer import DoubleBufferPass
from weft.compiler.program.memory.hoist_workspace import HoistWorkspacePass
from weft.compiler.program.memory.plan_memory import PlanMemoryPass
from weft.compiler.program.memory.update_in_place import WriteStatesPass
from weft.compiler.program.parallelize_calls import ParallelizeCallsPass
from weft.compiler.program.poll_loops import PollLoopsPass
from weft.compiler.program.require_extents import RequireExtentsPass
from weft.compiler.program.time_calls import TimeCallsPass
from weft.compiler.validation.plan import ValidatePlanPass
from weft.dialects.context import TextParser
from weft.dialects.errors import OptionError, WeftError
from weft.dialects.graph import GRAPH
from weft.dialects.loop import LOOP

DIALECTS = (GRAPH, LOOP)

T = TypeVar("T")


ALL_PASSES: tuple[type[ModulePass], ...] = (
    *GRAPH_PASSES,
    CheckIndicesPass,
    DifferentiatePass,
    ProbePass,
    GraphToLoopPass,
    DropCopiesPass,
    ChooseLayoutsPass,
    PlaceHalosPass,
    SchedulePass,
    HoistWorkspacePass,
    AssignLayoutsPass,
    DropUnusedWeightsPass,
    WriteStatesPass,
    DoubleBufferPass,
    DonatePass,
    ParallelizeCallsPass,
    PlanMemoryPass,
    PollLoopsPass,
    RequireExtentsPass,
    ValidatePlanPass,
    TimeCallsPass,
    *PRIMITIVE_PASSES,
)
"""What `weft-opt` offers."""


class WeftOptMain(xDSLOptMain):
    """xdsl-opt with `dialects` and `passes` added.

    Reads `stdin` where no file is named; None means that of the process.
    """

    version_format = "weft-opt on xDSL {xdsl_version}"

    def __init__(
        self,
        argv: Sequence[str],
        stdin: str | None = None,
        *,
        dialects: Sequence[Dialect] = DIALECTS,
        passes: Sequence[type[ModulePass]] = ALL_PASSES,
    ):
        self._stdin = stdin
        self._dialects = dialects
        self._passes = passes
        super().__init__("weft modular optimizer driver", argv)

    def register_all_dialects(self) -> None:
        super().register_all_dialects()
        for dialect in self._dialects:
            self.ctx.register_dialect(dialect.name, _always(dialect))

    def register_all_frontends(self) -> None:
        super().register_all_frontends()

        def parse(chunk: IO[Any]) -> ModuleOp:
            parser = TextParser(self.ctx, chunk.read(), self.get_input_name())
            return parser.parse_module(not self.args.no_implicit_module)

        self.available_frontends["mlir"] = parse

    def register_all_passes(self) -> None:
        super().register_all_passes()
        for module_pass in self._passes:
            self.register_pass(module_pass.name, _always(module_pass))

    def register_all_targets(self) -> None:
        super().register_all_targets()
        for output in OUTPUTS:
            self.available_targets[output.name] = _always(output)

    def setup_pipeline(self) -> None:
        try:
            super().setup_pipeline()
        except (ValueError, ArgSpecParseError) as error:
            got = f"{self.args.passes!r}: {error}"
            raise OptionError(f"weft-opt requires passes it knows, got {got}") from error

    def prepare_input(self) -> tuple[list[tuple[IO[bytes], int]], str]:
        try:
            return super().prepare_input()
        except ValueError as error:
            got = self.get_input_name()
            raise OptionError(f"weft-opt requires a file named *.mlir, got {got}") from error

    def get_input_stream(self) -> tuple[IO[bytes], str]:
        if self.args.input_file is None and self._stdin is not None:
            return io.BytesIO(self._stdin.encode()), "mlir"
        return super().get_input_stream()

    def parse_chunk(
        self, chunk: IO[bytes], file_extension: str, start_offset: int = 0
    ) -> ModuleOp | None:
        with _weft_errors_as_diagnostics():
            return super().parse_chunk(chunk, file_extension, start_offset)

    def apply_passes(self, prog: ModuleOp) -> None:
        with _weft_errors_as_diagnostics():
            super().apply_passes(prog)


def run_opt(argv: Sequence[str], stdin: str | None = None) -> str:
    """What `weft-opt` prints for these arguments; an error that no option expects is raised.

    `stdin` is read where `argv` names no file. `--disable-verify` is refused: xDSL then disables
    the checks of every attribute class for as long as the process lives.
    """
    if "--disable-verify" in argv:
        raise OptionError("weft-opt requires verified modules, got --disable-verify")
    with contextlib.redirect_stdout(io.StringIO()) as output:
        _run(argv, stdin)
    return output.getvalue()


def main() -> None:
    """The `weft-opt` command: prints the module, or the error on stderr and exits with 1."""
    try:
        _run(sys.argv[1:], None)
    except WeftError as error:
        sys.exit(str(error))


def _run(argv: Sequence[str], stdin: str | None) -> None:
    try:
        WeftOptMain(argv, stdin).run()
    except (ParseError, DiagnosticException) as error:
        raise WeftError(f"weft-opt: {error}") from error
    except OSError as error:
        raise OptionError(f"weft-opt requires a readable file, got {error.filename}") from error


@contextlib.contextmanager
def _weft_errors_as_diagnostics() -> Generator[None]:
    try:
        yield
    except WeftError as error:
        raise DiagnosticException(str(error)) from error


def _always(value: T) -> Callable[[], T]:
    return lambda: value
