"""ONNX's backend test suite through weft: its cases, what each comes to, and what is expected.

`python -m tests.compiler.adapters.onnx_suite` runs all, prints counts by category and writes the
expectations anew; reasons that a person has worded stay. Patterns of names run these alone.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from onnx import ModelProto, SequenceProto, TensorProto, ValueInfoProto, numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from tests.models.light import LIGHT, shipped_input, shipped_output
from tests.support.shared_kernels import SHARED_KERNELS
from weft.cli.demo_model import load_light
from weft.compiler.adapters.onnx_backend import WeftBackend
from weft.dialects.errors import WeftError

EXPECTATIONS = Path(__file__).parent / "expected_failures.txt"
NATIVE = "native"
MOVED = "moved at run time: a kernel copies an input to an output"
FOLDED = "folded while compiling: no kernel reads an input"
DEFECT = "defect: "
WITHOUT_FAILURE = (NATIVE, MOVED, FOLDED)
MOVES_ONLY = frozenset({"constant", "copy"})
"""Kernels that only bring a value that is known, or an input, to an output."""
KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")

Arrays = Sequence[NDArray[Any]]


@dataclass(frozen=True)
class Case:
    """One model with pairs of inputs and outputs."""

    name: str
    kind: str
    model: ModelProto
    data_sets: Sequence[tuple[Arrays, Arrays]]
    rtol: float
    atol: float


@cache
def all_cases() -> Mapping[str, Case]:
    """Every case that ships with onnx but for the real models, by name."""
    cases: dict[str, Case] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in KINDS:
            for found in load_model_tests(kind=kind):
                model, data_sets = found.model, found.data_sets or ()
                if model is None:
                    model, data_sets = _read_folder(Path(str(found.model_dir)))
                pairs = [(_arrays(inputs), _arrays(outputs)) for inputs, outputs in data_sets]
                cases[found.name] = Case(found.name, kind, model, pairs, found.rtol, found.atol)
    return dict(sorted(cases.items()))


def real_cases() -> Mapping[str, Case]:
    """The nine networks, on the ramp that ONNX's runner gives them; they take minutes."""
    cases: dict[str, Case] = {}
    for name in LIGHT:
        pairs = [([shipped_input()], [shipped_output(name)])]
        cases[f"test_{name}"] = Case(f"test_{name}", "real", load_light(name), pairs, 1e-3, 1e-5)
    return cases


def _read_folder(folder: Path) -> tuple[ModelProto, list[tuple[list[Any], list[Any]]]]:
    model = ModelProto.FromString((folder / "model.onnx").read_bytes())
    data_sets = [
        (_read(data, "input", model.graph.input), _read(data, "output", model.graph.output))
        for data in sorted(folder.glob("test_data_set_*"))
    ]
    return model, data_sets


def _read(folder: Path, role: str, values: Sequence[ValueInfoProto]) -> list[Any]:
    """The stored tensors and sequences; there may be fewer than the graph has values."""
    paths = [folder / f"{role}_{position}.pb" for position in range(len(values))]
    arrays: list[Any] = []
    for path, value in zip(paths, values, strict=True):
        if not path.exists():
            continue
        if value.type.WhichOneof("value") == "sequence_type":
            arrays.append(numpy_helper.to_list(SequenceProto.FromString(path.read_bytes())))
        else:
            arrays.append(TensorProto.FromString(path.read_bytes()))
    return arrays


def _arrays(values: Iterable[Any]) -> list[Any]:
    return [numpy_helper.to_array(x) if isinstance(x, TensorProto) else x for x in values]


def outcome(case: Case) -> str:
    """NATIVE, MOVED, FOLDED, or why the case does not pass, on one line."""
    try:
        prepared = WeftBackend.prepare(case.model, threads=1, store=SHARED_KERNELS)
        for inputs, outputs in case.data_sets:
            results = prepared.run(inputs)
            assert list(map(_length, outputs)) == list(map(_length, results)), "sequences differ"
            wanted, given = _tensors(outputs), _tensors(results)
            Runner.assert_similar_outputs(wanted, given, case.rtol, case.atol)
    except (WeftError, AssertionError) as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    stems = {name.rpartition("_")[0] for name in prepared.kernels}
    if not stems <= MOVES_ONLY:
        return NATIVE
    # Without weights, and without a kernel that writes constants, what is copied is an input.
    return MOVED if stems == {"copy"} and not prepared.has_weights else FOLDED


def _length(value: Any) -> int | None:
    return len(value) if isinstance(value, list) else None


def _tensors(values: Iterable[Any]) -> list[Any]:
    """The values with the elements of sequences in their place, which ONNX's runner can't compare
    where they are scalars.
    """
    parts = (value if isinstance(value, list) else [value] for value in values)
    return [tensor for part in parts for tensor in part]


def expectations() -> Mapping[str, str]:
    """Why each pattern of names is not expected to be computed natively."""
    reasons: dict[str, str] = {}
    reason = ""
    for line in EXPECTATIONS.read_text().splitlines():
        if line.startswith("["):
            reason = line.strip("[]")
        elif line:
            reasons[line] = reason
    return reasons


def expected_reason(name: str, reasons: Mapping[str, str]) -> str | None:
    """Why the case is not expected to be computed natively, None if it is."""
    return next((why for pattern, why in reasons.items() if fnmatchcase(name, pattern)), None)


# Writing the expectations -------------------------------------------------------------------------

CATEGORIES = (
    (r"got (the )?strings", "strings"),
    (r"bool element type, got complex", "complex numbers"),
    (r"requires a tensor type, got|got no op.*[Ss]equence", "sequences and optionals"),
    (r"requires an operator that it has, got (\w+)", r"no operator \1"),
    (r"graph requires a known operator, got (\w+)", r"no graph operator \1"),
    (r"known while compiling|requires a constant|as plain numbers", "sizes that depend on data"),
)
"""Patterns in messages, the first that is found, and the reason that they stand for."""

PLACE = re.compile(r"^.*?\): ")
"""What a message says before the rule: files and nodes."""


def reason_of(message: str, former: str | None) -> str:
    """A short reason for a message: its category, else how a person worded it before."""
    for pattern, reason in CATEGORIES:
        found = re.search(pattern, message)
        if found:
            return found.expand(reason).strip()
    if former is not None and former not in WITHOUT_FAILURE:
        return former
    return PLACE.sub("", message)[:100].strip()


def compress(names: Sequence[str], others: Sequence[str]) -> list[str]:
    """The shortest prefixes with `*`, at word ends, that cover the names and none of the others."""
    patterns: list[str] = []
    for name in names:
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            continue
        ends = [match.start() for match in re.finditer("_", name)][1:]
        prefixes = [name[:end] for end in ends]
        clean = [
            prefix
            for prefix in prefixes
            if not any(other.startswith(prefix) for other in others)
            and sum(each.startswith(prefix) for each in names) > 1
        ]
        patterns.append(f"{clean[0]}*" if clean else name)
    return patterns


def write_expectations(outcomes: Mapping[str, str]) -> None:
    """Writes the patterns of all cases that are not computed natively, grouped by reason."""
    known = expectations()
    groups: dict[str, list[str]] = defaultdict(list)
    for name, found in outcomes.items():
        if found != NATIVE:
            former = expected_reason(name, known)
            reason = found if found in WITHOUT_FAILURE else reason_of(found, former)
            groups[reason].append(name)
    lines: list[str] = []
    for reason, names in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
        members = set(names)
        patterns = compress(names, [name for name in outcomes if name not in members])
        lines += [f"[{reason}]", *patterns, ""]
    EXPECTATIONS.write_text("\n".join(lines))


@cache
def _every_case() -> Mapping[str, Case]:
    return {**all_cases(), **real_cases()}


def _attempt(name: str) -> str:
    """What a case comes to; a defect, which the tests fail on, does not stop the list."""
    print(name, file=sys.stderr, flush=True)  # where a case ends the process, this tells which
    try:
        return outcome(_every_case()[name])
    except Exception as error:
        return f"{DEFECT}{error!r}"


def main() -> None:
    """Runs the cases; with patterns these alone, and leaves the expectations as they are."""
    parser = argparse.ArgumentParser(
        "python -m tests.compiler.adapters.onnx_suite", description=__doc__
    )
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="names such as test_conv*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    arguments = parser.parse_args()
    patterns = arguments.patterns
    cases = _every_case()
    if patterns:
        fits = [name for name in cases if any(fnmatchcase(name, each) for each in patterns)]
        cases = {name: cases[name] for name in fits}
    # Processes that are forked have the cases; one that a case ends breaks the pool.
    with ProcessPoolExecutor(arguments.jobs, get_context("fork")) as pool:
        outcomes = dict(zip(cases, pool.map(_attempt, cases), strict=True))
    defects = {name: found for name, found in outcomes.items() if found.startswith(DEFECT)}
    print(*(f"{name}: {found}" for name, found in defects.items()), sep="\n")
    outcomes = {name: found for name, found in outcomes.items() if name not in defects}
    if not patterns:
        write_expectations({name: outcomes[name] for name in outcomes if name in all_cases()})
    _print_counts(cases, outcomes)


def _print_counts(cases: Mapping[str, Case], outcomes: Mapping[str, str]) -> None:
    """Prints how many cases of each category came to what, and those that failed."""
    words = {NATIVE: "native", MOVED: "moved", FOLDED: "folded"}
    for kind in (*KINDS, "real"):
        named = [found for name, found in outcomes.items() if cases[name].kind == kind]
        print(f"{kind:18}", dict(Counter(words.get(found, "failed") for found in named)))
    for name, found in outcomes.items():
        if found not in WITHOUT_FAILURE:
            print(f"{name}: {found}")


if __name__ == "__main__":
    main()
