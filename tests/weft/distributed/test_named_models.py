"""A sample of `python -m tests.weft.distributed.models`, on two ranks that are threads."""
# pyright: basic

from __future__ import annotations

import pytest

import weft
from tests.weft.distributed.models import check


@pytest.mark.parametrize("name", ["decode"])
def test_networks_on_two_ranks_compute_what_one_does(name: str):
    weft.simulate(2, check, name, 3)
