"""The sweep over eager operators has every ufunc, and every function of linalg and of layers; what
else `weft.numpy` has is made of these.
"""

import re
from types import FunctionType

import pytest

import weft.numpy as wnp
from benchmarks.eager import GROUPS, measure, names_of
from weft import nn
from weft.array_api.ufuncs import Ufunc


def functions(module: object) -> set[str]:
    """Names of the public functions that a module has of its own."""
    return {
        name
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) and not name.startswith("_")
    }


def ufuncs() -> list[list[str]]:
    """The names of each ufunc."""
    names: dict[int, list[str]] = {}
    for name in wnp.__all__:
        if isinstance(getattr(wnp, name), Ufunc):
            names.setdefault(id(getattr(wnp, name)), []).append(name)
    return [*names.values()]


MODULES = {"np": wnp, "np.linalg": wnp.linalg, "nn": nn}
EACH = {
    "np": ufuncs(),
    "np.linalg": [[name] for name in functions(wnp.linalg)],
    "nn": [[name] for name in functions(nn) & {*nn.__all__} - {"seed", "save_tree", "load_tree"}],
}


@pytest.mark.parametrize("letters", EACH)
def test_no_function_is_left_out(letters: str) -> None:
    expressions = " ".join(each for group in GROUPS.values() for each in group)
    missing = [
        names
        for names in EACH[letters]
        if not any(f"{letters}.{name}(" in expressions for name in names)
    ]
    assert missing == []
    assert len(EACH[letters]) > 10


def test_no_expression_is_of_a_function_that_is_gone() -> None:
    expressions = " ".join(each for group in GROUPS.values() for each in group)
    for letters, name in re.findall(r"\b(np\.linalg|np|nn)\.(\w+)\(", expressions):
        assert hasattr(MODULES[letters], name), name


def test_an_operator_that_a_library_lacks_has_no_number() -> None:
    names = {library: names_of(library, "float32") for library in ("weft", "numpy")}
    found = measure(["nn.relu(x)"], names, rounds=1)
    assert {*found["nn.relu(x)"]} == {"weft"}
