"""Mutants by number and seed, what became of them, and which of that is a fault of weft's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np

from tests.mutants.corpus import seeds, with_known
from tests.mutants.judges import Verdict, judged, onnx_says, onnxruntime_says, weft_says
from tests.mutants.mutations import mutant

LONGEST_ITEM = 300
TOLERANCE = {2: 1e-2, 4: 1e-3, 8: 1e-6}
"""Of results by the bytes of an element, relative to the largest."""


LACKING = (
    "NOT_IMPLEMENTED",
    "is not a registered function/op",
    "only *guarantees* support",
    "Unsupported model IR version",
    "can't be converted to MLDataType",
    "No corresponding Numpy type",
    "Batchwise recurrent operations",
)
"""How onnxruntime says that the fault is its own."""

WIDER = (
    "Unsupported type proto value case:0",  # a value without a type: weft finds it
    "min_ <= max_ was false",  # ONNX says what Clip gives then
    "out of data bounds",  # indices that only a call knows are clamped
    "out of bounds",
    "is out of range",
    "gather_elements.cc",
    "inconsistent q_sequence_length",  # masks that are broadcast
    "inconsistent total_sequence_length",  # and those that are shorter
    "quantize_linear_matmul.cc",  # scales of one element and any rank
)
"""Rules of onnxruntime that weft does without, on purpose."""

SPECIAL = tuple(np.float32(each).tobytes() for each in (np.nan, np.inf, -np.inf))

KEPT = (
    "requires an axis from",
    "requires a reduction out of",
    "requires attributes of",
    "requires the type that its node gives",  # sizes, of which onnxruntime warns
    "fewer than 2**63 elements",
)
"""Rules of weft that neither onnxruntime nor the checker of ONNX keeps."""

STRICTER = "refused what onnxruntime accepts"
LENIENT = "accepted what onnxruntime refuses"


@dataclass(frozen=True)
class Score:
    """One mutant: how it was made, and how it ended; `good` unless weft is at fault."""

    number: int
    model: str
    change: str
    outcome: str
    good: bool
    onnxruntime: str
    weft: str
    seconds: float

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


def mutant_of(seed: int, number: int) -> tuple[str, str, bytes, dict[str, np.ndarray]]:
    """The model's name, the change, the file and the arrays of a mutant."""
    digest = hashlib.sha256(f"{seed} {number}".encode()).digest()
    chance = np.random.default_rng(int.from_bytes(digest[:8], "little"))
    models = seeds()
    chosen = with_known(models[int(chance.integers(len(models)))], chance)
    change, data = mutant(chosen.model, chance)
    return chosen.name, change, data, dict(chosen.inputs)


def score(seed: int, number: int) -> Score:
    """Tries one mutant."""
    name, change, data, arrays = mutant_of(seed, number)
    theirs = judged(onnxruntime_says, data, arrays)
    ours = judged(weft_says, data, theirs.inputs)
    outcome, good = compared(theirs, ours, any(each in data for each in SPECIAL))
    if outcome == STRICTER and judged(onnx_says, data).state != "taken":
        outcome, good = "refused by ONNX's rules, which onnxruntime does not keep", True
    if outcome == LENIENT and not _takes_seed(name, arrays):
        outcome, good = "onnxruntime lacks it", True
    return Score(
        number, name, change, outcome, good, _short(theirs), _short(ours), round(ours.seconds, 2)
    )


def scores(seed: int, count: int) -> Iterator[Score]:
    """Tries the first `count` mutants of a seed."""
    return (score(seed, number) for number in range(count))


def compared(theirs: Verdict, ours: Verdict, special: bool = False) -> tuple[str, bool]:
    """What both verdicts come to, and whether that is as promised; the file may hold a NaN or an
    infinity.
    """
    if ours.state in ("crashed", "late"):
        return f"{ours.state}: {ours.kind}", False
    said = _misprinted(ours)
    if said:
        return said, False
    if ours.state in ("refused", "failed"):
        return _refusal(theirs, ours)
    if theirs.state == "ran" and ours.state == "ran":
        same = differing(theirs.results, ours.results, special)
        return ("differs: " + same, False) if same else ("agrees", True)
    if theirs.state in ("crashed", "late"):
        return f"onnxruntime {theirs.state}", True
    if any(text in theirs.text for text in (*LACKING, *WIDER)):
        return "onnxruntime lacks it", True
    if theirs.state == "failed":
        return "computed what onnxruntime refuses in a call", False
    if theirs.state == "refused":
        return LENIENT, False
    return "both accept", True


def _refusal(theirs: Verdict, ours: Verdict) -> tuple[str, bool]:
    lacking = ours.kind in ("UnsupportedError", "BudgetError")
    if theirs.state in ("ran", "taken") and not lacking:
        return STRICTER, any(text in ours.text for text in KEPT)
    return ("unsupported" if lacking else "refused"), True


def _misprinted(ours: Verdict) -> str:
    """What is wrong with how an error was shown; nothing if all is right."""
    longest = max(map(len, ours.text.split("; ")), default=0)
    if ours.state in ("refused", "failed") and longest > LONGEST_ITEM:
        return "an item of an error is too long"
    if not ours.shown:
        return ""
    head, _, said = ours.shown.partition("\n")
    if head != "1 " or said.count("\n") != 1 or not said.startswith("weft: error: "):
        return "the command does not fail with one line"
    return "" if said[:-1].isprintable() else "the command prints control characters"


def differing(theirs: object, ours: object, special: bool = False) -> str:
    """Where results differ; nothing if they agree. Of a file that holds a NaN or an infinity,
    results that are one in both, or a NaN in weft, do not count: ONNX does not say what the least
    of such numbers is, nor in which order a mean adds them.
    """
    wanted, got = _flat(theirs), _flat(ours)
    if len(wanted) != len(got):
        return f"{len(wanted)} and {len(got)} results"
    for want, have in zip(wanted, got, strict=True):
        if want.dtype.kind in "OUS":
            if want.astype(str).tolist() != have.astype(str).tolist():
                return "strings"
            continue
        if want.shape != have.shape or want.dtype.itemsize != have.dtype.itemsize:
            return f"{want.dtype}{want.shape} and {have.dtype}{have.shape}"
        if want.dtype.kind not in "fc" and not np.array_equal(want, have):
            return f"integers of {want.dtype}"
        if want.dtype.kind in "fc" and not _near(want, have, special):
            return f"numbers of {want.dtype}"
    return ""


def _takes_seed(name: str, arrays: dict[str, np.ndarray]) -> bool:
    """Whether onnxruntime takes the model that a mutant was made of."""
    (model,) = (each.model for each in seeds() if each.name == name)
    return judged(onnxruntime_says, model.SerializeToString(), arrays).state != "refused"


def _near(want: np.ndarray, have: np.ndarray, special: bool) -> bool:
    finite = want[np.isfinite(want)]
    scale = float(np.max(np.abs(finite.astype(np.float64)), initial=0.0))
    tolerance = TOLERANCE.get(want.dtype.itemsize, 1e-6)
    with np.errstate(all="ignore"):
        want, have = want.astype(np.float64), have.astype(np.float64)
        both = ~np.isfinite(want) & ~np.isfinite(have)
        want = np.where((np.isnan(have) | both) & special, have, want)
    return bool(np.allclose(want, have, rtol=tolerance, atol=tolerance * scale, equal_nan=True))


def _flat(results: object) -> list[np.ndarray]:
    """Arrays, the elements of sequences in their place."""
    if isinstance(results, (list, tuple)):
        return [array for each in results for array in _flat(each)]
    return [] if results is None else [np.asarray(results)]


def _short(verdict: Verdict) -> str:
    tail = verdict.text.strip().splitlines()[-1] if verdict.text.strip() else ""
    return " ".join(part for part in (verdict.state, verdict.kind, tail[:400]) if part)
