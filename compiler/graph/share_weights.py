"""graph -> graph: a graph whose constants are in one store comes to name those of another."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr

from dialects.graph.constant import ConstantOp
from dialects.weights import WeightStore


def share_weights(module: ModuleOp, own: WeightStore, shared: WeightStore) -> None:
    """Brings the constants of the module into the shared store, where equal ones are one."""
    known = {shared.digest(key): key for key in shared}
    for op in module.walk():
        if isinstance(op, ConstantOp) and op.key is not None:
            digest = own.digest(op.key.data)
            if digest not in known:
                known[digest] = shared.add(op.key.data, own[op.key.data])
            op.properties["key"] = StringAttr(known[digest])
