"""`torch.compile(model, backend="weft")`: PyTorch's programs as native code. The one package of
weft that imports torch.
"""

from weft.torch.backend import backend, refresh
from weft.torch.export import export
from weft.torch.report import explain

__all__ = ["backend", "explain", "export", "refresh"]
