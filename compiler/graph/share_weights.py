"""graph -> graph: a graph whose constants are in one store comes to name those of another, and one
whose constants a caller may replace.
"""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace
from xdsl.dialects.builtin import ModuleOp, StringAttr

from weft.dialects.graph.reindexing.constant import ConstantOp, may_be_replaced
from weft.dialects.weights import Properties, Recipe, WeightStore


def share_weights(module: ModuleOp, own: WeightStore, shared: WeightStore) -> None:
    """Brings the constants of the module into the shared store, where equal ones are one, and
    replaceable ones that bear the same name: both graphs are of one model.
    """
    known = {shared.digest(key): key for key in shared if not shared.varies(key)}
    shared.fixed |= own.fixed
    move = _Move(own, shared, known)
    for op in module.walk():
        if isinstance(op, ConstantOp) and op.key is not None:
            op.properties["key"] = StringAttr(move.key(op.key.data))


def replace_constants(module: ModuleOp, weights: WeightStore) -> None:
    """Lets a caller replace the stored constants of a graph that was built or read, where they may
    be weights.
    """
    constants = [op for op in module.walk() if isinstance(op, ConstantOp)]
    may = [op for op in constants if may_be_replaced(op.element)]
    weights.let_replace(op.key.data for op in may if op.key is not None)


class _Move(Struct):
    own: WeightStore
    shared: WeightStore
    known: dict[str, str]
    moved: dict[str, str] = field(default_factory=dict[str, str])

    def key(self, key: str) -> str:
        """What a tensor is called in the shared store."""
        if key not in self.moved:
            self.moved[key] = self._move(key)
        return self.moved[key]

    def _move(self, key: str) -> str:
        array, recipe = self.own[key], self.own.recipe(key)
        if recipe is not None:
            return self.shared.derive(key, array, self._renamed(recipe))
        if self.own.is_given(key):
            if not self.shared.is_given(key):
                return self.shared.give(key, array)
            same = self.shared.digest(key) == self.own.digest(key)
            assert same, f"both graphs of a model have the tensor {key}"
            return key
        digest = self.own.digest(key)
        if digest not in self.known:
            self.known[digest] = self.shared.add(key, array)
        return self.known[digest]

    def _renamed(self, recipe: Recipe) -> Recipe:
        operands = tuple(
            self._renamed(each) if isinstance(each, Recipe) else each and self._constant(each)
            for each in recipe.operands
        )
        return replace(recipe, operands=operands)

    def _constant(self, properties: Properties) -> Properties:
        return tuple(
            (name, StringAttr(self.key(value.data)) if isinstance(value, StringAttr) else value)
            for name, value in properties
        )
