"""Symbols of several objects resolved against each other: which name leads to which place."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from weft.compiler.machine.elf import records as elf
from weft.compiler.machine.elf.image import OutputSection
from weft.compiler.machine.elf.object_file import RelocatableObject, Symbol
from weft.dialects.errors import ArtifactError

# (index of the object, index of its section) -> where that section's first byte lies.
Placements = Mapping[tuple[int, int], tuple[OutputSection, int]]

_LINKED_TYPES: Final = (
    elf.STT_NOTYPE, elf.STT_OBJECT, elf.STT_FUNC, elf.STT_SECTION, elf.STT_TLS,
)  # fmt: skip

_OF_LINKERS: Final = {"_GLOBAL_OFFSET_TABLE_"}
"""Names that assemblers list and no relocation of ours refers to."""


class Target(Struct, eq=False):
    """What a relocation refers to: `offset` in `section`, or an import if there is no section."""

    name: str
    section: OutputSection | None
    offset: int = 0
    type: int = elf.STT_NOTYPE
    size: int = 0
    binding: int = elf.STB_GLOBAL
    visibility: int = elf.STV_DEFAULT

    @property
    def address(self) -> int:
        """The address relative to the start of the image, once that is placed."""
        assert self.section is not None, f"import '{self.name}' has no address"
        return self.section.address + self.offset


def undefined_names(objects: Iterable[RelocatableObject]) -> set[str]:
    """The names that some object refers to and none defines."""
    symbols = [symbol for each in objects for symbol in each.outward]
    defined = {symbol.name for symbol in symbols if symbol.is_defined}
    return {symbol.name for symbol in symbols} - defined - _OF_LINKERS


class SymbolTable:
    """All symbols of a link; `blobs` are the targets that the link itself defines.

    Raises ArtifactError for a name with two definitions, or for a hidden one with none.
    """

    def __init__(
        self, objects: Sequence[RelocatableObject], placements: Placements, blobs: Sequence[Target]
    ) -> None:
        self._objects = objects
        self._placements = placements
        self._global: dict[str, Target] = {}
        self._origin: dict[str, str] = {}
        for blob in blobs:
            self._define(blob, "the weights")
        self._define_globals()
        self._import_the_rest()
        self._targets: dict[tuple[int, int], Target | None] = {}

    def _define(self, target: Target, origin: str) -> None:
        known = self._global.get(target.name)
        if known and elf.STB_WEAK not in (known.binding, target.binding):
            raise ArtifactError(
                f"linker requires one definition of '{target.name}', "
                f"got one in {self._origin[target.name]} and one in {origin}"
            )
        if known is None or (known.binding == elf.STB_WEAK and target.binding != elf.STB_WEAK):
            self._global[target.name] = target
            self._origin[target.name] = origin

    def _define_globals(self) -> None:
        for number, each in enumerate(self._objects):
            for symbol in each.outward:
                if symbol.is_defined:
                    self._define(self._placed(number, symbol), each.name)

    def _import_the_rest(self) -> None:
        hidden: set[str] = set()
        for each in self._objects:
            for symbol in each.outward:
                if symbol.is_defined:
                    continue
                target = self._global.setdefault(
                    symbol.name, Target(symbol.name, None, binding=symbol.binding)
                )
                if target.section is None and symbol.visibility != elf.STV_DEFAULT:
                    hidden.add(symbol.name)
                if target.section is None and symbol.binding == elf.STB_GLOBAL:
                    target.binding = elf.STB_GLOBAL
        if hidden:
            names = ", ".join(f"'{name}'" for name in sorted(hidden))
            raise ArtifactError(
                f"linker requires a definition of every hidden symbol, got none of {names}"
            )

    def _placed(self, number: int, symbol: Symbol) -> Target:
        placement = self._placements.get((number, symbol.section))
        if placement is None or symbol.type not in _LINKED_TYPES:
            raise ArtifactError(
                f"{self._objects[number].name}: linker requires '{symbol.name}' to lie in a loaded "
                f"section, got symbol type {symbol.type} in section {symbol.section:#x}"
            )
        size = self._objects[number].sections[symbol.section].size
        if symbol.value + symbol.size > size:
            raise ArtifactError(
                f"{self._objects[number].name}: linker requires '{symbol.name}' to end within the "
                f"{size} bytes of its section, got {symbol.value} and {symbol.size} bytes"
            )
        section, start = placement
        return Target(
            symbol.name or section.name,
            section,
            start + symbol.value,
            symbol.type,
            symbol.size,
            symbol.binding,
            symbol.visibility,
        )

    def _target(self, number: int, symbol: Symbol) -> Target | None:
        if not symbol.is_local:
            return self._global[symbol.name]
        if (number, symbol.section) not in self._placements or symbol.type not in _LINKED_TYPES:
            return None
        return self._placed(number, symbol)

    def target(self, number: int, index: int) -> Target | None:
        """What symbol `index` of object `number` leads to; None for one without a place."""
        key = number, index
        if key not in self._targets:
            symbols = self._objects[number].symbols
            self._targets[key] = (
                self._target(number, symbols[index]) if index < len(symbols) else None
            )
        return self._targets[key]

    def exports(self, names: Iterable[str]) -> list[Target]:
        """The targets of names to export. Raises ArtifactError for those undefined or hidden."""
        found: list[Target] = []
        for name in sorted(set(names)):
            target = self._global.get(name)
            if target is None or target.section is None or not target.section.memory_size:
                raise ArtifactError(f"linker requires a definition of export '{name}', got none")
            if target.visibility != elf.STV_DEFAULT:
                raise ArtifactError(f"linker requires a visible export, got hidden '{name}'")
            found.append(target)
        return found

    def named_targets(self) -> list[Target]:
        """Every function and object that has a name and a place, local ones first."""
        targets = [*self._global.values()]
        for number, each in enumerate(self._objects):
            found = (self.target(number, index) for index in range(len(each.symbols)))
            targets += [t for t in found if t is not None and t.binding == elf.STB_LOCAL]
        named = [
            t
            for t in targets
            if t.section and t.section.memory_size  # the image leaves empty ones out
            if t.name and t.type in (elf.STT_OBJECT, elf.STT_FUNC)
        ]
        return sorted(named, key=lambda t: (t.binding != elf.STB_LOCAL, t.name))
