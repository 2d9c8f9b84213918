"""Attributes of operators in graphs that are built by hand: defaults, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from xdsl.irdl import OptPropertyDef, VerificationContext
from xdsl.utils.exceptions import VerifyException

from weft.array.operators import users_line
from weft.dialects.errors import WeftError
from weft.dialects.graph import GraphOp
from weft.dialects.graph.core.op import SEGMENTS
from weft.tracing.traced import attribute_of

DEFAULTS: Final[Mapping[str, Any]] = {
    "keepdims": False, "exclusive": False, "reverse": False, "select_last_index": False,
    "group": 1, "ceil_mode": False, "count_include_pad": False, "column_major": False,
    "batch_dims": 0, "fmod": False, "transpose_a": False, "transpose_b": False, "alpha": 1.0,
    "beta": 1.0, "epsilon": 1e-5, "positive": True, "negative": True, "descending": False,
}  # fmt: skip
"""By the attribute."""

OWN: Final[Mapping[tuple[str, str], Any]] = {
    ("softmax", "axis"): -1, ("log_softmax", "axis"): -1, ("hardmax", "axis"): -1,
    ("one_hot", "axis"): -1, ("leaky_relu", "alpha"): 0.01, ("hard_sigmoid", "alpha"): 0.2,
    ("hard_sigmoid", "beta"): 0.5, ("selu", "alpha"): 1.67326319217681884765625,
    ("selu", "gamma"): 1.05070102214813232421875, ("lrn", "alpha"): 1e-4, ("lrn", "beta"): 0.75,
    ("lrn", "bias"): 1.0,
}  # fmt: skip
"""By the operator and the attribute: ONNX's, where that has one."""


def complete(op_class: type[GraphOp], given: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of an operator with defaults for those that are absent. Raises WeftError,
    which names the line, for those that it does not have, that are missing, or of another type.
    """
    declared = op_class.get_irdl_definition().properties
    names = [name for name in declared if name != SEGMENTS]
    who, short = f"{users_line()}: {op_class.name}", op_class.name.removeprefix("graph.")
    for name in given:
        if name not in names:
            known = ", ".join(names) or "none"
            raise WeftError(f"{who} requires attributes that it has ({known}), got {name}")
    found = dict(given)
    for name in names:
        if found.get(name) is None and not isinstance(declared[name], OptPropertyDef):
            found[name] = OWN.get((short, name), DEFAULTS.get(name))
            if found[name] is None:
                raise WeftError(f"{who} requires the attribute {name}, got none")
        if found.get(name) is not None:
            try:
                value = op_class.property_of(name, attribute_of(name, found[name]))
                declared[name].constr.verify(value, VerificationContext())
            except (VerifyException, TypeError) as error:
                rule = f"requires an attribute {name} of another type"
                raise WeftError(f"{who} {rule}, got {found[name]!r}") from error
    return found
