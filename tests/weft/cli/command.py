"""Runs `weft` in this process."""

from typing import NamedTuple

import pytest

from weft.cli.main import main


class Outcome(NamedTuple):
    """What a command left: its exit status and what it printed."""

    status: int
    output: str
    error: str


class Command:
    """Calls `weft` with arguments and captures what it prints."""

    def __init__(self, capture: pytest.CaptureFixture[str]):
        self._capture = capture

    def __call__(self, *arguments: object) -> Outcome:
        self._capture.readouterr()
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # argparse: wrong usage, --help, --version
            status = int(stop.code or 0)
        return Outcome(status, *self._capture.readouterr())

    def succeeds(self, *arguments: object) -> str:
        """The output of a command that has nothing to complain about."""
        outcome = self(*arguments)
        assert (outcome.status, outcome.error) == (0, "")
        return outcome.output

    def fails(self, *arguments: object) -> str:
        """The one line of a command that fails."""
        status, output, error = self(*arguments)
        assert (status, output) == (1, "")
        assert error.startswith("weft: error: ")
        assert error.count("\n") == 1
        return error.removeprefix("weft: error: ").rstrip("\n")
