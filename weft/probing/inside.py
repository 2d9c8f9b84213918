"""Where NaN comes from in compiled graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.compiler.driver.extension import Extension
from weft.compiler.driver.options import Options
from weft.compiler.driver.read_model import read_model
from weft.compiler.frontend.imported import ImportedModel, Source
from weft.compiler.graph.differentiate.differentiate import DifferentiatePass
from weft.compiler.machine.python.executable import Executable
from weft.dialects.context import WeftContext
from weft.dialects.errors import OptionError
from weft.probing.trapping import trapped

if TYPE_CHECKING:
    from weft.probing.watching import Build


def build_trapped(
    source: Source | ImportedModel, options: Options, extensions: Sequence[Extension], build: Build
) -> Executable:
    """Builds an executable that fails where NaN comes from; see `trapped`."""
    if options.buckets.sizes:
        raise OptionError("trap_nan requires one program, got buckets")
    imported = read_model(source, options, extensions)
    if options.gradients:
        DifferentiatePass(inputs=options.gradients).apply(WeftContext(), imported.module)
    plain = options.changed(outputs=(), gradients=(), dims=(), values=(), self_test=None)
    return trapped(imported, lambda exposed: build(exposed, plain))
