"""A sample of the sweep of weft.numpy's functions, and that no function is without an example."""

import random

import pytest

from tests.weft.array_api.examples import examples
from tests.weft.array_api.sweep import cases, outcome
from weft.array_api.table import FOURIER, FUNCTIONS, LINALG

HEAVY = {"eig", "eigvals", "roots", "poly", "svd", "lstsq", "polyfit", "pinv", "cond", "norm"}
SAMPLE = {
    mode: random.Random(0).sample([case for case in cases([mode]) if case[0] not in HEAVY], count)
    for mode, count in (
        ("trace", 90),
        ("vmap", 40),
        ("source", 30),
        ("grad", 50),
        ("eager", 2),
        ("jit", 2),
    )
}


def test_each_function_has_an_example():
    have = {name for name, _ in examples()}
    for table in (FUNCTIONS, LINALG, FOURIER):
        names: dict[object, set[str]] = {}
        for name, function in table.items():
            names.setdefault(getattr(function, "__wrapped__", function), set()).add(name)
        assert [sorted(each) for each in names.values() if not each & have] == []


@pytest.mark.parametrize("mode", SAMPLE)
def test_functions_give_what_numpys_do(mode: str):
    wrong = []
    for case in SAMPLE[mode]:
        found = outcome(*case)
        if found is not None and found[0] in ("differs", "error"):
            wrong.append((*case, *found))
    assert wrong == []
