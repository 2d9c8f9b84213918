"""Pages about small models, made once, and one browser."""

from collections.abc import Callable, Generator
from pathlib import Path

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from tests.models.convolutional import build_lenet, build_resnet50
from tests.models.transformers import build_bert
from tests.support.browser import CHROMIUM, Browser
from weft.view import Page, Run, page


def repeated(m: weft.Tensor, x: weft.Tensor, steps: weft.Tensor) -> weft.Tensor:
    """A loop with branches."""
    for _ in range(steps):
        y = m @ x
        if (y * y).sum() > 1.0:  # noqa: SIM108  a branch is what is to be shown
            x = y / wnp.sqrt((y * y).sum())
        else:
            x = wnp.exp(y) + x
    return x


WATCHED = ("/conv1/Tanh_output_0", "/fc1/Tanh_output_0")


def conv_page() -> Page:
    return page(build_lenet(), run=Run(watch=WATCHED, threads=2))


def transformer_page() -> Page:
    model = build_bert(layers=1, hidden=16, heads=1, vocabulary=10, batch=1, sequence=4)
    return page(model, run=Run(threads=2))


def loops_page() -> Page:
    m, x = np.eye(12, dtype=np.float32), np.ones(12, np.float32)
    return weft.jit(repeated).view(m, x, np.int64(3))


def resnet50_page() -> Page:
    return page(build_resnet50(), run=Run(threads=2))


def bert_page() -> Page:
    return page(build_bert(batch=1, sequence=128), run=Run(threads=2))


MAKERS = {"conv": conv_page, "transformer": transformer_page, "loops": loops_page}
LARGE = {"resnet50": resnet50_page, "bert": bert_page}
"""Opened with `WEFT_STRESS=1` alone: they take a minute to make."""


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Page, Path]]:
    folder, made = tmp_path_factory.mktemp("pages"), dict[str, tuple[Page, Path]]()

    def get(name: str) -> tuple[Page, Path]:
        if name not in made:
            built = (MAKERS | LARGE)[name]()
            made[name] = built, built.save(folder / f"{name}.html")
        return made[name]

    return get


@pytest.fixture(scope="session")
def browser() -> Generator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    with Browser() as browser:
        browser.resize(1280, 800)
        yield browser
