"""Whether two compilers make the same machine code of the recorded list of models.

    python -m benchmarks.same_code record before.jsonl --tree ../older-checkout
    python -m benchmarks.same_code record after.jsonl
    python -m benchmarks.same_code compare before.jsonl after.jsonl

`record` compiles each model with the compiler of a checkout, and writes a line for it: of each
kernel, of the program that calls them and of the run time, a digest of the machine code and one of
its constants. Any checkout whose weft exports static libraries can be recorded. The quickest models
come first: `--first 30` is a sample of a minute. A model that the file has of this very commit is
not compiled again, hence a recording that was broken off continues where it stopped.

`compare` lists what differs by model and kernel, and fails where something does. Names do not
count: kernels that were renamed are compared where the program calls them, and other functions
with new names are listed. Relocations do, by offset, type, addend and what they refer to.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.case import Case
from benchmarks.models import find_cases
from benchmarks.options import RESULTS, append_row
from benchmarks.run import recorded
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.elf import records as elf
from weft.compiler.machine.elf.object_file import RelocatableObject, Section, read_object

PREFIX: Final = "model"
"""What symbols of models start with; others are those of libc."""

PROGRAM: Final = "program"
"""The object whose code calls the kernels."""

_EXPORT: Final = """
import sys, weft
tree, model, target, prefix, archive = sys.argv[1:]
found = weft.__file__
if not found.startswith(f"{tree}/"): raise SystemExit(f"{tree} has no weft, it is {found}")
weft.compile(model, threads=1, target=target, cache=False, prefix=prefix).export(archive)
"""
"""What is asked of a checkout: the public interface alone, which is older than modules' names."""

_MAGIC: Final = b"!<arch>\n"
_HEADER_SIZE: Final = 60
_WEIGHTS: Final = "weights.o/"

Row = dict[str, Any]


@dataclass(frozen=True)
class Code:
    """Digests of an object: of its machine code with relocations, and of its constants. `symbols`
    are the functions and arrays of the model that it refers to, in the order of first use.
    """

    code: str
    constants: str
    bytes: int
    symbols: list[str]


def main() -> None:
    """Records or compares; exits with 1 where something differs or does not compile."""
    arguments = _arguments()
    sys.exit(arguments.run(arguments))


def record(arguments: argparse.Namespace) -> int:
    """Writes the recording, and a line on stderr for each model; returns the exit code."""
    tree: Path = arguments.tree.resolve()
    target = host_target().cpu if arguments.target == "native" else arguments.target
    commit = _commit(tree)
    done = {} if commit.endswith("-dirty") else read_rows(arguments.file)
    head = {"commit": commit, "target": target}
    asked = _by_cost(find_cases(arguments.only))[: arguments.first]
    cases = [case for case in asked if not head.items() <= done.get(case.name, {}).items()]
    failed = 0
    for number, case in enumerate(cases, 1):
        start = time.monotonic()
        row = {"case": case.name, **head, **record_case(case, tree, arguments.target)}
        failed += "error" in row
        append_row(arguments.file, row)
        count = row.get("error") or f"{len(row['objects'])} objects"
        seconds = time.monotonic() - start
        print(f"{number}/{len(cases)} {case.name}: {count}, {seconds:.1f} s", file=sys.stderr)
    return int(failed > 0)


def record_case(case: Case, tree: Path, target: str) -> Row:
    """The `objects` of a model by name as a checkout compiles it, or the `error` that it raised."""
    with tempfile.TemporaryDirectory(prefix="weft-same-code-") as folder:
        model, archive = Path(folder) / f"{case.name}.onnx", Path(folder) / "libmodel.a"
        model.write_bytes(case.build().SerializeToString())
        command = [sys.executable, "-c", _EXPORT, tree, model, target, PREFIX, archive]
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        ran = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, check=False
        )
        if ran.returncode:
            return {"error": (ran.stderr.strip().splitlines() or ["killed"])[-1]}
        return {"objects": {name: asdict(code) for name, code in codes_of(archive)}}


def codes_of(archive: Path) -> Iterator[tuple[str, Code]]:
    """Name and digests of each object of a static library that holds machine code."""
    for name, data in members(archive):
        code = code_of(read_object(data, name))
        if code.bytes:
            yield name.removesuffix(".o"), code


def members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """File name and content of each object of a System V archive but that of the weights, which
    may not fit into memory.
    """
    long_names = b""
    with archive.open("rb") as file:
        assert file.read(len(_MAGIC)) == _MAGIC, "weft exports an archive"
        while header := file.read(_HEADER_SIZE):
            field, size = header[:16].decode().rstrip(), int(header[48:58])
            end = file.tell() + size + size % 2
            if field == "//":
                long_names = file.read(size)
            elif field not in ("/", _WEIGHTS):
                yield _file_name(field, long_names), file.read(size)
            file.seek(end)


def _file_name(field: str, long_names: bytes) -> str:
    """What the name field `name/`, or `/offset` of a long name, stands for."""
    if not field.startswith("/"):
        return field.removesuffix("/")
    return long_names[int(field[1:]) :].split(b"/\n")[0].decode()


def code_of(data: RelocatableObject) -> Code:
    """The digests of an object. Symbols of the model are numbered by first use, so that no name
    counts; those of libc keep theirs, and what the object itself defines is where it is stored.
    """
    numbers: dict[str, int] = {}
    code, constants, size = hashlib.sha256(), hashlib.sha256(), 0
    for section in data.sections:
        if not section.is_loaded or section.name.startswith(".note"):
            continue
        executable = bool(section.flags & elf.SHF_EXECINSTR)
        size += section.size * executable
        for part in _parts(data, section, numbers):
            (code if executable else constants).update(part)
    return Code(code.hexdigest()[:16], constants.hexdigest()[:16], size, list(numbers))


def _parts(data: RelocatableObject, section: Section, numbers: dict[str, int]) -> Iterator[bytes]:
    """The bytes of a section and of its relocations."""
    yield f"{section.name} {section.size}\n".encode()
    yield section.content
    for relocation in section.relocations:
        symbol = data.symbols[relocation.symbol]
        if symbol.is_defined:
            origin = f"{data.sections[symbol.section].name}+{symbol.value}"
        elif symbol.name.startswith(f"{PREFIX}."):
            name = symbol.name.removeprefix(f"{PREFIX}.")
            origin = str(numbers.setdefault(name, len(numbers)))
        else:
            origin = symbol.name
        yield f"{relocation.offset} {relocation.type} {origin} {relocation.addend}\n".encode()


def read_rows(path: Path) -> dict[str, Row]:
    """The rows of a recording by case; the last of each counts."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {row["case"]: row for row in map(json.loads, lines)}


def compare(arguments: argparse.Namespace) -> int:
    """Prints what differs between two recordings; returns the exit code."""
    old, new = read_rows(arguments.old), read_rows(arguments.new)
    common = [name for name in old if name in new]
    found = [each for name in common for each in differences(old[name], new[name])]
    found = [each for each in found if each["object"] not in arguments.ignore]
    renamed = Counter(pair for name in common for pair in _renamed(old[name], new[name]))
    result: Row = {
        "compared": len(common),
        "objects": sum(len(old[name].get("objects", ())) for name in common),
        "only_old": sorted(old.keys() - new.keys()),
        "only_new": sorted(new.keys() - old.keys()),
        "differences": found,
        "renamed": [[*pair, count] for pair, count in renamed.most_common()],
    }
    print(json.dumps(result, indent=1) if arguments.json else shown(result))
    return int(bool(found) or not common)


def differences(old: Row, new: Row) -> Iterator[Row]:
    """What differs between the recordings of a model: `case`, `object` and `what`."""
    head = {"case": old["case"]}
    for key in ("error", "target"):
        if old.get(key) != new.get(key):
            yield head | {"object": "", "what": f"{key}: {old.get(key)} -> {new.get(key)}"}
    before, after = _objects(old), _objects(new)
    pairs = _pairs(before, after)
    for name, other in pairs.items():
        parts = [part for part in ("code", "constants") if before[name][part] != after[other][part]]
        if parts:
            sizes = f"{before[name]['bytes']} -> {after[other]['bytes']} bytes of code"
            yield head | {"object": other, "what": f"other {' and '.join(parts)}, {sizes}"}
    for which, names in (("old", before.keys() - pairs), ("new", after.keys() - pairs.values())):
        for name in sorted(names):
            yield head | {"object": name, "what": f"only in the {which} recording"}


def _objects(row: Row) -> Mapping[str, Row]:
    return row.get("objects", {})


def _pairs(old: Mapping[str, Row], new: Mapping[str, Row]) -> dict[str, str]:
    """Which object of the new recording is which of the old one: those that programs of the same
    code call in the same order, else those of one name, then those of the same code.
    """
    pairs: dict[str, str] = {}
    programs = old.get(PROGRAM), new.get(PROGRAM)
    if programs[0] and programs[1] and programs[0]["code"] == programs[1]["code"]:
        called = zip(programs[0]["symbols"], programs[1]["symbols"], strict=True)
        pairs = {name: other for name, other in called if name in old and other in new}
    taken = set(pairs.values())
    pairs |= {name: name for name in old.keys() & new.keys() - taken if name not in pairs}
    left = {new[name]["code"]: name for name in new.keys() - pairs.values()}
    for name in sorted(old.keys() - pairs.keys()):
        if old[name]["code"] in left:
            pairs[name] = left.pop(old[name]["code"])
    return pairs


def _renamed(old: Row, new: Row) -> Iterator[tuple[str, str]]:
    """Functions and arrays, kernels aside, that objects of the same code refer to by new names."""
    before, after = _objects(old), _objects(new)
    for name, other in _pairs(before, after).items():
        if before[name]["code"] == after[other]["code"]:
            symbols = zip(before[name]["symbols"], after[other]["symbols"], strict=True)
            yield from (pair for pair in symbols if pair[0] != pair[1] and pair[0] not in before)


def shown(result: Row) -> str:
    """The comparison for people."""
    lines = [
        f"{each['case']:32} {each['object']:40} {each['what']}" for each in result["differences"]
    ]
    lines += [f"{old} is called {new} in {count} objects" for old, new, count in result["renamed"]]
    for which in ("old", "new"):
        if names := result[f"only_{which}"]:
            others = f", {names[1]}, ..." if names[1:] else ""
            lines.append(f"{len(names)} models only in the {which} recording: {names[0]}{others}")
    models = len({each["case"] for each in result["differences"]})
    told = f"{len(result['differences'])} differences in {models} models" if models else "the same"
    return "\n".join(
        [*lines, f"{result['compared']} models of {result['objects']} objects: {told}"]
    )


def _by_cost(cases: Sequence[Case]) -> list[Case]:
    """The cases sorted by the seconds that compiling took when they were last measured."""
    seconds: dict[str, float] = {}
    for path in sorted(RESULTS.glob("20*.jsonl")):
        rows = recorded(path).items()
        seconds |= {name: row["compile_s"] for (name, _), row in rows if "compile_s" in row}
    return sorted(cases, key=lambda case: seconds.get(case.name, float("inf")))


def _commit(tree: Path) -> str:
    """The commit that is checked out there, empty where there is none."""
    command = ["git", "describe", "--always", "--dirty"]
    ran = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    return ran.stdout.strip()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.same_code",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True)
    add = commands.add_parser("record", help="compiles models and writes digests of their code")
    add.set_defaults(run=record)
    add.add_argument("file", type=Path, help="gets a JSON object a line and model")
    add.add_argument(
        "--only", type=_names, default=[], metavar="CASE,...",
        help="names of cases or of groups of them, all by default",
    )  # fmt: skip
    add.add_argument("--first", type=int, metavar="N", help="the N quickest of these cases")
    add.add_argument(
        "--tree", type=Path, default=RESULTS.parents[1], metavar="DIR",
        help="the checkout whose compiler is recorded, this one by default",
    )  # fmt: skip
    add.add_argument("--target", default="native", help="a CPU level that this machine has")
    add = commands.add_parser("compare", help="lists what differs between two recordings")
    add.set_defaults(run=compare)
    add.add_argument("old", type=Path)
    add.add_argument("new", type=Path)
    add.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    add.add_argument(
        "--ignore", type=_names, default=[], metavar="OBJECT,...",
        help="objects whose differences are left out, such as runtime",
    )  # fmt: skip
    arguments = parser.parse_args()
    try:
        find_cases(getattr(arguments, "only", []))
    except ValueError as error:
        parser.error(str(error))
    return arguments


def _names(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    main()
