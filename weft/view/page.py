"""What is shown -> one HTML file: data as JSON, and the scripts and styles of the folder `assets`,
one after the other. A policy in the page keeps the browser from asking the network for anything.
"""

from __future__ import annotations

import base64
import hashlib
import html
import tempfile
import webbrowser
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from weft.view.records import View
from weft.view.view import data

_ASSETS: Final = Path(__file__).parent / "assets"

_SCRIPTS: Final = (
    "dom", "data", "selection", "table", "layout", "graph_items", "graph", "passes", "difference",
    "kernel", "plot", "roofline", "memory", "time", "values", "builds", "app",
)  # fmt: skip
"""In the order in which they follow each other."""

_PAGE: Final = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
script-src '{script_hash}'; style-src '{style_hash}'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript>This page draws what it shows by scripts, which are in it.</noscript>
<script type="application/json" id="data">{json}</script>
<script>{script}</script>
</body>
</html>
"""


class Page(Struct, frozen=True):
    """A page about one build or two; notebooks show it."""

    data: View

    def html(self) -> str:
        """The text of the file."""
        title = " and ".join(build.name for build in self.data.builds)
        script, style = _script(), (_ASSETS / "style.css").read_text()
        return _PAGE.format(
            title=html.escape(f"{title} - weft view"),
            script_hash=_hash(script),
            style_hash=_hash(style),
            style=style,
            script=script,
            json=as_json(self.data),
        )

    def save(self, path: str | Path) -> Path:
        """Writes the page; returns where."""
        path = Path(path)
        path.write_text(self.html(), encoding="utf-8")
        return path

    def open(self) -> Path:
        """Writes the page among temporary files, has the browser show it, and returns where."""
        with tempfile.NamedTemporaryFile("w", suffix=".html", prefix="weft-", delete=False) as file:
            path = Path(file.name)
        webbrowser.open(self.save(path).as_uri())
        return path

    def _repr_html_(self) -> str:
        text = html.escape(self.html(), quote=True)
        return f'<iframe srcdoc="{text}" style="width:100%;height:720px;border:0"></iframe>'


def page(model: Any, *others: Any, **how: Any) -> Page:
    """A page about a model, or about two builds. Takes and raises what `weft.view.data` does."""
    return Page(data(model, *others, **how))


def as_json(view: View) -> str:
    """The data as JSON that may stand in a script element: it ends none and begins none."""
    return msgspec.json.encode(view).decode().replace("<", "\\u003c")


def _script() -> str:
    """All scripts, in a scope of their own."""
    parts = "".join((_ASSETS / f"{name}.js").read_text() for name in _SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}}})();\n'


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
