"""weft and its peers, each a module with functions `(model, inputs, threads, kept) -> Session`.

A module is imported only in the process that runs it, so that none disturbs another. `kept` is a
folder of what engines have compiled, which several models and runs share, or None.
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

IMPORTED_AHEAD: Final = {
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "torch": "torch",
    "torch.compile": "torch._inductor.compile_fx",
    "xla": "jax",
    "iree": "iree.runtime",
}
"""What each engine's process imports before it is forked for a model; nothing of it may start
threads.
"""

PEERS: Final = tuple(name for name in ENGINES if name != OURS)
