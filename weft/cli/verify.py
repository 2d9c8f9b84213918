"""`weft verify`: whether an artifact is whole, harmless, and made for this machine."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Final

from msgspec.structs import asdict

from weft.cli.parser import command_parser
from weft.cli.table import table
from weft.cli.terminal import show
from weft.compiler.loop_to_llvm.runtime import EXPORTS, LIBC_NAMES
from weft.compiler.machine.artifact.verify import verify
from weft.compiler.machine.codegen.host import host_target
from weft.dialects.errors import ArtifactError

_EXAMPLES: Final = """\
examples:
  weft verify libmodel.so          what each check found, the self-test among them
  weft verify model.wasm --json
"""


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = command_parser(
        "weft verify",
        "Checks an artifact without loading it: its metadata, its digests, weights "
        "among them, the ABI, segments, what it takes from libc and what it exports. Then its "
        "self-test is run, if it was compiled with one.",
        _EXAMPLES,
    )
    made.add_argument("artifact", help="a shared object or a WebAssembly module made by weft")
    made.add_argument(
        "--no-run",
        dest="run",
        action="store_false",
        help="leave the artifact's self-test out, for which it is loaded and run",
    )
    made.add_argument("--json", action="store_true", help="the findings as one JSON object")
    return made


def run(arguments: argparse.Namespace) -> None:
    """Prints what the checks found. Raises ArtifactError for what the first that fails found."""
    path = arguments.artifact
    findings = verify(path, host_target(), exports=EXPORTS, libc=LIBC_NAMES, run=arguments.run)
    ok = all(each.ok for each in findings)
    if arguments.json:
        found = {"artifact": path, "ok": ok, "checks": [asdict(each) for each in findings]}
        show(json.dumps(found, indent=1))
        sys.exit(0 if ok else 1)
    if not ok:
        raise ArtifactError(findings[-1].text)
    show(table([(each.check, each.text) for each in findings], indent=""))
