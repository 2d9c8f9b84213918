"""The version that a model says it has: an attribute of the graph function, which an artifact's
metadata and its build files repeat.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

MODEL_VERSION = "model_version"
"""The attribute's name."""


def version_attributes(version: int) -> Mapping[str, Attribute]:
    """The attribute of a model that gives a version; none for 0 or below, which say nothing."""
    return {MODEL_VERSION: IntegerAttr(version, i64)} if version > 0 else {}


def described_version(attributes: Mapping[str, Attribute]) -> int:
    """The version as metadata have it: 0 where there is none."""
    version = attributes.get(MODEL_VERSION)
    return version.value.data if isa(version, IntegerAttr) else 0
