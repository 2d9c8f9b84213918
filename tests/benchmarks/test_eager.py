"""The sweep over eager operators has every public function."""

import re
from types import FunctionType

import pytest

import weft.numpy as wnp
from benchmarks.eager import GROUPS, measure, names_of
from weft import nn


def functions(module: object) -> set[str]:
    """Names of the public functions that a module has of its own."""
    return {
        name
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) and not name.startswith("_")
    }


MODULES = {"np": (wnp, {"leader"}), "np.linalg": (wnp.linalg, set[str]()), "nn": (nn, {"seed"})}


@pytest.mark.parametrize("letters", MODULES)
def test_no_function_is_left_out(letters: str) -> None:
    expressions = " ".join(each for group in GROUPS.values() for each in group)
    module, inner = MODULES[letters]
    names = functions(module) & {*module.__all__} - inner
    assert {name for name in names if f"{letters}.{name}(" not in expressions} == set()


def test_no_expression_is_of_a_function_that_is_gone() -> None:
    expressions = " ".join(each for group in GROUPS.values() for each in group)
    for letters, name in re.findall(r"\b(np\.linalg|np|nn)\.(\w+)\(", expressions):
        assert hasattr(MODULES[letters][0], name), name


def test_an_operator_that_a_library_lacks_has_no_number() -> None:
    names = {library: names_of(library, "float32") for library in ("weft", "numpy")}
    found = measure(["nn.relu(x)"], names, rounds=1)
    assert {*found["nn.relu(x)"]} == {"weft"}
