"""An extension of griffe: docstrings, which are plain text with code in backticks, as Markdown; and
fields of dataclasses that have their documentation in their metadata.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from griffe import Attribute, Docstring, Extension, Module, Object

from tests.reference.docstrings import markdown_of

DOCUMENTED = re.compile(r"^(option|part)\(|^field\(.*'help':", re.DOTALL)
"""Values of fields whose documentation is in their metadata."""


class DocstringMarkdown(Extension):
    """Rewrites the docstrings of everything that is loaded."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        self.on_object(obj=pkg)  # the one object that griffe does not hand to it

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if isinstance(obj, Attribute) and DOCUMENTED.search(str(obj.value)):
            obj.docstring = Docstring(help_of(obj), parent=obj)
        if obj.docstring is not None:
            obj.docstring.value = markdown_of(obj.docstring.value)


def help_of(field: Attribute) -> str:
    """What the metadata of a dataclass's field have as its help."""
    assert field.parent is not None, "a field stands in a class"
    record = getattr(import_module(field.module.path), field.parent.name)
    return record.__dataclass_fields__[field.name].metadata["help"]
