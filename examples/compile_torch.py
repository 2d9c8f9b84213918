"""PyTorch through weft: inference, a step of training, and what stays in torch.

Needs torch 2.13 or newer; without it there is nothing to see.
"""

import importlib.util
import sys

if importlib.util.find_spec("torch") is None:
    print("torch is not installed")
    sys.exit()

import torch
from torch import nn

import weft.torch

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4))
x, target = torch.randn(8, 16), torch.randint(4, (8,))

fast = torch.compile(model, backend="weft")
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for step in range(3):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(fast(x), target)
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.4f}")

with torch.no_grad():
    print("largest difference from eager mode:", float((fast(x) - model(x)).abs().max()))
print(weft.torch.explain(lambda x: torch.linalg.inv(x @ x.T + torch.eye(8)), x))
