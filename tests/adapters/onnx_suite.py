"""ONNX's backend test suite through weft: its cases, what each comes to, and what is expected.

`python -m tests.adapters.onnx_suite` runs all, prints counts and writes the expectations anew;
reasons that a person has worded stay.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from onnx import ModelProto, SequenceProto, TensorProto, ValueInfoProto, numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from compiler.adapters.onnx_backend import WeftBackend
from dialects.errors import WeftError

EXPECTATIONS = Path(__file__).parent / "expected_failures.txt"
FOLDED = "folded while compiling: no kernel computes anything"
MOVES_ONLY = frozenset({"constant", "copy"})
"""Kernels that only bring a value that is known, or an input, to an output."""

Arrays = Sequence[NDArray[Any]]


@dataclass(frozen=True)
class Case:
    """One model with pairs of inputs and outputs."""

    name: str
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
        for kind in ("node", "simple", "pytorch-operator", "pytorch-converted"):
            for found in load_model_tests(kind=kind):
                model, data_sets = found.model, found.data_sets or ()
                if model is None:
                    model, data_sets = _read_folder(Path(str(found.model_dir)))
                pairs = [(_arrays(inputs), _arrays(outputs)) for inputs, outputs in data_sets]
                cases[found.name] = Case(found.name, model, pairs, found.rtol, found.atol)
    return dict(sorted(cases.items()))


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
    """`native`, `FOLDED`, or why the case does not pass, on one line."""
    try:
        prepared = WeftBackend.prepare(case.model, threads=1)
        for inputs, outputs in case.data_sets:
            results = prepared.run(inputs)
            assert list(map(_length, outputs)) == list(map(_length, results)), "sequences differ"
            wanted, given = _tensors(outputs), _tensors(results)
            Runner.assert_similar_outputs(wanted, given, case.rtol, case.atol)
    except (WeftError, AssertionError) as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    stems = {name.rpartition("_")[0] for name in prepared.kernels}
    return FOLDED if stems <= MOVES_ONLY else "native"


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
    if former is not None and former != FOLDED:
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
        if found != "native":
            former = expected_reason(name, known)
            groups[found if found == FOLDED else reason_of(found, former)].append(name)
    lines: list[str] = []
    for reason, names in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
        members = set(names)
        patterns = compress(names, [name for name in outcomes if name not in members])
        lines += [f"[{reason}]", *patterns, ""]
    EXPECTATIONS.write_text("\n".join(lines))


def main() -> None:
    outcomes: dict[str, str] = {}
    for name, case in all_cases().items():
        print(name, file=sys.stderr, flush=True)  # where a case ends the process, this tells which
        try:
            outcomes[name] = outcome(case)
        except Exception as error:  # a defect, which the tests fail on; the list goes on without
            print(f"{name}: {error!r}")
    write_expectations(outcomes)
    kinds = [found if found in ("native", FOLDED) else "failed" for found in outcomes.values()]
    print(dict(Counter(kinds)))


if __name__ == "__main__":
    main()
