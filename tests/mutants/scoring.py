"""Mutants by number and seed, what became of them, and which of that is a fault of weft's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import ml_dtypes
import numpy as np

from tests.mutants.corpus import Seed, other_seeds, seeds, with_known
from tests.mutants.judges import Verdict, judged, onnx_says, onnxruntime_says, weft_says
from tests.mutants.mutations import mutant

LONGEST_ITEM = 300
TOLERANCE = {2: 1e-2, 4: 1e-3, 8: 1e-6, 16: 1e-6}
"""Of results by the bytes of an element, relative to the largest."""

LACKING = (
    "NOT_IMPLEMENTED",  # no kernel for the version or the types of an operator
    "is not a registered function/op",  # no operator of that name, of which ONNX may have one
    "only *guarantees* support",  # opsets that ONNX has and this release does not
    "Unsupported model IR version",  # the same of IR versions
    "can't be converted to MLDataType",  # NumPy's types of few bits, as arguments
    "No corresponding Numpy type",  # and as results
    "Batchwise recurrent operations",  # `layout` of 1, which ONNX has
    "alpha_ > 0.0f was false",  # numbers of LRN, of which ONNX says nothing
    "beta_ > 0.0f was false",
    "size_ % 2 == 1 was false",
    "num_indices = 0",  # no elements of ArrayFeatureExtractor
    "quantize_linear_matmul.cc",  # scales and zero points of N dims: the kernel takes vectors alone
    "matmul_integer.cc",  # the same
    'GetAttr("hidden_size"',  # of RNN, LSTM and GRU, which ONNX has as optional: weights tell it
    "Non per-tensor quantization is not supported",  # of ConvInteger, which ONNX has
    "in the Resize operator",  # kernels of one or two axes alone, the last ones
    "Failed to construct locale",  # the machine has no locale of that name
    "min_ <= max_ was false",  # ONNX says of Clip: then all elements are `max`
    "inconsistent q_sequence_length",  # ONNX says of Attention: masks are broadcast,
    "inconsistent total_sequence_length",  # and shorter ones are padded
    "Unsupported type proto value case:0",  # a value without a type, which its node gives
    "Output channels M (oC) must be positive",  # no filters, of which the result has no elements
    "Graph attribute inferencing failed",  # dims declared in bodies, which may be stale
)
"""How onnxruntime says that it does without something that ONNX has, or that weft takes on purpose.
Then ONNX's own checker and evaluator judge instead of it.
"""

KEPT = {
    "requires an axis from": "ONNX: accepted range is [-r, r-1]",
    "requires a reduction out of": "ONNX lists the words that an operator knows",
    "requires the type that its node gives": "contradictory declarations are always refused",
    "requires a condition of at most": "ONNX's evaluator fails, onnxruntime drops what is behind",
    "requires attributes of": "ONNX: an operator has the attributes of its version",
    "requires one index for each sequence": "ONNX: as many indices as sequences of the pool",
    "requires the axes 0 and 1": "ONNX: the axes of ReverseSequence are one of 0 and 1",
    "requires a roi of": "ONNX: a start and an end for each axis",
    "requires dims [": "ONNX gives the dims of operands",
    "run requires sizes": "sizes of two names are taken for equal where they broadcast",
}
"""Rules of ONNX's prose that weft keeps and neither onnxruntime nor ONNX's checker always does."""

UNCHECKED = {
    "requires a gradient that is broadcast": "ONNX infers that new parameters have the old dims",
    "requires weights of hidden_size": "the evaluator takes the weights' size",
    "requires coordinate_transformation_mode out of": "the evaluator takes others for the default",
    "requires a mode of": "of Momentum; the evaluator takes others for the default",
    "requires a vector of scales": "of rank 0, 1, or that of `x` where there are blocks",
    "requires operands whose dims are equal or 1": "`axis` of versions 1 and 6 of Add, Mul, ...",
}
"""Rules of ONNX that its evaluator does not keep."""

STRICTER = "refused what onnxruntime accepts"
NARROWER = "refused what ONNX accepts"
LENIENT = "accepted what onnxruntime refuses"
COMPUTED = "computed what onnxruntime refuses in a call"
DIFFERS = "differs"
DISPUTED = (STRICTER, NARROWER, LENIENT, COMPUTED)
"""Outcomes of which ONNX's own judges say whether weft is at fault."""

WIDER = "accepted what ONNX's rules refuse"
ELSEWHERE = "agrees with ONNX's evaluator, which onnxruntime does not"
WITHOUT = "as ONNX has it, which onnxruntime lacks"
UNSAID = "floats outside of the integers' range, of which ONNX says nothing"
CONVERTING = (b"Cast", b"Pow")
"""Operators that convert floats to integers."""

CLAMPED = "indices outside are clamped, and refused where they are checked"


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
    onnx: str
    seconds: float

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


def mutant_of(
    seed: int, number: int, models: Sequence[Seed] | None = None
) -> tuple[str, str, bytes, dict[str, np.ndarray]]:
    """The model's name, the change, the file and the arrays of a mutant of one of the models."""
    digest = hashlib.sha256(f"{seed} {number}".encode()).digest()
    chance = np.random.default_rng(int.from_bytes(digest[:8], "little"))
    models = seeds() if models is None else models
    chosen = with_known(models[int(chance.integers(len(models)))], chance)
    change, data = mutant(chosen.model, chance)
    return chosen.name, change, data, dict(chosen.inputs)


def score(seed: int, number: int) -> Score:
    """Tries one mutant."""
    return score_file(number, *mutant_of(seed, number))


def score_file(
    number: int, name: str, change: str, data: bytes, arrays: Mapping[str, np.ndarray]
) -> Score:
    """Tries a file that was made of the model of that name by a change."""
    theirs = judged(onnxruntime_says, data, arrays)
    ours = judged(weft_says, data, arrays)
    outcome, good = compared(theirs, ours)
    onnx = Verdict("not asked")
    if outcome in DISPUTED or outcome.startswith(DIFFERS):
        onnx = judged(onnx_says, data, arrays)
        lacks = _lacks(theirs) or not _takes_seed(name, arrays)
        outcome, good = _arbitrated(outcome, theirs, ours, onnx, lacks)
        if outcome.startswith(DIFFERS) and any(each in data for each in CONVERTING):
            outcome, good = (UNSAID, True) if _saturates(theirs, ours) else (outcome, good)
        if not good and ours.state == "ran" and theirs.state == "failed":
            strict = judged(weft_says, data, arrays, True)
            outcome, good = (CLAMPED, True) if _is_of_indices(strict) else (outcome, good)
    said = map(_short, (theirs, ours, onnx))
    return Score(number, name, change, outcome, good, *said, seconds=round(ours.seconds, 2))


def scores(seed: int, count: int) -> Iterator[Score]:
    """Tries the first `count` mutants of a seed."""
    return (score(seed, number) for number in range(count))


def compared(theirs: Verdict, ours: Verdict) -> tuple[str, bool]:
    """What both verdicts come to, and whether that is as promised."""
    if ours.state in ("crashed", "late"):
        return f"{ours.state}: {ours.kind}", False
    said = _misprinted(ours)
    if said:
        return said, False
    if ours.state in ("refused", "failed"):
        return _refusal(theirs, ours)
    if theirs.state == "ran" and ours.state == "ran":
        same = differing(theirs.results, ours.results)
        return (f"{DIFFERS}: {same}", False) if same else ("agrees", True)
    if theirs.state in ("refused", "failed", "crashed", "late"):
        return (LENIENT if theirs.state == "refused" else COMPUTED), False
    return "both accept", True


def _refusal(theirs: Verdict, ours: Verdict) -> tuple[str, bool]:
    if ours.kind in ("UnsupportedError", "BudgetError"):
        return "unsupported", True
    if theirs.state in ("ran", "taken"):
        return STRICTER, False
    return (NARROWER, False) if _lacks(theirs) else ("refused", True)


def _lacks(theirs: Verdict) -> bool:
    """Whether onnxruntime says nothing of the file, for it lacks what that needs."""
    return theirs.state in ("crashed", "late") or any(each in theirs.text for each in LACKING)


def _arbitrated(
    outcome: str, theirs: Verdict, ours: Verdict, onnx: Verdict, lacks: bool
) -> tuple[str, bool]:
    """The outcome and whether it is as promised, where weft and onnxruntime differ: by ONNX's own
    checker and evaluator, where onnxruntime `lacks` what the file needs.
    """
    if ours.state in ("refused", "failed"):
        return _stricter(outcome, ours, onnx)
    if theirs.state == "ran" or outcome == COMPUTED:
        same = onnx.state == "ran" and not differing(onnx.results, ours.results)
        if same:
            return ELSEWHERE, True
    if theirs.state == "ran" or not lacks:
        return outcome, False
    if onnx.state == "refused":
        return WIDER, False
    both = onnx.state == "ran" and ours.state == "ran"
    different = differing(onnx.results, ours.results) if both else ""
    return (f"{DIFFERS} from ONNX: {different}", False) if different else (WITHOUT, True)


def _stricter(outcome: str, ours: Verdict, onnx: Verdict) -> tuple[str, bool]:
    if onnx.state == "refused" or "could not be broadcast together" in onnx.text:
        return "refused by ONNX's rules, too", True
    if outcome == NARROWER and onnx.state != "ran":
        return "refused", True
    kept = (*KEPT, *UNCHECKED) if outcome == NARROWER else KEPT
    return outcome, any(rule in ours.text for rule in kept)


def _is_of_indices(strict: Verdict) -> bool:
    """Whether weft refuses what it computed, once it checks indices."""
    return strict.state == "failed" and "index" in strict.text


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


def differing(theirs: object, ours: object) -> str:
    """Where results differ; nothing if they agree."""
    wanted, got = _flat(theirs), _flat(ours)
    if len(wanted) != len(got):
        return f"{len(wanted)} and {len(got)} results"
    for want, have in zip(wanted, got, strict=True):
        if want.dtype.kind in "OUS":
            if want.astype(str).tolist() != have.astype(str).tolist():
                return "strings"
            continue
        if want.shape != have.shape or want.dtype != have.dtype:
            return f"{want.dtype}{want.shape} and {have.dtype}{have.shape}"
        if not _near(want, have):
            return f"numbers of {want.dtype}"
    return ""


def _takes_seed(name: str, arrays: Mapping[str, np.ndarray]) -> bool:
    """Whether onnxruntime takes the model that a mutant was made of."""
    every = (*seeds(), *other_seeds())
    (model,) = (each.model for each in every if each.name == name)
    return judged(onnxruntime_says, model.SerializeToString(), arrays).state != "refused"


def _saturates(theirs: Verdict, ours: Verdict) -> bool:
    """Whether signed integers differ alone where one is the least and the other the greatest: what
    processors make of floats that are out of range, and what weft does.
    """
    wanted, got = _flat(theirs.results), _flat(ours.results)
    if len(wanted) != len(got):
        return False
    for want, have in zip(wanted, got, strict=True):
        if want.dtype.kind != "i" or want.shape != have.shape or want.dtype != have.dtype:
            return False
        limits = np.iinfo(want.dtype)
        apart = want != have
        if np.any(want[apart] != limits.min) or np.any(have[apart] != limits.max):
            return False
    return True


def _near(want: np.ndarray, have: np.ndarray) -> bool:
    """Whether numbers are equal, or near where they are floats: bfloat16 to a unit of the last
    place of the largest, those of 8 bits and less to one of their own.
    """
    if want.dtype.kind in "iub":
        return np.array_equal(want, have)
    wide = want.dtype.itemsize > 1
    known = want.dtype.kind in "fc" and want.dtype.itemsize in TOLERANCE
    tolerance = TOLERANCE[want.dtype.itemsize] if known else _epsilon(want.dtype)
    kind = np.complex128 if want.dtype.kind == "c" else np.float64
    want, have = want.astype(kind), have.astype(kind)
    scale = float(np.max(np.abs(want[np.isfinite(want)]), initial=0.0)) if wide else 0.0
    return bool(np.allclose(want, have, rtol=tolerance, atol=tolerance * scale, equal_nan=True))


def _epsilon(dtype: np.dtype) -> float:
    """The distance of 1 and the next number; 0 for integers of few bits."""
    try:
        return float(ml_dtypes.finfo(dtype).eps)
    except ValueError:
        return 0.0


def _flat(results: object) -> list[np.ndarray]:
    """Arrays, the elements of sequences in their place."""
    if isinstance(results, (list, tuple)):
        return [array for each in results for array in _flat(each)]
    return [] if results is None else [np.asarray(results)]


def _short(verdict: Verdict) -> str:
    tail = verdict.text.strip().splitlines()[-1] if verdict.text.strip() else ""
    return " ".join(part for part in (verdict.state, verdict.kind, tail[:400]) if part)
