"""Docstrings, which are plain text with code in backticks, as Markdown."""

import re
from textwrap import dedent

PARAGRAPHS = re.compile(r"\n\s*\n")
LAID_OUT = re.compile(r"^ |\S  +\S|^->", re.MULTILINE)
"""What prose never has and what loops, texts of the IR and tables do: columns."""


def markdown_of(docstring: str) -> str:
    """Paragraphs that are laid out in columns become blocks of code, brackets no links."""
    return "\n\n".join(map(_paragraph, PARAGRAPHS.split(docstring)))


def _paragraph(text: str) -> str:
    if LAID_OUT.search(text):
        return f"```text\n{dedent(text)}\n```"
    pieces = text.split("`")  # every second one is code
    pieces[::2] = [re.sub(r"([\[<*_])", r"\\\1", each) for each in pieces[::2]]
    return "`".join(pieces)
