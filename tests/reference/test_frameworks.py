"""The examples of PyTorch and JAX, where these are installed."""

import os
import subprocess
import sys

import pytest

from tests.reference.doctests import globals_after, require_shown
from tests.reference.pages import ROOT, opening_of, texts_of


@pytest.mark.parametrize(
    ("framework", "module"), [("torch", "weft.torch"), ("jax", "weft")], ids=["torch", "jax"]
)
def test_examples_show_what_they_say(framework, module, tmp_path, monkeypatch):
    pytest.importorskip(framework)
    monkeypatch.chdir(tmp_path)
    texts = texts_of(module)
    chosen = [name for name in texts if name and f"import {framework}" in texts[""] + texts[name]]
    assert len(chosen) > 1
    for name in chosen:
        require_shown(name, texts[name], globals_after(opening_of(module)))


def test_the_platform_of_jax_shows_what_its_example_says(tmp_path):
    pytest.importorskip("jax")
    (tmp_path / "examples.txt").write_text("\n\n".join(texts_of("weft.jax_plugin").values()) + "\n")
    command = [sys.executable, "-m", "doctest", "examples.txt"]  # it can be asked for only once
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, "")
