"""Derivatives of convolutions in their filters, by what each tap reads of the image."""
# pyright: basic

from __future__ import annotations

import numpy as np
import pytest

from tests.support import oracle
from tests.support.sample import Sample
from weft.dialects.graph.core.filter_slope import LONG_SUM
from weft.dialects.graph.ops.conv import ConvOp

DRAW = np.random.default_rng(0)

# Dims of the image and of the filter, strides, dilations, pads: windows that leave elements behind
# them unread, with padding there and without; sums of a sample that are long and short.
CASES = {
    "strides": ((2, 6, 9, 8), (3, 6, 3, 3), (2, 2), (1, 1), (1, 0, 1, 1)),
    "unread": ((2, 6, 11, 10), (3, 6, 3, 2), (3, 4), (1, 1), (0, 0, 0, 0)),
    "dilations": ((2, 5, 12, 11), (2, 5, 3, 2), (2, 1), (2, 3), (2, 1, 0, 1)),
    "long": ((3, 2, 50, 47), (5, 2, 3, 3), (2, 2), (1, 1), (1, 1, 1, 1)),
    "long, dilations": ((2, 3, 29, 31), (2, 3, 3, 2), (1, 1), (1, 2), (1, 0, 1, 0)),
    "one axis": ((2, 3, 1300), (2, 3, 5), (2,), (1,), (2, 1)),
    "groups": ((2, 6, 9, 8), (4, 3, 3, 3), (2, 1), (1, 1), (1, 1, 1, 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_slope_is_what_windows_read(name: str):
    dims, filters, strides, dilations, pads = CASES[name]
    group = dims[1] // filters[1]
    x, w = DRAW.normal(size=dims), DRAW.normal(size=filters)
    attributes = {"strides": strides, "dilations": dilations, "pads": pads, "group": group}
    op = oracle.operator(ConvOp, Sample([x, w, None], attributes))
    (dy,) = (DRAW.normal(size=each.shape) for each in oracle.references(op, [x, w]))
    assert ("long" in name or name == "one axis") == (np.prod(dy.shape[2:]) >= LONG_SUM)
    rank = len(strides)
    padded = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
    read = padded.reshape(len(x), group, filters[1], *padded.shape[2:])
    slopes = dy.reshape(len(x), group, -1, *dy.shape[2:])
    expected = np.empty(w.shape)
    for taps in np.ndindex(*filters[2:]):
        steps = zip(taps, dilations, dy.shape[2:], strides, strict=True)
        at = [slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in steps]
        columns = read[(..., *at)].reshape(*read.shape[:3], -1)
        found = np.einsum("ngcp,ngop->goc", columns, slopes.reshape(*slopes.shape[:3], -1))
        expected[(..., *taps)] = found.reshape(filters[:2])
    np.testing.assert_allclose(oracle.gradients(op, [x, w], [dy])[1], expected, rtol=1e-9)
