"""Operators that have several steps, a family in one graph, evaluated without native code, against
eager mode: the whole sweep is `python -m benchmarks.torch opinfo`.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch", minversion="2.13", reason="the front end is PyTorch's")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.nn import functional  # noqa: E402

from weft.compiler.frontend.torch.table import ATEN  # noqa: E402
from weft.dialects.graph.core.evaluate import evaluate_block  # noqa: E402
from weft.torch.decompositions import decompositions  # noqa: E402
from weft.torch.tensors import to_array  # noqa: E402
from weft.torch.walker import Walker  # noqa: E402


def evaluated(function, *inputs):
    """A function by the graph that weft makes of it, evaluated without native code."""
    fx = make_fx(function, decomposition_table=decompositions(), tracing_mode="fake")(*inputs)
    walked = Walker(fx, "operators", ATEN, {}).walk()
    main = walked.model.module.body.block.first_op
    arrays = [to_array(inputs[at].detach().contiguous()) for at, _ in walked.arguments]
    found = evaluate_block(main.body.block, arrays, weights=walked.model.weights)
    tensors = [torch.from_numpy(np.ascontiguousarray(each)) for each in found]
    return [
        tensors[each.position].permute(each.order) if each.order else tensors[each.position]
        for each in walked.outputs
    ]


def check(function, *inputs):
    """Results, and gradients in inputs that require them."""

    def whole(*given):
        results = function(*given)
        sources = [x for x in given if x.requires_grad]
        total = sum(y.sin().sum() for y in results if y.requires_grad)
        return (*results, *(torch.autograd.grad(total, sources) if sources else ()))

    wanted = whole(*inputs)
    for one, other in zip(evaluated(whole, *inputs), wanted, strict=True):
        torch.testing.assert_close(one.reshape(other.shape), other, rtol=1e-3, atol=1e-4)


def test_special_functions():
    def functions(x):
        y = x.abs() + 0.25
        mantissa, exponent = torch.frexp(x)
        return (
            torch.lgamma(y), torch.digamma(x), torch.polygamma(1, x), torch.polygamma(2, y),
            torch.erfinv(x / 20), torch.i0(x), torch.special.i1(x), torch.special.i1e(x),
            torch.special.erfcx(y), torch.special.log_ndtr(x), torch.special.zeta(y + 1, y),
            torch.nextafter(x, y), torch.nextafter(x.half(), y.half()),
            mantissa, exponent, torch.angle(x), torch.erfc(x),
        )  # fmt: skip

    check(functions, torch.tensor([-9.4, -2.5, -0.3, 0.7, 3.2, 12.5]))


def test_factors_of_matrices():
    torch.manual_seed(0)

    def functions(a, b):
        positive = a @ a.mT + torch.eye(4)
        q, r = torch.linalg.qr(a)
        p, low, up = torch.linalg.lu(a)
        return (
            torch.linalg.cholesky_ex(positive)[0], torch.linalg.solve_ex(a, b)[0], q, r, p, low, up,
            torch.linalg.det(a), torch.linalg.slogdet(positive)[1], torch.linalg.inv_ex(a)[0],
            torch.cholesky_solve(b, torch.linalg.cholesky_ex(positive)[0]),
            torch.linalg.matrix_exp(a), torch.linalg.solve_triangular(up, b, upper=True),
        )  # fmt: skip

    check(functions, torch.randn(2, 4, 4), torch.randn(2, 4, 3))
    half = torch.tensor([[0.5, 1.0], [0.0, -1.0]]).half()  # of which eager mode makes infinities
    (found,) = evaluated(lambda a: (torch.linalg.matrix_exp(a),), half)
    torch.testing.assert_close(found, torch.linalg.matrix_exp(half.float()).half())
    check(
        lambda a, b: (torch.linalg.det(a), torch.linalg.solve_ex(a, b)[0]),
        torch.randn(2, 3, 3, requires_grad=True),
        torch.randn(2, 3, 2, requires_grad=True),
    )


def test_checks_that_do_not_hold_are_errors_of_the_call():
    from weft.dialects.errors import InputError

    def function(x):
        torch._assert_async((x.diagonal() != 0).all(), "requires {numbers} other than 0")
        return torch.cholesky(x)

    fast = torch.compile(function, backend="weft", options={"fallback": "error"})
    torch.testing.assert_close(fast(4 * torch.eye(2)), 2 * torch.eye(2))
    with pytest.raises(InputError, match="requires positive definite matrices"):
        fast(-torch.eye(2))
    with pytest.raises(InputError, match=r"requires \(numbers\) other than 0"):
        fast(torch.zeros(2, 2))


def test_images_between_pixels():
    torch.manual_seed(0)

    def functions(x, grid):
        small = functional.interpolate(x, size=(3, 4), mode="bilinear", antialias=True)
        return (
            functional.grid_sample(x, grid, align_corners=False),
            functional.grid_sample(x, grid, "bicubic", "reflection", align_corners=True),
            functional.grid_sample(x, grid, "nearest", "border", align_corners=False),
            small,
            functional.adaptive_max_pool2d(x, (2, 3)),
            functional.avg_pool2d(x, 2, ceil_mode=True, divisor_override=3),
        )

    grid = (torch.rand(2, 3, 3, 2) * 2.4 - 1.2).requires_grad_()
    check(functions, torch.randn(2, 2, 5, 6, requires_grad=True), grid)


def test_distances_and_segments():
    torch.manual_seed(0)

    def functions(x, y, indices, starts, lengths):
        bags = [functional.embedding_bag(indices, x, starts, mode=m) for m in ("sum", "max")]
        parts = torch.segment_reduce(x, "mean", lengths=lengths, axis=0, initial=0)
        none = torch.cdist(x.expand(0, 5, 3), y[None])
        return (torch.cdist(x, y), torch.cdist(x, y, 1.0), none, torch.pdist(x), *bags, parts)

    sources = (torch.randn(rows, 3, requires_grad=True) for rows in (5, 4))
    places = ([1, 4, 4, 0, 2], [0, 3], [2, 0, 3])
    check(functions, *sources, *map(torch.tensor, places))


def test_statistics():
    def functions(x, mask, edges):
        middle, place = torch.nanmedian(x, 1)
        often, last = torch.mode(torch.round(x.nan_to_num(0)), 1)
        return (
            middle, place, often, last, torch.histc(x.nan_to_num(0), 4),
            torch.nonzero_static(mask, size=5), torch.histogram(x.nan_to_num(0), edges)[0],
            x.nan_to_num(0).masked_scatter(mask, edges),
            *torch.histogram(x[0, 0], 3, density=True),  # of equal elements, and of none
            *torch.histogram(x[:0], 3),
            torch.hash_tensor(x).view(torch.int64), torch.hash_tensor(mask, 1).view(torch.int64),
            torch.linspace(5.7, -4.2, 7, dtype=torch.int64),  # of whole ends
            *_of_points(x.nan_to_num(0).reshape(4, 2), edges),
            x.nan_to_num(0).repeat_interleave(torch.tensor([2, 0]), 0, output_size=2),
        )  # fmt: skip

    x = torch.tensor([[0.2, 1.4, float("nan"), 0.9], [2.0, 2.1, -1.0, 0.3]])
    check(functions, x, x > 1, torch.tensor([-1.0, 0.0, 1.0, 2.5]))


def _of_points(x, edges):
    """Histograms of points by counts of parts, in a range and by weight, and by edges."""
    weight = x[:, 0].exp()
    counted, sides = torch.histogramdd(x, [2, 3], density=True)
    within, _ = torch.histogramdd(x, [2, 2], range=[0.0, 1.5, -1.0, 2.0], weight=weight)
    between, _ = torch.histogramdd(x, [edges, edges[1:]], weight=weight)
    return (counted, *sides, within, between)


def test_losses_of_classes_in_parts():
    torch.manual_seed(0)
    parts = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=2)

    def functions(x, matrix, bias, classes, weight):
        given = {"linear_bias": bias, "reduction": "none", "options": parts}
        loss = functional.linear_cross_entropy
        return (
            loss(x, matrix, classes, weight=weight, **given),
            loss(x, matrix, classes, ignore_index=1, **given),
        )

    sources = map(torch.randn, ((5, 3), (4, 3), 4))
    check(functions, *sources, torch.tensor([1, 3, 0, 1, 2]), torch.rand(4))


def test_repeats_whose_sum_is_another_size_are_errors_of_the_call():
    from weft.dialects.errors import InputError

    fast = torch.compile(
        lambda x, n: x.repeat_interleave(n, 0, output_size=3),
        backend="weft",
        options={"fallback": "error"},
    )
    x = torch.arange(2.0)
    torch.testing.assert_close(fast(x, torch.tensor([1, 2])), torch.tensor([0.0, 1.0, 1.0]))
    with pytest.raises(InputError, match="whose sum is the size of the result"):
        fast(x, torch.tensor([1, 1]))


def test_sizes_that_only_a_part_computes_with():
    x = torch.randn(3, 5)

    def function(x):
        return torch.linalg.svdvals(x.repeat(2, 1) * x.shape[1])[: x.shape[0] - 1] + x.shape[0]

    fast = torch.compile(function, backend="weft", dynamic=True)
    torch.testing.assert_close(fast(x), function(x), rtol=1e-4, atol=1e-4)


def test_greatest_elements_of_nearly_equal_parts_of_sizes_that_vary():
    def function(x):
        return functional.adaptive_max_pool2d(x, (2, 3), return_indices=True)

    options = {"fallback": "error"}
    fast = torch.compile(function, backend="weft", dynamic=True, options=options)
    for height, width in ((5, 7), (8, 9)):
        x = torch.randn(2, 2, height, width)
        torch.testing.assert_close(fast(x), function(x))


def test_a_negative_integer_is_torchs():
    fast = torch.compile(lambda x, n: x * n + 1, backend="weft", dynamic=True)
    x = torch.randn(3)
    torch.testing.assert_close(fast(x, 3), x * 3 + 1)
    with pytest.warns(Warning, match="negative integer"):
        torch.testing.assert_close(fast(x, -3), x * -3 + 1)


def test_a_size_that_has_to_be_a_constant_and_varies_stays_in_torch():
    fast = torch.compile(
        lambda x, w: functional.conv2d(x, w, groups=x.shape[1]) + 1, backend="weft", dynamic=True
    )
    x, w = torch.randn(2, 4, 6, 6), torch.randn(4, 1, 3, 3)
    torch.testing.assert_close(fast(x, w), functional.conv2d(x, w, groups=4) + 1)
    x, w = torch.randn(2, 6, 6, 6), torch.randn(6, 1, 3, 3)
    with pytest.warns(Warning, match="requires constants"):
        found = fast(x, w)
    torch.testing.assert_close(found, functional.conv2d(x, w, groups=6) + 1)
