"""Relocations of a link: the slots, stubs and loader entries they call for, and the patching."""

from collections.abc import Iterable

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


class _Fixup(Struct, frozen=True):
    """One field to patch once addresses are known: of an object's `part`, at an offset there."""

    each: RelocatableObject
    part: Section
    relocation: Relocation
    section: OutputSection
    offset: int
    rule: Rule
    target: Target

    @property
    def addend(self) -> int:
        return self.relocation.addend

    @property
    def origin(self) -> str:
        """What errors name it by."""
        return _origin(self.each, self.part, self.relocation)


class Relocator:
    """Collects the relocations of all sections by `scan`, then patches them by `apply`.

    `slots` and `stubs` are the global offset table and the procedure linkage table: `scan` settles
    their sizes, `apply` the contents.
    """

    def __init__(self, machine: Machine, symbols: SymbolTable) -> None:
        self._machine = machine
        self._symbols = symbols
        self._fixups: list[_Fixup] = []
        self._pointers: list[_Fixup] = []
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
        """Notes the relocations of one section that was given `placement`."""
        for relocation in section.relocations:
            fixup = self._fixup(number, each, section, relocation, placement)
            self._check(fixup, relocation, section)
            match fixup.rule.base:
                case Base.NOTHING:
                    continue
                case Base.ABSOLUTE:
                    self._pointers.append(fixup)
                    continue
                case Base.GOT_SLOT:
                    self._add_slot(fixup.target)
                case Base.CALL if fixup.target.section is None:
                    self._add_stub(fixup.target)
                case Base.TLS_SLOTS | Base.TLS_MODULE_SLOTS:
                    self._add_tls_slots(_tls_key(fixup))
                case _:
                    pass
            self._fixups.append(fixup)

    def _fixup(
        self,
        number: int,
        each: RelocatableObject,
        section: Section,
        relocation: Relocation,
        placement: tuple[OutputSection, int],
    ) -> _Fixup:
        rule = self._machine.rules.get(relocation.type)
        target = self._symbols.target(number, relocation.symbol)
        if rule is None:
            name = target.name if target else f"#{relocation.symbol}"
            machine = elf.machine_name(each.machine)
            raise UnsupportedError(
                f"{_origin(each, section, relocation)}: linker requires a relocation type of "
                f"position-independent code, got type {relocation.type} against '{name}' "
                f"for {machine}"
            )
        if target is None and rule.base is Base.NOTHING:
            target = Target("", None)
        if target is None:
            raise ArtifactError(
                f"{_origin(each, section, relocation)}: linker requires a symbol in a loaded "
                f"section for {rule.name}, got '#{relocation.symbol}'"
            )
        output, start = placement
        offset = start + relocation.offset
        return _Fixup(each, section, relocation, output, offset, rule, target)

    def _check(self, fixup: _Fixup, relocation: Relocation, section: Section) -> None:
        name, rule = fixup.target.name, fixup.rule
        if relocation.offset + rule.width > len(section.content):
            raise ArtifactError(
                f"{fixup.origin}: linker requires {rule.name} inside its section of "
                f"{len(section.content)} bytes, got '{name}'"
            )
        if (rule.base in THREAD_LOCAL) != (fixup.target.type == elf.STT_TLS):
            raise UnsupportedError(
                f"{fixup.origin}: linker requires thread-local variables of these objects reached "
                f"by relocations for them alone, got {rule.name} against '{name}'"
            )
        if rule.base in (Base.SYMBOL, Base.PAIRED) and fixup.target.section is None:
            raise UnsupportedError(
                f"{fixup.origin}: linker requires imports reached through a table, "
                f"got {rule.name} against '{name}'"
            )
        if rule.base is Base.ABSOLUTE and not fixup.section.flags & elf.SHF_WRITE:
            raise UnsupportedError(
                f"{fixup.origin}: linker requires pointers in writable sections, "
                f"got {rule.name} against '{name}'"
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
        pointed = (fixup.target for fixup in self._pointers)
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
        lower = [fixup for fixup in self._fixups if fixup.rule.base is Base.PAIRED]
        uppers = {
            (fixup.section, fixup.offset): fixup
            for fixup in (self._fixups if lower else ())
            if fixup.rule.base in (Base.SYMBOL, Base.GOT_SLOT, Base.TLS_SLOTS)
        }
        for fixup in self._fixups:
            paired = fixup.rule.base is Base.PAIRED
            self._patch(fixup, self._upper(fixup, uppers) if paired else fixup)

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

    def _upper(self, fixup: _Fixup, uppers: dict[tuple[OutputSection, int], _Fixup]) -> _Fixup:
        """The relocation of the upper bits, at the instruction that a lower one's symbol marks."""
        target = fixup.target
        assert target.section is not None, "a mark lies in a section"
        upper = uppers.get((target.section, target.offset))
        if upper is None or fixup.addend:
            raise ArtifactError(
                f"{fixup.origin}: linker requires {fixup.rule.name} to name an instruction with "
                f"the upper bits, got '{target.name}'"
            )
        return upper

    def _patch(self, fixup: _Fixup, source: _Fixup) -> None:
        """Writes a field of the value, and seen from the place, that `source` has."""
        value = self._base(source) + source.addend
        position = source.section.address + source.offset
        try:
            fixup.rule.encode(fixup.section.content, fixup.offset, value, position)
        except OutOfRangeError as error:
            raise ArtifactError(
                f"{fixup.origin}: linker requires '{fixup.target.name}' within reach of "
                f"{fixup.rule.name}, got {error}"
            ) from error

    def _base(self, fixup: _Fixup) -> int:
        if fixup.rule.base is Base.GOT_SLOT:
            return self.slots.address + self._slot_of[fixup.target]
        if fixup.rule.base in (Base.TLS_SLOTS, Base.TLS_MODULE_SLOTS):
            return self.slots.address + self._tls_slots_of[_tls_key(fixup)]
        if fixup.rule.base is Base.TLS_OFFSET:
            return fixup.target.offset
        if fixup.target in self._stub_of and fixup.rule.base is Base.CALL:
            return self.stubs.address + self._stub_of[fixup.target]
        return fixup.target.address


def _origin(each: RelocatableObject, section: Section, relocation: Relocation) -> str:
    return f"{each.name}: {section.name}+{relocation.offset:#x}"


def _tls_key(fixup: _Fixup) -> Target | None:
    """The variable whose slots a relocation refers to; None for those of the whole block."""
    return None if fixup.rule.base is Base.TLS_MODULE_SLOTS else fixup.target
