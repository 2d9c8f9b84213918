"""The survey of a program: what changes its hash, and what has none."""

import os
import random
import time
from collections import OrderedDict, namedtuple
from functools import partial

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import nn
from weft.tracing.survey.survey import survey_of

WEIGHT = np.arange(6, dtype=np.float32).reshape(2, 3)
SCALE = 2.0
TABLE = {"bias": np.ones(3, np.float32), "steps": [1, 2]}
ORDERED = OrderedDict(a=1)
Pair = namedtuple("Pair", "first second")
PAIR = Pair(1, WEIGHT)


class Numbers(list):
    """A list that the walk does not know."""


NUMBERS = Numbers([1])


class Settings:
    """An object of the program's own class."""

    factor = 3

    def __init__(self, scale):
        self.scale = scale

    def apply(self, x):
        return x * self.scale * self.factor


SETTINGS = Settings(2.0)


def helper(x):
    return wnp.tanh(x) * SCALE


def plain(x):
    return helper(x @ WEIGHT) + TABLE["bias"] * TABLE["steps"][0]


def with_object(x):
    return SETTINGS.apply(x)


def with_tuple(x):
    return x @ PAIR.second * PAIR.first


def digest(function, *, contents=True):
    survey = survey_of({"function": function}, contents=contents)
    return None if survey is None else survey.digest()


def enclosing(scale):
    return lambda x: x * scale


def test_equal_programs_have_one_hash():
    assert digest(plain) == digest(plain) is not None
    assert digest(enclosing(2.0)) == digest(enclosing(2.0))
    assert digest(partial(plain)) == digest(partial(plain)) != digest(plain)


@pytest.mark.parametrize(
    ("function", "change"),
    [
        (plain, lambda patch: patch.setitem(plain.__globals__, "SCALE", 3.0)),
        (plain, lambda patch: patch.setitem(plain.__globals__, "helper", enclosing(1.0))),
        (plain, lambda patch: patch.setitem(TABLE, "steps", [1, 3])),
        (plain, lambda patch: patch.setitem(TABLE, "bias", np.zeros(3, np.float32))),
        (with_object, lambda patch: patch.setattr(SETTINGS, "scale", 4.0)),
        (with_object, lambda patch: patch.setattr(Settings, "factor", 4)),
        (with_object, lambda patch: patch.setattr(Settings, "apply", lambda self, x: x)),
        (with_tuple, lambda patch: patch.setitem(with_tuple.__globals__, "PAIR", Pair(2, WEIGHT))),
    ],
)
def test_another_value_anywhere_is_another_hash(function, change, monkeypatch):
    before = digest(function)
    change(monkeypatch)
    assert digest(function) not in (before, None)


def test_elements_count_where_they_are_part_of_the_code(monkeypatch):
    everything, types = digest(plain), digest(plain, contents=False)
    monkeypatch.setitem(plain.__globals__, "WEIGHT", WEIGHT + 1)
    assert digest(plain) != everything
    assert digest(plain, contents=False) == types
    monkeypatch.setitem(plain.__globals__, "WEIGHT", WEIGHT.astype(np.float64))
    assert digest(plain, contents=False) != types


def test_elements_of_large_arrays_have_no_hash(monkeypatch):
    monkeypatch.setattr("weft.tracing.survey.survey.MOST_BYTES", WEIGHT.nbytes)
    assert digest(plain) is None
    assert digest(plain, contents=False) is not None


def test_code_on_another_line_is_another_hash():
    assert digest(lambda x: x + 1) != digest(
        lambda x: x + 1  # whose errors name another line
    )


def changes_globals(x):
    global SCALE
    SCALE = x
    return x


def imports(x):
    import math

    return x * math.pi


UNKNOWN = {
    "random": lambda x: x * random.random(),
    "numpy's random": lambda x: x * np.random.rand(3),
    "numpy's random by name": lambda x: x * getattr(np.random, "rand")(3),  # noqa: B009
    "a generator": partial(lambda draw, x: x * draw.normal(), np.random.default_rng(0)),
    "a clock": lambda x: x * time.time(),
    "the environment": lambda x: x * len(os.environ),
    "a file": lambda x: x * len(open("/proc/self/stat").read()),  # noqa: SIM115
    "print": lambda x: print(x) or x,
    "weft's print": lambda x: weft.print("traced") or x,
    "an identity": lambda x: x * id(x),
    "layers that are made": lambda x: nn.Dense(3, 3)(x),
    "a function of JAX": partial(lambda f, x: f(x), object.__new__(weft.JaxFunction)),
    "ranks": lambda x: x * weft.rank(),
    "a model in a file": lambda x: weft.load("model.so")(x),
    "an unknown list": lambda x: x * NUMBERS[0],
    "an unknown dict": lambda x: x * ORDERED["a"],
    "an iterator": partial(lambda numbers, x: x * next(numbers), iter([1, 2])),
    "a name that is not there": lambda x: x * NOWHERE,  # noqa: F821
    "a change of globals": changes_globals,
    "an import": imports,
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_cannot_be_told_has_no_hash(what):
    assert digest(UNKNOWN[what]) is None


def test_functions_of_weft_numpy_have_hashes():
    functions = [
        lambda x: wnp.stack([x, x]),
        lambda x: wnp.linalg.norm(x),
        lambda x: wnp.fft.ifft(wnp.fft.fft(x) * 1j).real,
        lambda x: wnp.sum(x),
    ]
    hashes = {digest(each) for each in functions}
    assert len(hashes) == len(functions)
    assert None not in hashes


def test_complex_numbers_are_their_parts():
    def of(z):
        return lambda x: x * z

    z = np.array([1j, 2.0])
    for wrap in (np.asarray, weft.Tensor):
        assert digest(of(wrap(z))) not in (digest(of(wrap(z.conj()))), None)
        types = [digest(of(wrap(each)), contents=False) for each in (z, z.conj(), z.real)]
        assert types[0] == types[1] != types[2]


def test_layers_are_what_they_hold():
    first, second = (nn.Sequential(nn.Dense(3, 3), nn.ReLU()) for _ in range(2))
    assert digest(lambda x: first(x)) is not None

    def of(model):
        return lambda x: model(x)

    assert digest(of(first)) == digest(of(first)) != digest(of(second))
    assert digest(of(first), contents=False) == digest(of(second), contents=False)
    second.eval()
    assert digest(of(first), contents=False) != digest(of(second), contents=False)
