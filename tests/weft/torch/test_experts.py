"""Products of rows with the matrices of their experts."""

import pytest

torch = pytest.importorskip("torch", minversion="2.13", reason="the front end is PyTorch's")

from weft.compiler.frontend.torch.ops.experts import (  # noqa: E402
    grouped_mm,
    grouped_mm_backward,
)

OWN = {
    "wefttests.grouped.default": grouped_mm,
    "wefttests.grouped_backward.default": grouped_mm_backward,
}


def product(x, weight, ends):
    found, start = x.new_zeros(x.shape[0], weight.shape[2]), 0
    for expert, end in enumerate(ends.tolist()):
        found[start:end] = x[start:end] @ weight[expert]
        start = end
    return found


def slopes(x, weight, ends, grad):
    by_x, by_weight, start = torch.zeros_like(x), torch.zeros_like(weight), 0
    for expert, end in enumerate(ends.tolist()):
        by_x[start:end] = grad[start:end] @ weight[expert].T
        by_weight[expert] = x[start:end].T @ grad[start:end]
        start = end
    return by_x, by_weight


@pytest.fixture(scope="module")
def operators():
    library = torch.library
    forward = library.custom_op("wefttests::grouped", product, mutates_args=(),
        schema="(Tensor x, Tensor weight, Tensor ends) -> Tensor")  # fmt: skip
    backward = library.custom_op(
        "wefttests::grouped_backward",
        slopes,
        mutates_args=(),
        schema="(Tensor x, Tensor weight, Tensor ends, Tensor grad) -> (Tensor, Tensor)",
    )
    forward.register_fake(lambda x, weight, ends: x.new_empty(x.shape[0], weight.shape[2]))
    backward.register_fake(
        lambda x, weight, ends, grad: (torch.empty_like(x), torch.empty_like(weight))
    )
    return forward, backward


MANY = [(17, 0, 20, 3), (0, 0, 0, 40), (10, 10, 10, 10), (1, 2, 0, 0)]
FEW = [(0, 1, 1, 1), (3, 0, 0, 0), (0, 0, 0, 0)]


@pytest.mark.parametrize(
    ("rows", "counts", "dynamic"), [(40, MANY, False), (40, MANY, True), (3, FEW, False)]
)
def test_rows_of_experts_and_their_derivatives(operators, rows, counts, dynamic):
    torch.compiler.reset()
    torch.manual_seed(0)
    forward, backward = operators

    def both(x, weight, ends, grad):
        return forward(x, weight, ends), *backward(x, weight, ends, grad)

    options = {"fallback": "error", "operators": OWN}
    compiled = torch.compile(both, backend="weft", options=options, dynamic=dynamic)
    x, weight, grad = torch.randn(rows, 5), torch.randn(4, 5, 6), torch.randn(rows, 6)
    for each in counts:
        ends = torch.tensor(each).cumsum(0).to(torch.int32)
        found, wanted = compiled(x, weight, ends, grad), both(x, weight, ends, grad)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def test_ends_that_no_rows_have_are_errors(operators):
    forward, _ = operators
    compiled = torch.compile(
        lambda *given: forward(*given), backend="weft",
        options={"fallback": "error", "operators": OWN},
    )  # fmt: skip
    with pytest.raises(Exception, match="requires"):
        compiled(torch.randn(3, 5), torch.randn(2, 5, 6), torch.tensor([2, 900]))
