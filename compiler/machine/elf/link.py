"""ELF objects, as LLVM emits them -> a shared object, with no C toolchain."""

from collections.abc import Iterable, Sequence
from typing import BinaryIO, Final

from weft.compiler.machine.elf import records as elf
from weft.compiler.machine.elf.dynamic import DynamicSymbol, DynamicTables
from weft.compiler.machine.elf.image import BUILD_ID_SIZE, Extra, Image, OutputSection, Segment
from weft.compiler.machine.elf.machines import MACHINES
from weft.compiler.machine.elf.note import weft_note
from weft.compiler.machine.elf.object_file import RelocatableObject, Section, read_object
from weft.compiler.machine.elf.relocate import Relocator
from weft.compiler.machine.elf.relocation import Machine
from weft.compiler.machine.elf.symbols import SymbolTable, Target, undefined_names
from weft.compiler.machine.weights.blob import SMALLEST_PAGE, WeightBlob, weights_section
from weft.dialects.errors import ArtifactError, UnsupportedError

LINKED_ARCHES: Final = tuple(elf.machine_name(number) for number in MACHINES)

_READ = elf.SHF_ALLOC
_CODE = elf.SHF_ALLOC | elf.SHF_EXECINSTR
_DATA = elf.SHF_ALLOC | elf.SHF_WRITE


Given = bytes | RelocatableObject
"""An object file, or what was read of one."""


def undefined_symbols(objects: Sequence[bytes], weights: Sequence[WeightBlob] = ()) -> set[str]:
    """The names that the objects need from elsewhere, which a link of them would import."""
    return undefined_names(read_objects(objects)) - {blob.symbol for blob in weights}


def read_objects(objects: Sequence[Given]) -> list[RelocatableObject]:
    """Parses the objects of one link, which have to be of one machine."""
    parsed = [
        read_object(each, f"object {index}") if isinstance(each, bytes) else each
        for index, each in enumerate(objects)
    ]
    machines = sorted({each.machine for each in parsed})
    if len(machines) != 1:
        names = ", ".join(map(elf.machine_name, machines)) or "no objects"
        raise ArtifactError(f"linker requires objects of one machine, got {names}")
    flags = sorted({each.flags for each in parsed})
    if len(flags) != 1:
        raise ArtifactError(
            f"linker requires objects of one ABI, got flags {', '.join(map(hex, flags))}"
        )
    return parsed


def link_shared(
    objects: Sequence[Given],
    *,
    soname: str,
    exports: Sequence[str],
    needed: Sequence[str] = ("libc.so.6",),
    weights: Sequence[WeightBlob] = (),
    note: bytes | None = None,
    isa_level: int | None = None,
    loaded_here: bool = False,
    out: BinaryIO,
) -> None:
    """Writes a shared object of one of LINKED_ARCHES to `out`; the same input gives the same bytes.

    Only `exports` are visible to others; what no object defines is imported from the libraries
    `needed`. `note` is kept in the section `.note.weft`, where `read_note` finds it. `isa_level` 1
    to 4 makes the loader refuse an x86-64 processor below x86-64-v1 to v4. A file that is
    `loaded_here` has what the system's loader reads of it alone. `out` has to tell its position.
    Raises ArtifactError for damaged or contradicting objects, and UnsupportedError for
    sound ones that this linker lacks the means for.
    """
    parsed = read_objects(objects)
    check_names(soname, needed, exports)
    machine = MACHINES.get(parsed[0].machine)
    if machine is None:
        name = elf.machine_name(parsed[0].machine)
        raise UnsupportedError(f"linker requires one of {', '.join(LINKED_ARCHES)}, got {name}")
    inputs = _Inputs(parsed)
    blob_section, digest, blobs = _blob_targets(weights)
    symbols = SymbolTable(parsed, inputs.placements, blobs)
    relocator = Relocator(machine, symbols)
    inputs.scan(relocator)
    tables = _tables(machine, symbols, relocator, soname=soname, needed=needed, exports=exports)
    notes = _notes(machine, note, isa_level)
    image = _image(parsed[0], machine, inputs, relocator, tables, notes, blob_section)
    relocator.apply()
    tables.fill()
    tables.resolve_section_indices(image.sections)
    inputs.fill_frame_header()
    if loaded_here:
        image.write_loaded(out)
        return
    unloaded = [digest] if digest.content else []
    image.write(out, notes[-1], [*unloaded, *_static_symbols(image, symbols, exports)])


def check_names(soname: str, needed: Sequence[str], exports: Sequence[str]) -> None:
    """Raises ArtifactError for a name that no string table can hold."""
    for name in (soname, *needed, *exports):
        if not name or "\0" in name:
            raise ArtifactError(f"linker requires names without zero bytes, got {name!r}")


class _Inputs:
    """The sections of all objects, gathered by kind into those of the result."""

    def __init__(self, objects: Sequence[RelocatableObject]) -> None:
        self._objects = objects
        self.rodata = OutputSection(".rodata", elf.SHT_PROGBITS, _READ)
        self.frames = OutputSection(".eh_frame", elf.SHT_PROGBITS, _READ)
        self.frame_header = OutputSection(".eh_frame_hdr", elf.SHT_PROGBITS, _READ, 4)
        self.text = OutputSection(".text", elf.SHT_PROGBITS, _CODE)
        self.relro = OutputSection(".data.rel.ro", elf.SHT_PROGBITS, _DATA)
        self.data = OutputSection(".data", elf.SHT_PROGBITS, _DATA)
        self.bss = OutputSection(".bss", elf.SHT_NOBITS, _DATA)
        self.thread_local = OutputSection(".tdata", elf.SHT_PROGBITS, _DATA | elf.SHF_TLS)
        self.placements = {
            (number, index): placement
            for number, each in enumerate(objects)
            for index, section in enumerate(each.sections)
            if (placement := self._add(each, section))
        }
        if self.frames.content:
            self.frames.append(bytes(4), 4)  # ends the list for those who walk it
            self.frame_header.reserve(8, 4)

    def _add(self, each: RelocatableObject, section: Section) -> tuple[OutputSection, int] | None:
        if not section.is_loaded or section.type == elf.SHT_NOTE:
            return None
        alignment = section.alignment
        if alignment & (alignment - 1) or alignment > SMALLEST_PAGE:
            raise ArtifactError(
                f"{each.name}: linker requires an alignment of a power of two "
                f"up to {SMALLEST_PAGE}, got {alignment} for {section.name}"
            )
        output = self._output(each, section)
        if section.type == elf.SHT_NOBITS:
            return output, output.reserve(section.size, alignment)
        if output is self.frames:  # padding between lists would read as the end of the whole
            alignment = 4
        return output, output.append(section.content, alignment)

    def _output(self, each: RelocatableObject, section: Section) -> OutputSection:
        known = (elf.SHT_PROGBITS, elf.SHT_NOBITS, elf.SHT_X86_64_UNWIND)
        run_at_load = section.name.startswith((".ctors", ".dtors", ".init", ".fini"))
        if section.type not in known or run_at_load:
            raise UnsupportedError(
                f"{each.name}: linker requires sections of code and plain data, "
                f"got {section.name} of type {section.type:#x} with flags {section.flags:#x}"
            )
        if section.flags & elf.SHF_TLS:
            return self.thread_local
        if section.type == elf.SHT_NOBITS:
            return self.bss
        if section.flags & elf.SHF_EXECINSTR:
            return self.text
        if section.flags & elf.SHF_WRITE:
            return self.relro if section.name.startswith(".data.rel.ro") else self.data
        return self.frames if section.name == ".eh_frame" else self.rodata

    def scan(self, relocator: Relocator) -> None:
        """Hands every placed section to `relocator`."""
        for (number, index), placement in self.placements.items():
            each = self._objects[number]
            relocator.scan(number, each, each.sections[index], placement)

    def fill_frame_header(self) -> None:
        """Points unwinders at the frames, which they then walk: version 1, relative, no table."""
        if self.frames.content:
            distance = self.frames.address - (self.frame_header.address + 4)
            pointer = distance.to_bytes(4, "little", signed=True)
            self.frame_header.content[:] = bytes([1, 0x1B, 0xFF, 0xFF]) + pointer


def _blob_targets(
    weights: Sequence[WeightBlob],
) -> tuple[OutputSection, OutputSection, list[Target]]:
    """The section of all blobs, that of its digest, and what the symbols of the blobs lead to."""
    section, digest, offsets = weights_section(weights)
    hidden = elf.STV_HIDDEN
    return (
        section,
        digest,
        [
            Target(blob.symbol, section, offset, elf.STT_OBJECT, blob.size, visibility=hidden)
            for blob, offset in zip(weights, offsets, strict=True)
        ],
    )


def _tables(
    machine: Machine,
    symbols: SymbolTable,
    relocator: Relocator,
    *,
    soname: str,
    needed: Sequence[str],
    exports: Sequence[str],
) -> DynamicTables:
    imports = relocator.imports()
    return DynamicTables(
        soname,
        needed,
        [DynamicSymbol(target.name, target.binding) for target in imports],
        [
            DynamicSymbol(t.name, t.binding, t.type, t.section, t.offset, t.size)
            for t in symbols.exports(exports)
        ],
        relocator.for_the_loader(imports),
        machine.versions if "libc.so.6" in needed else {},
        machine.relative,
    )


def _notes(machine: Machine, note: bytes | None, isa_level: int | None) -> list[OutputSection]:
    """The note sections; the build id, which is filled last, comes last."""
    properties = OutputSection(".note.gnu.property", elf.SHT_NOTE, _READ, 8)
    if isa_level is not None:
        properties.content += _isa_property(machine, isa_level)
    weft = OutputSection(".note.weft", elf.SHT_NOTE, _READ, 4)
    if note is not None:
        weft.content += weft_note(note)
    build_id = OutputSection(".note.gnu.build-id", elf.SHT_NOTE, _READ, 4)
    build_id.content += elf.pack_note(b"GNU", elf.NT_GNU_BUILD_ID, bytes(BUILD_ID_SIZE))
    return [properties, weft, build_id]


def _isa_property(machine: Machine, level: int) -> bytes:
    if machine.number != elf.EM_X86_64 or not 1 <= level <= 4:
        name = elf.machine_name(machine.number)
        raise UnsupportedError(
            f"linker requires an ISA level 1 to 4 of x86_64, got {level} of {name}"
        )
    fields = (elf.GNU_PROPERTY_X86_ISA_1_NEEDED, 4, (1 << level) - 1, 0)
    content = b"".join(value.to_bytes(4, "little") for value in fields)
    return elf.pack_note(b"GNU", elf.NT_GNU_PROPERTY_TYPE_0, content, alignment=8)


def _image(
    first: RelocatableObject,
    machine: Machine,
    inputs: _Inputs,
    relocator: Relocator,
    tables: DynamicTables,
    notes: list[OutputSection],
    blobs: OutputSection,
) -> Image:
    """The order of everything: what is read, run, sealed once relocated, written; the weights."""
    loader = [tables.hash, tables.symbols, tables.strings, tables.version_of, tables.version_needs]
    constants = [inputs.rodata, inputs.frame_header, inputs.frames]
    sealed = [inputs.thread_local, inputs.relro, tables.dynamic, relocator.slots]
    segments = [
        Segment(elf.PF_R, [*notes, *loader, tables.rela, *constants]),
        Segment(elf.PF_R | elf.PF_X, [relocator.stubs, inputs.text]),
        Segment(elf.PF_R | elf.PF_W, sealed, sealed=True),
        Segment(elf.PF_R | elf.PF_W, [inputs.data, inputs.bss]),
        Segment(elf.PF_R, [blobs]),
    ]
    extras = [
        Extra(elf.PT_TLS, elf.PF_R, [inputs.thread_local], inputs.thread_local.alignment),
        Extra(elf.PT_DYNAMIC, elf.PF_R | elf.PF_W, [tables.dynamic], 8),
        Extra(elf.PT_NOTE, elf.PF_R, notes[:1], 8),
        Extra(elf.PT_NOTE, elf.PF_R, notes[1:], 4),
        Extra(elf.PT_GNU_PROPERTY, elf.PF_R, notes[:1], 8),
        Extra(elf.PT_GNU_EH_FRAME, elf.PF_R, [inputs.frame_header], 4),
    ]
    return Image(machine.number, first.flags, machine.page, segments, extras)


def _static_symbols(
    image: Image, symbols: SymbolTable, exports: Iterable[str]
) -> tuple[OutputSection, OutputSection]:
    """The symbol table for debuggers and profilers, which stripping removes."""
    names = elf.StringTable()
    index = {section: number for number, section in enumerate(image.sections, start=1)}
    visible = set(exports)
    records: list[tuple[bool, bytes]] = []
    for target in symbols.named_targets():
        assert target.section is not None, "a named place has a section"
        is_export = target.binding != elf.STB_LOCAL and target.name in visible
        info = (target.binding if is_export else elf.STB_LOCAL) << 4 | target.type
        record = elf.SymbolRecord(
            names.add(target.name), info, 0, index[target.section], target.address, target.size
        )
        records.append((is_export, elf.SYMBOL.pack(*record)))
    records.sort(key=lambda record: record[0])
    table = OutputSection(".symtab", elf.SHT_SYMTAB, 0, 8, entry_size=elf.SYMBOL.size)
    table.content += bytes(elf.SYMBOL.size) + b"".join(record for _, record in records)
    table.info = 1 + sum(not is_export for is_export, _ in records)
    table.link = OutputSection(".strtab", elf.SHT_STRTAB, 0, content=names.data)
    return table, table.link
