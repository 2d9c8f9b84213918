"""Programs that cannot be compiled are refused at the right line, with advice."""

import inspect
import linecache

import numpy as np
import pytest

from tests.weft.source.programs import refused
from weft import Spec
from weft.dialects.errors import SourceError
from weft.source.interpret import read_function


def marked(function):
    """The marked line of a function, or of what it calls, and the parts of the mark."""
    source = refused.Model.forward if function is refused.assigns_attribute else function
    lines, first = inspect.getsourcelines(source)
    (number,) = (n for n, line in enumerate(lines) if "#:" in line)
    return first + number, [part.strip() for part in lines[number].split("#:")[1].split("|")]


@pytest.mark.parametrize("program", refused.PROGRAMS, ids=lambda program: program[0].__name__)
def test_refused(program):
    function, *arguments = program
    line, parts = marked(function)
    specs = [
        each if isinstance(each, Spec) else Spec(each.dtype.name, np.shape(each))
        for each in arguments
    ]
    with pytest.raises(SourceError) as caught:
        read_function(function, specs, {})
    text = str(caught.value)
    head, shown, marks, *advice = text.split("\n")
    assert head.startswith(f"{refused.__file__}:{line}: "), text
    assert shown.endswith(linecache.getline(refused.__file__, line).rstrip()), text
    assert "^" in marks, text
    assert ", got " in head, text
    assert parts[0] in head, text
    assert len(parts) == 1 or parts[1] in "".join(advice), text
