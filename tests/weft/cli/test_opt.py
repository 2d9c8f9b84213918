"""weft-opt beyond what lit/driver.mlir shows: standard input, passes handed in, and user errors."""

from dataclasses import dataclass

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from weft.cli.opt import WeftOptMain, run_opt
from weft.dialects.errors import OptionError, UnsupportedError, WeftError


@dataclass(frozen=True)
class RefusingPass(ModulePass):
    """Refuses every module, the way a pass of weft does."""

    name = "test-refuse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise UnsupportedError("test-refuse requires nothing, got a module")


def test_reads_standard_input_where_no_file_is_named():
    assert "builtin.module" in run_opt([], "builtin.module {}")


def test_runs_a_pass_that_is_handed_in():
    driver = WeftOptMain(["-p", "test-refuse"], "builtin.module {}", passes=(RefusingPass,))
    with pytest.raises(DiagnosticException, match="test-refuse requires nothing, got a module"):
        driver.run()


def test_prints_an_expected_refusal_of_a_pass(capsys: pytest.CaptureFixture[str]):
    argv = ["-p", "test-refuse", "--verify-diagnostics"]
    WeftOptMain(argv, "builtin.module {}", passes=(RefusingPass,)).run()
    assert capsys.readouterr().out == "test-refuse requires nothing, got a module\n"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["-p", "weft-nonsense"], "requires passes it knows, got 'weft-nonsense'"),
        (["-p", "canonicalize{"], "requires passes it knows"),
        (["missing.mlir"], "requires a readable file, got missing.mlir"),
        ([__file__], r"requires a file named \*.mlir"),
        (["--disable-verify"], "got --disable-verify"),
    ],
)
def test_refuses_options(argv: list[str], message: str):
    with pytest.raises(OptionError, match=message):
        run_opt(argv, "builtin.module {}")


@pytest.mark.parametrize("text", ["builtin.module {", '"test.unknown"() : () -> ()'])
def test_an_error_that_no_option_expects_is_raised(text: str):
    with pytest.raises(WeftError, match="weft-opt: "):
        run_opt([], text)
