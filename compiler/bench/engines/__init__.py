"""weft and its peers, each a module with functions `(model, inputs, threads) -> Session`.

A module is imported only in the process that runs it, so that none disturbs another.
"""

from __future__ import annotations

from typing import Final

OURS: Final = "weft"

ENGINES: Final[dict[str, tuple[str, str, str]]] = {
    OURS: ("weft_engine", "load", "weft"),
    "onnxruntime": ("onnxruntime_engine", "load", "onnxruntime"),
    "openvino": ("openvino_engine", "load", "openvino"),
    "torch": ("torch_engine", "load_eager", "torch"),
    "torch.compile": ("torch_engine", "load_compiled", "torch"),
    "xla": ("jax_engine", "load", "jax"),
    "iree": ("iree_engine", "load", "iree-base-compiler"),
    "openblas": ("numpy_engine", "load", "numpy"),
}
"""By name: the module beside this one, its function, and the package whose version is reported."""

IMPORTED_AHEAD: Final = ("onnxruntime", "openvino", "torch")
"""Engines whose packages of that name are imported before it is their turn to load a model; others
read their environment while they are imported.
"""

PEERS: Final = tuple(name for name in ENGINES if name != OURS)
