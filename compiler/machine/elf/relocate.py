"""Relocations of a link: the slots, stubs and loader entries they call for, and the patching."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from weft.compiler.machine.elf import records as elf
from weft.compiler.machine.elf.dynamic import DynamicRelocation
from weft.compiler.machine.elf.image import OutputSection
from weft.compiler.machine.elf.object_file import RelocatableObject, Relocation, Section
from weft.compiler.machine.elf.relocation import (
    STUB_SIZE,
    THREAD_LOCAL,
    Base,
    Machine,
    OutOfRangeError,
    Rule,
)
from weft.compiler.machine.elf.symbols import SymbolTable, Target
from weft.dialects.errors import ArtifactError, UnsupportedError

_SLOT_SIZE = 8


class _Use(Struct):
    """What relocations of one type against one symbol have in common; their `base` is known once
    addresses are.
    """

    rule: Rule
    target: Target
    base: int = 0


class _Patched(Struct, frozen=True):
    """A section of an object, `part`, whose fields are patched once addresses are known: it starts
    at an offset of `section`, and has `uses` by type and symbol.
    """

    each: RelocatableObject
    part: Section
    section: OutputSection
    start: int
    uses: dict[tuple[int, int], _Use]

    def at(self, relocation: Relocation) -> tuple[OutputSection, int]:
        """The section and the offset of a field."""
        return self.section, self.start + relocation.offset


class _Pointer(Struct, frozen=True):
    """A field that the loader patches."""

    section: OutputSection
    offset: int
    target: Target
    addend: int


class Relocator:
    """Collects the relocations of all sections by `scan`, then patches them by `apply`.

    `slots` and `stubs` are the global offset table and the procedure linkage table: `scan` settles
    their sizes, `apply` the contents.
    """

    def __init__(self, machine: Machine, symbols: SymbolTable) -> None:
        self._machine = machine
        self._symbols = symbols
        self._patched: list[_Patched] = []
        self._pointers: list[_Pointer] = []
        self._slot_of: dict[Target, int] = {}
        self._stub_of: dict[Target, int] = {}
        self._tls_slots_of: dict[Target | None, int] = {}
        writable = elf.SHF_ALLOC | elf.SHF_WRITE
        executable = elf.SHF_ALLOC | elf.SHF_EXECINSTR
        self.slots = OutputSection(".got", elf.SHT_PROGBITS, writable, _SLOT_SIZE)
        self.stubs = OutputSection(".plt", elf.SHT_PROGBITS, executable, STUB_SIZE)

    def scan(
        self,
        number: int,
        each: RelocatableObject,
        section: Section,
        placement: tuple[OutputSection, int],
    ) -> None:
        """Notes the relocations of one section that was given `placement`. Those of one type
        against one symbol are looked at together.
        """
        if not section.uses:
            return
        patched = _Patched(each, section, *placement, {})
        size = len(section.content)
        for key, last in section.uses.items():
            use = patched.uses[key] = self._use(number, patched, key, last)
            if last + use.rule.width > size:
                raise ArtifactError(
                    f"{_origin(each, section, last)}: linker requires {use.rule.name} inside its "
                    f"section of {size} bytes, got '{use.target.name}'"
                )
        self._pointers += _pointers(patched)
        self._patched.append(patched)

    def _use(self, number: int, patched: _Patched, key: tuple[int, int], offset: int) -> _Use:
        """What relocations of a type against a symbol have in common, the last of which is at an
        offset; adds the slot or stub that they need.
        """
        each, section, (relocation_type, symbol) = patched.each, patched.part, key
        rule = self._machine.rules.get(relocation_type)
        target = self._symbols.target(number, symbol)
        if rule is None:
            name = target.name if target else f"#{symbol}"
            machine = elf.machine_name(each.machine)
            raise UnsupportedError(
                f"{_origin(each, section, offset)}: linker requires a relocation type of "
                f"position-independent code, got type {relocation_type} against '{name}' "
                f"for {machine}"
            )
        if target is None and rule.base is Base.NOTHING:
            target = Target("", None)
        if target is None:
            raise ArtifactError(
                f"{_origin(each, section, offset)}: linker requires a symbol in a loaded "
                f"section for {rule.name}, got '#{symbol}'"
            )
        use = _Use(rule, target)
        self._check(use, patched, offset)
        match rule.base:
            case Base.GOT_SLOT:
                self._add_slot(target)
            case Base.CALL if target.section is None:
                self._add_stub(target)
            case Base.TLS_SLOTS | Base.TLS_MODULE_SLOTS:
                self._add_tls_slots(_tls_key(use))
            case _:
                pass
        return use

    def _check(self, use: _Use, patched: _Patched, offset: int) -> None:
        name, rule = use.target.name, use.rule
        if (rule.base in THREAD_LOCAL) != (use.target.type == elf.STT_TLS):
            raise UnsupportedError(
                f"{_origin(patched.each, patched.part, offset)}: linker requires "
                f"thread-local variables of these objects reached by relocations for them alone, "
                f"got {rule.name} against '{name}'"
            )
        if rule.base in (Base.SYMBOL, Base.PAIRED) and use.target.section is None:
            raise UnsupportedError(
                f"{_origin(patched.each, patched.part, offset)}: linker requires imports "
                f"reached through a table, got {rule.name} against '{name}'"
            )
        if rule.base is Base.ABSOLUTE and not patched.section.flags & elf.SHF_WRITE:
            raise UnsupportedError(
                f"{_origin(patched.each, patched.part, offset)}: linker requires pointers in "
                f"writable sections, got {rule.name} against '{name}'"
            )

    def _add_slot(self, target: Target) -> None:
        if target not in self._slot_of:
            self._slot_of[target] = self.slots.reserve(_SLOT_SIZE, _SLOT_SIZE)

    def _add_stub(self, target: Target) -> None:
        self._add_slot(target)
        if target not in self._stub_of:
            self._stub_of[target] = self.stubs.reserve(STUB_SIZE, STUB_SIZE)

    def _add_tls_slots(self, key: Target | None) -> None:
        if key not in self._tls_slots_of:
            self._tls_slots_of[key] = self.slots.reserve(2 * _SLOT_SIZE, _SLOT_SIZE)

    def imports(self) -> list[Target]:
        """The targets that the loader has to find, by name."""
        pointed = (pointer.target for pointer in self._pointers)
        used = {target for target in (*self._slot_of, *pointed) if target.section is None}
        return sorted(used, key=lambda target: target.name)

    def for_the_loader(self, imports: Iterable[Target]) -> list[DynamicRelocation]:
        """What the loader patches; `imports` are numbered from one in its symbol table."""
        index = {target: number for number, target in enumerate(imports, start=1)}
        machine = self._machine
        slots = [
            self._loaded(self.slots, offset, machine.glob_dat, target, index, 0)
            for target, offset in self._slot_of.items()
        ]
        pointers = [
            self._loaded(f.section, f.offset, machine.absolute, f.target, index, f.addend)
            for f in self._pointers
        ]
        return slots + pointers + self._thread_local()

    def _thread_local(self) -> list[DynamicRelocation]:
        """What fills the slots of thread-local variables."""
        relocation_type, told = self._machine.thread_local, self._machine.tls_bias is None
        return [
            DynamicRelocation(
                self.slots, at, relocation_type, 0, None, key.offset if key and told else 0
            )
            for key, at in self._tls_slots_of.items()
        ]

    def _loaded(
        self,
        section: OutputSection,
        offset: int,
        relocation_type: int,
        target: Target,
        index: dict[Target, int],
        addend: int,
    ) -> DynamicRelocation:
        if target.section is None:
            return DynamicRelocation(section, offset, relocation_type, index[target], None, addend)
        addend += target.offset
        return DynamicRelocation(section, offset, self._machine.relative, 0, target.section, addend)

    def apply(self) -> None:
        """Writes every field and stub. Raises ArtifactError where a value does not fit."""
        for target, offset in self._stub_of.items():
            slot = self.slots.address + self._slot_of[target]
            code = self._machine.stub(self.stubs.address + offset, slot)
            self.stubs.content[offset : offset + STUB_SIZE] = code
        self._fill_tls_offsets()
        uppers: dict[tuple[OutputSection, int], tuple[int, int]] = {}
        for patched in self._patched:
            for use in patched.uses.values():
                use.base = self._base(use)
        for patched in self._patched if self._has_pairs() else ():
            uppers |= _uppers(patched)
        for patched in self._patched:
            self._patch(patched, uppers)

    def _fill_tls_offsets(self) -> None:
        """Writes the second slot of each thread-local variable where the loader does not."""
        bias = self._machine.tls_bias
        for key, at in self._tls_slots_of.items() if bias is not None else ():
            assert bias is not None, "it is asked above"
            offset = key.offset - bias if key else 0
            second = at + _SLOT_SIZE
            self.slots.content[second : second + _SLOT_SIZE] = offset.to_bytes(
                _SLOT_SIZE, "little", signed=True
            )

    def _has_pairs(self) -> bool:
        return any(
            use.rule.base is Base.PAIRED for each in self._patched for use in each.uses.values()
        )

    def _patch(
        self, patched: _Patched, uppers: dict[tuple[OutputSection, int], tuple[int, int]]
    ) -> None:
        """Writes the fields of one section, in the order in which they are listed: RISC-V adds to
        what the one before wrote.
        """
        content, start, uses = patched.section.content, patched.start, patched.uses
        address = patched.section.address
        for relocation in patched.part.relocations:
            use = uses[relocation.type, relocation.symbol]
            rule, offset = use.rule, start + relocation.offset
            value, position = use.base + relocation.addend, address + offset
            if rule.base is Base.PAIRED:
                value, position = _upper(patched, relocation, use, uppers)
            try:
                rule.encode(content, offset, value, position)
            except OutOfRangeError as error:
                origin = _origin(patched.each, patched.part, relocation.offset)
                raise ArtifactError(
                    f"{origin}: linker requires '{use.target.name}' within reach of "
                    f"{rule.name}, got {error}"
                ) from error

    def _base(self, use: _Use) -> int:
        """What addends are added to; nothing where the loader does, or nothing is written."""
        match use.rule.base:
            case Base.GOT_SLOT:
                return self.slots.address + self._slot_of[use.target]
            case Base.TLS_SLOTS | Base.TLS_MODULE_SLOTS:
                return self.slots.address + self._tls_slots_of[_tls_key(use)]
            case Base.TLS_OFFSET:
                return use.target.offset
            case Base.CALL if use.target in self._stub_of:
                return self.stubs.address + self._stub_of[use.target]
            case Base.NOTHING | Base.ABSOLUTE | Base.PAIRED:
                return 0
            case _:
                return use.target.address


def _uppers(patched: _Patched) -> dict[tuple[OutputSection, int], tuple[int, int]]:
    """Value and position of the relocations whose upper bits others refer to, by where they are."""
    return {
        patched.at(each): (
            use.base + each.addend,
            patched.section.address + patched.start + each.offset,
        )
        for each in patched.part.relocations
        if (use := patched.uses[each.type, each.symbol]).rule.base
        in (Base.SYMBOL, Base.GOT_SLOT, Base.TLS_SLOTS)
    }


def _upper(
    patched: _Patched,
    relocation: Relocation,
    use: _Use,
    uppers: dict[tuple[OutputSection, int], tuple[int, int]],
) -> tuple[int, int]:
    """Value and position of the upper bits, at the instruction that a lower one's symbol marks."""
    target = use.target
    assert target.section is not None, "a mark lies in a section"
    upper = uppers.get((target.section, target.offset))
    if upper is None or relocation.addend:
        raise ArtifactError(
            f"{_origin(patched.each, patched.part, relocation.offset)}: linker requires "
            f"{use.rule.name} to name an instruction with the upper bits, got '{target.name}'"
        )
    return upper


def _pointers(patched: _Patched) -> Iterator[_Pointer]:
    """The fields of a section that the loader patches, in their order."""
    uses = patched.uses
    if not any(use.rule.base is Base.ABSOLUTE for use in uses.values()):
        return
    for relocation in patched.part.relocations:
        use = uses[relocation.type, relocation.symbol]
        if use.rule.base is Base.ABSOLUTE:
            yield _Pointer(*patched.at(relocation), use.target, relocation.addend)


def _origin(each: RelocatableObject, section: Section, offset: int) -> str:
    return f"{each.name}: {section.name}+{offset:#x}"


def _tls_key(use: _Use) -> Target | None:
    """The variable whose slots a relocation refers to; None for those of the whole block."""
    return None if use.rule.base is Base.TLS_MODULE_SLOTS else use.target
