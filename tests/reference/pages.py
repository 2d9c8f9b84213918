"""The reference of the public names: for each its signature, its docstring and an example.

What is public is what a module's `__all__` lists. Examples are in `tests/reference/*.txt`, a file
for a module, as doctests under headings; functions of NumPy's table have theirs in the table
itself, which `tests/weft/array_api/test_table.py` evaluates in every mode.
"""

from __future__ import annotations

import ast
import inspect
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Final

import numpy as np

import weft
from tests.reference.docstrings import markdown_of
from tests.weft.array_api.examples import GIVEN, evaluated, examples
from weft.array.methods import METHODS
from weft.array.operators import ArrayOperators

ROOT: Final = Path(__file__).parents[2]
HEADING: Final = re.compile(r"^## (.*)$", re.MULTILINE)
SAMPLE_LINE: Final = re.compile(r"^ *>>> .*\n?", re.MULTILINE)
FOREIGN: Final = ("weft.torch", "weft.jax_plugin")
"""Modules that import what this environment may be without; they are read from their source."""

MODULES: Final = (
    "weft", "weft.nn", "weft.optim", "weft.optim.schedules", "weft.random", "weft.numpy",
    "weft.numpy.linalg", "weft.numpy.fft", *FOREIGN,
)  # fmt: skip

OF_ARRAYS: Final = frozenset((*dir(np.ndarray), *METHODS, "numpy"))
"""What a tensor has for users; what else it has is for weft."""


PLAIN: Final = (int, float, str, np.bool_, NoneType, UnionType)
"""Types of constants, which are shown themselves."""


@dataclass(frozen=True)
class Entry:
    """A public name: `example` is a doctest, empty where there is none."""

    name: str
    signature: str
    docstring: str
    members: tuple[str, ...]
    example: str


def texts_of(module: str) -> dict[str, str]:
    """The examples written for a module, by name; that of no name begins all of them."""
    path = Path(__file__).parent / f"{module}.txt"
    if not path.exists():
        return {"": ""}
    first, *rest = HEADING.split(path.read_text())
    return {"": first.strip(), **{rest[i]: rest[i + 1].strip() for i in range(0, len(rest), 2)}}


def opening_of(module: str) -> str:
    """The lines that every example of a module begins with."""
    return texts_of("weft.numpy" if module.startswith("weft.numpy") else module)[""]


def entries_of(module: str) -> list[Entry]:
    """The public names of a module, in the order of the alphabet."""
    texts = texts_of(module)
    if module in FOREIGN:
        return [_from_source(module, name, texts.get(name, "")) for name in sorted(_listed(module))]
    owner = _owner(module)
    return [
        _entry(module, name, getattr(owner, name), texts.get(name) or _of_table(module, name))
        for name in sorted(_public(owner))
    ]


def _owner(module: str) -> Any:
    found: Any = weft
    for name in module.split(".")[1:]:
        found = getattr(found, name)
    return found


def _public(owner: Any) -> list[str]:
    if isinstance(owner, SimpleNamespace):
        return [*vars(owner)]
    if hasattr(owner, "__all__"):
        return [*owner.__all__]
    functions = inspect.getmembers(owner, inspect.isfunction)
    return [name for name, each in functions if each.__module__ == owner.__name__]


def _entry(module: str, name: str, value: Any, example: str) -> Entry:
    docstring = SAMPLE_LINE.sub("", _described(value)).strip()
    members = tuple(_members(value)) if inspect.isclass(value) else ()
    return Entry(name, _signature(f"{module}.{name}", value), docstring, members, example)


def _described(value: Any) -> str:
    """A docstring; of a constant what it is, and of a namespace what is in it."""
    if isinstance(value, SimpleNamespace):
        return ", ".join(f"`{each}`" for each in sorted(vars(value)))
    if isinstance(value, PLAIN):
        return f"`{value!r}`"
    return inspect.getdoc(value) or ""


class _Text(str):
    """What a signature shows as it is."""

    __slots__ = ()
    __repr__ = str.__str__


def _signature(name: str, value: Any, skipped: int = 0) -> str:
    """How a name is called, without types that say nothing."""
    if not callable(value):
        return name
    if fields := getattr(value, "__struct_fields__", None):
        return f"{name}({', '.join(fields)})"
    try:
        found = inspect.signature(value)
    except ValueError:  # NumPy's own in C, and exceptions
        return name
    parameters = [_plain(each) for each in list(found.parameters.values())[skipped:]]
    returned = _annotation(found.return_annotation)
    return name + str(found.replace(parameters=parameters, return_annotation=returned))


def _plain(parameter: inspect.Parameter) -> inspect.Parameter:
    default = parameter.default
    if inspect.isfunction(default) or inspect.isclass(default) and default is not parameter.empty:
        default = _Text(default.__name__)
    elif " at 0x" in repr(default):
        default = _Text("...")
    return parameter.replace(annotation=_annotation(parameter.annotation), default=default)


def _annotation(annotation: Any) -> Any:
    if annotation in (Any, "Any"):
        return inspect.Parameter.empty
    return _Text(annotation) if isinstance(annotation, str) else annotation


def _members(value: type) -> Iterator[str]:
    """The methods and properties of a class, but those of a base that has an entry itself."""
    bases = [each for each in value.__mro__ if each.__module__.startswith("weft")]
    bases = [each for each in bases if each is value or each not in _documented()]
    found = {name: each for base in reversed(bases) for name, each in vars(base).items()}
    for name, each in sorted(found.items()):
        each = getattr(each, "__func__", each)
        if name.startswith("_") or not (inspect.isfunction(each) or isinstance(each, property)):
            continue
        if issubclass(value, ArrayOperators) and name not in OF_ARRAYS:
            continue
        called = _signature(name, each, skipped=1) if callable(each) else name
        first = (inspect.getdoc(each) or "").split("\n\n")[0].replace("\n", " ")
        yield f"- `{called}`{': ' if first else ''}{first}"


@cache
def _documented() -> frozenset[type]:
    public = [getattr(owner, name) for owner in (weft, weft.nn) for name in owner.__all__]
    return frozenset(each for each in public if inspect.isclass(each))


@cache
def _samples() -> Mapping[str, str]:
    return dict(examples())


def _of_table(module: str, name: str) -> str:
    """The example of a function of NumPy's table, of which each part is a line, with what it
    returns; an alias has that of its definition.
    """
    if not module.startswith("weft.numpy"):
        return ""
    value = getattr(_owner(module), name)
    if isinstance(value, SimpleNamespace):
        return ""
    own = inspect.unwrap(getattr(value, "function", value))
    called = ".".join(("np", *module.split(".")[2:], name))
    for key in (name, getattr(value, "__name__", name), getattr(own, "__name__", name)):
        if key in _samples():
            parts = _parts(_samples()[key])
            chosen = [each for each in parts if f"{called}(" in each]
            renamed = [re.sub(rf"\bnp\.(\w+\.)?{key}\(", f"{called}(", each) for each in parts]
            chosen = chosen or [each for each in renamed if f"{called}(" in each] or parts
            return "\n".join(f">>> {each}\n{_shown(each)}" for each in chosen)
    return ""


def _parts(text: str) -> list[str]:
    tree = ast.parse(text, mode="eval").body
    parts = tree.elts if isinstance(tree, ast.Tuple) else [tree]
    return [ast.get_source_segment(text, each) or "" for each in parts]


def _shown(expression: str) -> str:
    """What an expression gives, as tensors show it: by NumPy, which weft is tested against."""
    options = np.printoptions(precision=4, suppress=True)
    with options, np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return repr(_tensors(evaluated(expression, np, GIVEN)))


def _tensors(found: Any) -> Any:
    if isinstance(found, tuple | list):
        items = [_tensors(each) for each in found]
        return type(found)(*items) if hasattr(found, "_fields") else type(found)(items)
    return weft.Tensor(found) if isinstance(found, np.ndarray | np.generic) else found


def _listed(module: str) -> list[str]:
    """The public names of a module that is not imported."""
    for node in _tree(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return [each.name for each in _tree(module).body if isinstance(each, ast.FunctionDef)]


def _tree(module: str) -> ast.Module:
    path = ROOT.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text())


def _from_source(module: str, name: str, example: str) -> Entry:
    """A function as its definition in a module, or where that takes it from, has it."""
    for node in _tree(module).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            called = f"{module}.{name}({ast.unparse(node.args)})"
            return Entry(name, called, ast.get_docstring(node) or "", (), example)
        if isinstance(node, ast.ImportFrom) and name in (each.name for each in node.names):
            found = _from_source(str(node.module), name, example)
            called = found.signature.replace(f"{node.module}.", f"{module}.", 1)
            return Entry(name, called, found.docstring, (), example)
    raise AssertionError(f"{module} defines {name}")


def page_of(module: str) -> str:
    """The page of a module, in Markdown."""
    parts = [f"# {module}"]
    if opening := opening_of(module):
        parts += ["Every example begins with these lines.", _block(opening)]
    for each in entries_of(module):
        parts += [f"## {each.name}", _block(each.signature), markdown_of(each.docstring)]
        parts += ["\n".join(each.members), _block(each.example)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _block(code: str) -> str:
    return f"```python\n{code}\n```" if code else ""
