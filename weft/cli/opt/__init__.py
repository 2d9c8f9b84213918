"""weft-opt: text of any level in, passes, text out; xDSL's driver with weft's dialects and passes.

Two options of xDSL turn an expected error into output that a golden test can check:
`--verify-diagnostics` for what the verifier or a pass refuses, `--parsing-diagnostics` for syntax.
"""

import argparse
import contextlib
import io
import sys
from collections.abc import Callable, Generator, Sequence
from typing import IO, Any, TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Dialect
from xdsl.passes import ModulePass, PassPipeline
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ParseError
from xdsl.xdsl_opt_main import xDSLOptMain

from weft.cli.opt.options import SetOptionsPass, SetTargetPass
from weft.cli.opt.targets import OUTPUTS
from weft.compiler.driver.lowering import LOWERING, passes_between
from weft.compiler.frontend.from_graph_file import DIGEST, UNOPTIMISED
from weft.compiler.frontend.graph_file_names import STAMP
from weft.compiler.graph.batch.batch import VmapPass
from weft.compiler.graph.check_indices import CheckIndicesPass
from weft.compiler.graph.differentiate.differentiate import DifferentiatePass
from weft.compiler.graph.passes import GRAPH_PASSES, PARTITIONING_PASSES
from weft.compiler.graph.probe import ProbePass
from weft.compiler.loop.primitive_passes import PRIMITIVE_PASSES
from weft.compiler.program.buckets import MergeProgramsPass
from weft.compiler.target.module_target import TARGET, target_of
from weft.dialects.context import TextParser
from weft.dialects.errors import OptionError, WeftError
from weft.dialects.graph import GRAPH
from weft.dialects.loop import LOOP
from weft.dialects.module_attributes import OPTIONS, code_options
from weft.dialects.stablehlo import CHLO, QUANT, STABLEHLO

DIALECTS = (GRAPH, LOOP, STABLEHLO, CHLO, QUANT)

T = TypeVar("T")


ALL_PASSES: tuple[type[ModulePass], ...] = (
    SetTargetPass,
    SetOptionsPass,
    *GRAPH_PASSES,
    *(each for each in PARTITIONING_PASSES if each not in GRAPH_PASSES),
    CheckIndicesPass,
    DifferentiatePass,
    VmapPass,
    ProbePass,
    *dict.fromkeys(LOWERING),
    MergeProgramsPass,
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

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        for flag, what in (
            ("--start-after", "behind this one"),
            ("--stop-after", "up to this one"),
        ):
            shown = f"run the passes of a compilation {what}; N counts those of one name"
            arg_parser.add_argument(flag, metavar="PASS[,N]", help=shown)

    def setup_pipeline(self) -> None:
        if self.args.passes and (self.args.start_after or self.args.stop_after):
            rule = "weft-opt requires -p, or a part of the passes of a compilation"
            raise OptionError(f"{rule}, got both")
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
            module = super().parse_chunk(chunk, file_extension, start_offset)
            if module is not None:
                _check_attributes(module)
            return module

    def apply_passes(self, prog: ModuleOp) -> None:
        start, stop = self.args.start_after, self.args.stop_after
        with _weft_errors_as_diagnostics():
            if start or stop:
                passes = tuple(each() for each in passes_between(prog, start, stop))
                self.pipeline = PassPipeline(passes, self.pipeline.callback)
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


def _check_attributes(module: ModuleOp) -> None:
    """Refuses what a module says of its compilation and no pass would read."""
    choices = (DIGEST, OPTIONS, STAMP, TARGET, UNOPTIMISED)
    unknown = [key for key in module.attributes if key.startswith("weft.") and key not in choices]
    if unknown:
        rule = f"a module requires attributes out of {', '.join(sorted(choices))}"
        raise OptionError(f"{rule}, got {', '.join(unknown)}")
    target_of(module)
    code_options(module)


def _always(value: T) -> Callable[[], T]:
    return lambda: value
