"""graph -> graph: notes the bounds that the user gives for sizes of the inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp
from xdsl.dialects.func import FuncOp

from weft.compiler.driver.named_sizes import Bound
from weft.dialects.errors import OptionError
from weft.dialects.expr import Expr
from weft.dialects.graph.core.types import type_of
from weft.dialects.loop.program import BOUNDS
from weft.dialects.loop.types import ExprsAttr


def graph_function(module: ModuleOp) -> FuncOp:
    """The function of a module that is the model, of those that it may have."""
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    return next((each for each in functions if each.sym_name.data == "main"), functions[0])


def input_sizes(module: ModuleOp) -> list[str]:
    """The named sizes of the inputs of the module's graph function, each once."""
    inputs = [type_of(argument) for argument in graph_function(module).body.block.args]
    names = (name for each in inputs for dim in each.shape for name in dim.symbols())
    return list(dict.fromkeys(names))


def bound_sizes(module: ModuleOp, bounds: Sequence[Bound], fixed: Mapping[str, int]) -> None:
    """Notes the bounds on the graph function of the module; `fixed` are sizes that have a value.

    Raises OptionError for a bound of what is no named size of an input, a second one of a size, and
    one that excludes the size's value.
    """
    for each in bounds:
        if each.name in fixed and not each.least <= fixed[each.name] <= each.most:
            rule = f"bound requires {each.name} from {each.least} to {each.most}"
            raise OptionError(f"{rule}, got {fixed[each.name]}")
    bounds = [each for each in bounds if each.name not in fixed]
    if not bounds:
        return
    function = graph_function(module)
    names = input_sizes(module)
    given = [bound.name for bound in bounds]
    wrong = [n for at, n in enumerate(given) if n not in names or n in given[:at]]
    if wrong:
        rule = f"bounds require sizes of the inputs ({', '.join(names)}), each once"
        raise OptionError(f"{rule}, got {', '.join(wrong)}")
    pairs = {each.name: (Expr.of(each.least), Expr.of(each.most)) for each in bounds}
    own = function.attributes.get(BOUNDS)
    function.attributes[BOUNDS] = DictionaryAttr(
        (dict(own.data) if isinstance(own, DictionaryAttr) else {})
        | {name: ExprsAttr(pair) for name, pair in pairs.items()}
    )
