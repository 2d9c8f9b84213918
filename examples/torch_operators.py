"""An operator of one's own in a PyTorch program, and a cache that is written in place.

Needs torch 2.13 or newer; without it there is nothing to see.
"""

import importlib.util
import sys

if importlib.util.find_spec("torch") is None:
    print("torch is not installed")
    sys.exit()

import torch


@torch.library.custom_op("example::squash", mutates_args=())
def squash(x: torch.Tensor, limit: float) -> torch.Tensor:
    """What eager mode computes."""
    return limit * torch.tanh(x / limit)


squash.register_fake(lambda x, limit: torch.empty_like(x))


def built(b, x, limit):
    """What weft compiles: terms have Python's operators, and `math` for functions of elements."""
    return (x / limit).math("tanh") * limit


def attend(query, cache, position, row):
    """Writes a row of a cache, and looks at all of it."""
    cache.index_copy_(1, position, row)
    return squash(query @ cache.mT, 5.0).softmax(-1) @ cache


options = {"fallback": "error", "operators": {"example.squash.default": built}}
fast = torch.compile(attend, backend="weft", options=options)
torch.manual_seed(0)
cache, query = torch.zeros(2, 32, 8), torch.randn(2, 1, 8)
twin = cache.clone()
for step in range(3):
    position, row = torch.tensor([step]), torch.randn(2, 1, 8)
    found, wanted = fast(query, cache, position, row), attend(query, twin, position, row)
    print(f"step {step}: off by {float((found - wanted).abs().max()):.1e}")
print("one cache:", torch.equal(cache, twin))
