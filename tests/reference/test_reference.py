"""Every public name is in the reference, with an example that runs and shows what it says.

A sixteenth of the written examples, drawn by a seed, is run here; those of NumPy's table are
evaluated in `tests/weft/array_api/test_table.py`, those of PyTorch and JAX in `test_frameworks.py`.
`WHOLE_REFERENCE=1 pytest tests/reference` runs all as pages show them, in two minutes of CPU.
"""

import os
import random
import warnings

import numpy as np
import pytest

import weft
from tests.reference.doctests import globals_after, require_shown
from tests.reference.pages import FOREIGN, MODULES, entries_of, opening_of, page_of, texts_of
from tests.weft.array_api.examples import GIVEN


def written():
    """Modules, names and texts of the examples in files."""
    for module in OWN:
        for name, text in texts_of(module).items():
            if name and "import jax" not in text:
                yield module, name, text


def shown():
    """Those of all entries."""
    for module in OWN:
        for each in entries_of(module):
            if "import jax" not in each.example:
                yield module, each.name, each.example


OWN = [module for module in MODULES if module not in FOREIGN]
WRITTEN = [*written()]
WHOLE = "WHOLE_REFERENCE" in os.environ
SAMPLE = [*shown()] if WHOLE else random.Random(1).sample(WRITTEN, len(WRITTEN) // 16)
EXAMPLES = [pytest.param(*each, id=f"{each[0]}.{each[1]}") for each in SAMPLE]


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_an_example_and_every_example_a_name(module):
    entries = entries_of(module)
    assert [each.name for each in entries if ">>> " not in each.example] == []
    assert {*texts_of(module)} <= {"", *(each.name for each in entries)}
    assert [each.name for each in entries if not each.docstring] == []
    assert " at 0x" not in page_of(module)


@pytest.mark.parametrize(("module", "name", "text"), EXAMPLES)
def test_an_example_shows_what_it_says(module, name, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with np.printoptions(), warnings.catch_warnings():
        require_shown(name, text, globals_after(opening_of(module)))


def test_an_example_that_shows_something_else_is_found():
    for wrong in (">>> 1 + 1\n3", ">>> 1 + 1", ">>> 1 / 0\n0"):
        with pytest.raises(AssertionError, match="Failed example"):
            require_shown("wrong", wrong, {})


def test_the_examples_of_the_table_begin_with_the_arrays_that_they_are_evaluated_on():
    with np.printoptions():
        names = globals_after(opening_of("weft.numpy"))
    for name, array in zip("xvisn", GIVEN, strict=True):
        np.testing.assert_array_equal(names[name].numpy(), array)


def test_a_page_shows_signature_docstring_members_and_example():
    page = page_of("weft.optim")
    assert page.startswith("# weft.optim\n\nEvery example begins with these lines.\n\n```python\n")
    (adam,) = [part for part in page.split("\n## ") if part.startswith("adam\n")]
    assert "weft.optim.adam(rate: Schedule, beta1: float = 0.9, beta2: float" in adam
    assert "(Kingma and Ba)." in adam
    assert ">>> optimizer = optim.adam(0.1)\n" in adam
    assert "- `init() -> dict[str, Any]`: The state before the first step.\n" in page


def test_an_alias_has_the_example_of_its_definition():
    by_name = {each.name: each.example for each in entries_of("weft.numpy")}
    assert by_name["concat"].startswith(">>> np.concat([x, x[:1]], axis=0)\nTensor([[0.6096,")
    assert by_name["acos"] == by_name["arccos"].replace("arccos", "acos")
    assert all("np.trace(" in line for line in by_name["trace"].splitlines() if ">>>" in line)


def test_methods_of_tensors_are_listed_and_what_weft_alone_calls_is_not():
    (tensor,) = [each for each in entries_of("weft") if each.name == "Tensor"]
    names = {each.split("`")[1].split("(")[0] for each in tensor.members}
    assert {"sum", "reshape", "dtype", "shape", "T", "numpy"} <= names
    assert not {"apply", "become", "lifted"} & names
    assert all(hasattr(weft.Tensor, each) for each in names)
