"""weft: usage, help, exit statuses, and what a shell sees of them."""

import contextlib
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.weft.cli.command import Command
from weft.cli.main import COMMANDS
from weft.compiler.version import VERSION

ROOT = Path(__file__).parents[3]
WEFT = (sys.executable, "-m", "weft")


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS)])
def test_help_teaches(weft_command: Command, command: tuple[str, ...]):
    outcome = weft_command(*command, "--help")
    assert (outcome.status, outcome.error) == (0, "")
    assert f"usage: {' '.join(('weft', *command))}" in outcome.output


@pytest.mark.parametrize("command", ["compile", "run", "inspect"])
def test_help_shows_examples(weft_command: Command, command: str):
    assert f"\n  weft {command} " in weft_command(command, "--help").output


def test_prints_the_version(weft_command: Command):
    assert weft_command.succeeds("--version") == f"weft {VERSION}\n"


@pytest.mark.parametrize(
    "arguments",
    [[], ["bogus"], ["compile"], ["compile", "a", "b"], ["compile", "a", "--emit", "exe"]],
    ids=["none", "unknown", "too few", "too many", "choice"],
)
def test_wrong_usage_is_status_2(weft_command: Command, arguments: list[str]):
    outcome = weft_command(*arguments)
    assert outcome.status == 2
    assert outcome.error.startswith("usage: weft")


def test_what_is_printed_before_an_error_is_written(tmp_path: Path):
    (tmp_path / "failing.py").write_text(
        "import sys\n"
        "from weft.cli import main as weft\n"
        "from weft.dialects.errors import WeftError\n"
        "def run():\n"
        "    print('rows')\n"
        "    raise WeftError('why')\n"
        "weft._command = lambda argv: run\n"
        "sys.exit(weft.main())\n"
    )
    path = os.pathsep.join((str(ROOT), str(tmp_path)))
    environment = {**os.environ, "PYTHONPATH": path}
    environment.pop("PYTHONUNBUFFERED", None)
    done = subprocess.run(
        (sys.executable, "-m", "failing"), env=environment, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, b"rows\n")
    assert done.stderr == b"weft: error: why\n"


def test_a_reader_that_leaves_is_no_traceback(dense_folder: Path):
    program = f"{' '.join(WEFT)} compile {dense_folder}/dense.onnx --emit asm | head -n 1"
    shown = subprocess.run(
        ["sh", "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert shown.stderr == ""
    assert shown.stdout.startswith("# ")


AT_ONCE = """
import sys
from weft.cli import main, progress
progress._AT_ONCE = float(sys.argv.pop(1))
sys.exit(main.main())
"""


@pytest.mark.parametrize(("seconds", "sees"), [(0, True), (1000, False)])
def test_a_terminal_sees_the_stages_of_what_takes_longer(
    dense_folder: Path, tmp_path: Path, seconds: int, sees: bool
):
    terminal, its_end = os.openpty()
    arguments = ("compile", dense_folder / "dense.onnx", "--no-cache", "-o", tmp_path / "m.so")
    command = [sys.executable, "-c", AT_ONCE, str(seconds), *arguments]
    subprocess.run(command, cwd=ROOT, stderr=its_end, check=True)
    os.close(its_end)
    shown = b""
    with contextlib.suppress(OSError):  # how Linux says that nobody has the other end
        while block := os.read(terminal, 4096):
            shown += block
    os.close(terminal)
    assert (b"compile" in shown) == sees
    assert f"{tmp_path / 'm.so'} (".encode() in shown


def test_an_interrupt_is_one_line(tmp_path: Path):
    os.mkfifo(tmp_path / "model.onnx")  # to be opened by nobody, so that reading it waits
    process = subprocess.Popen(
        [*WEFT, "inspect", tmp_path / "model.onnx"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        # whoever runs the tests in the background has them ignore interrupts, and would the child
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.5)
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130
    assert process.stderr.read() == "weft: interrupted\n"
    process.stderr.close()
