"""ELF objects -> a shared object through a linker found on this machine, for what `link` lacks."""

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Final

from msgspec import Struct

from weft.compiler.machine.elf import records as elf
from weft.compiler.machine.elf.image import BUILD_ID_SIZE, OutputSection
from weft.compiler.machine.elf.link import check_names, read_objects
from weft.compiler.machine.elf.note import append_trailer, weft_note
from weft.compiler.machine.elf.object_file import RelocatableObject
from weft.compiler.machine.weights.blob import WeightBlob, weights_section
from weft.dialects.errors import ArtifactError, UnsupportedError

_FIXED_OPTIONS: Final = (
    "-shared",
    "--hash-style=gnu",
    "-z",
    "now",
    "-z",
    "relro",
    "-z",
    "noexecstack",
    "--no-as-needed",
    f"--build-id=0x{'00' * BUILD_ID_SIZE}",
)


class LinkTool(Struct, frozen=True):
    """A linker as a command; a compiler driver takes the linker's options one by one."""

    command: tuple[str, ...]
    is_driver: bool = False

    def arguments(self, options: Sequence[str]) -> list[str]:
        """The command line for options and inputs in the linker's own notation."""
        if not self.is_driver:
            return [*self.command, *options]
        wrapped = [part for option in options for part in ("-Xlinker", option)]
        return [*self.command, "-shared", "-nostdlib", *wrapped]


def find_tool(machine: int) -> LinkTool:
    """The first linker for an ELF machine that this computer has.

    Looks for `<machine>-linux-gnu-ld`, `ld.lld`, for the own machine `ld` and `cc`, and for the
    `ziglang` package. Raises UnsupportedError where there is none.
    """
    name = elf.machine_name(machine)
    linkers = [f"{name}-linux-gnu-ld", "ld.lld", *(["ld"] if machine == _own_machine() else [])]
    for linker in linkers:
        if shutil.which(linker):
            return LinkTool((linker,))
    if machine == _own_machine() and shutil.which("cc"):
        return LinkTool(("cc",), is_driver=True)
    if importlib.util.find_spec("ziglang"):
        return LinkTool((sys.executable, "-m", "ziglang", "ld.lld"))
    raise UnsupportedError(
        f"linker requires {', '.join(linkers)} or the ziglang package for {name}, got none of them"
    )


def named_tool(name: str, machine: int) -> LinkTool:
    """The linker of that name, one of TOOLS, for an ELF machine. Raises UnsupportedError where this
    computer lacks it.
    """
    command = name
    if machine != _own_machine() and name != "ld.lld":
        command = f"{elf.machine_name(machine)}-linux-gnu-{'gcc' if name == 'cc' else name}"
    if shutil.which(command) is None:
        raise UnsupportedError(f"linker {name} requires a command {command}, got none")
    return LinkTool((command,), is_driver=name == "cc")


def _own_machine() -> int:
    """The ELF machine number of the running Python, from its own file."""
    with open(sys.executable, "rb") as file:
        header = file.read(elf.FILE_HEADER.size)
    is_elf = header[:4] == elf.MAGIC
    return elf.FileHeader(*elf.FILE_HEADER.unpack(header)).machine if is_elf else -1


def link_with_tool(
    objects: Sequence[bytes],
    *,
    soname: str,
    exports: Sequence[str],
    needed: Sequence[str] = ("libc.so.6",),
    weights: Sequence[WeightBlob] = (),
    note: bytes | None = None,
    isa_level: int | None = None,
    out: BinaryIO,
    linker: str | None = None,
) -> None:
    """Does what `link_shared` does, with the `linker` of TOOLS or the first one that is found.

    Weights have to be within the reach of the processor's relative addresses. Raises
    UnsupportedError where no linker is found or for an `isa_level`, and ArtifactError with the
    linker's message where it fails.
    """
    if isa_level is not None:
        raise UnsupportedError(f"linking with a tool requires no ISA level, got {isa_level}")
    parsed = read_objects(objects)
    check_names(soname, needed, exports)
    _check_exports(parsed, exports)
    machine = parsed[0].machine
    tool = find_tool(machine) if linker is None else named_tool(linker, machine)
    with TemporaryDirectory() as folder:
        work = Path(folder)
        names = [f"object{number}.o" for number in range(len(objects))]
        for name, data in zip(names, objects, strict=True):
            (work / name).write_bytes(data)
        with open(work / "weights.o", "wb") as file:
            write_weights_object(parsed[0], weights, note, file)
        names += ["weights.o", *_stub_libraries(tool, parsed[0], needed, work)]
        lines = "".join(f'"{name}"; ' for name in sorted(set(exports)))
        visible = f"global: {lines}" if lines else ""
        (work / "exports").write_text(f"{{ {visible}local: *; }};\n")
        options = ["-soname", soname, "--version-script=exports", "-o", "linked.so", *names]
        _run(tool, options, work)
        append_trailer(work / "linked.so")
        with open(work / "linked.so", "rb") as linked:
            shutil.copyfileobj(linked, out, 1 << 20)


def _check_exports(objects: Sequence[RelocatableObject], exports: Sequence[str]) -> None:
    visible = {
        symbol.name
        for each in objects
        for symbol in each.symbols
        if symbol.is_defined and not symbol.is_local and symbol.visibility == elf.STV_DEFAULT
    }
    for name in exports:
        if name not in visible or '"' in name:
            raise ArtifactError(
                f"linker requires a visible definition of export '{name}', got none"
            )


def _run(tool: LinkTool, options: Sequence[str], folder: Path) -> None:
    arguments = tool.arguments([*_FIXED_OPTIONS, *options])
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        message = "; ".join(done.stderr.split("\n")[:3]).strip("; ")
        raise ArtifactError(
            f"{' '.join(tool.command)}: linker requires linkable objects, got {message}"
        )


def _stub_libraries(
    tool: LinkTool, first: RelocatableObject, needed: Sequence[str], folder: Path
) -> list[str]:
    """Empty libraries of the names to depend on: a linker takes such a name from nowhere else."""
    with open(folder / "empty.o", "wb") as file:
        write_weights_object(first, (), None, file)
    names = [f"needed{number}.so" for number in range(len(needed))]
    for name, library in zip(names, needed, strict=True):
        _run(tool, ["-soname", library, "-o", name, "empty.o"], folder)
    return names


def write_weights_object(
    like: RelocatableObject,
    weights: Sequence[WeightBlob],
    note: bytes | None,
    out: BinaryIO,
    *,
    apart: bool = False,
) -> None:
    """Writes a relocatable object for the machine of `like` with the weights and the note. Weights
    that are `apart` go where linkers for x86-64 put what relative addresses need not reach.
    """
    blobs, digest, offsets = weights_section(weights)
    if apart and like.machine == elf.EM_X86_64:
        blobs.name, blobs.flags = ".lrodata.weights", blobs.flags | elf.SHF_X86_64_LARGE
    notes = OutputSection(".note.weft", elf.SHT_NOTE, elf.SHF_ALLOC, 4)
    notes.content += weft_note(note) if note is not None else b""
    stack = OutputSection(".note.GNU-stack", elf.SHT_PROGBITS, 0)
    names = elf.StringTable()
    strings = OutputSection(".strtab", elf.SHT_STRTAB, 0, content=names.data)
    symbols = OutputSection(".symtab", elf.SHT_SYMTAB, 0, 8, entry_size=elf.SYMBOL.size)
    symbols.info, symbols.link = 1, strings
    symbols.content += bytes(elf.SYMBOL.size)
    info = elf.STB_GLOBAL << 4 | elf.STT_OBJECT
    for blob, offset in zip(weights, offsets, strict=True):
        name = names.add(blob.symbol)
        symbols.content += elf.SYMBOL.pack(name, info, elf.STV_HIDDEN, 1, offset, blob.size)
    _write_relocatable(like, [blobs, digest, notes, stack, symbols, strings], out)


def _write_relocatable(
    like: RelocatableObject, sections: Sequence[OutputSection], out: BinaryIO
) -> None:
    names = elf.StringTable()
    section_names = OutputSection(".shstrtab", elf.SHT_STRTAB, 0, content=names.data)
    sections = [*sections, section_names]
    numbers = [names.add(section.name) for section in sections]
    end = elf.FILE_HEADER.size
    for section in sections:
        section.offset = elf.align_up(end, section.alignment)
        end = section.offset + section.file_size
    table_offset = elf.align_up(end, 8)
    out.write(_relocatable_header(like, table_offset, len(sections) + 1))
    for section in sections:
        out.write(bytes(section.offset - out.tell()))
        if section.stream is not None:
            section.stream(out)
        else:
            out.write(section.content)
    out.write(bytes(table_offset - out.tell()) + bytes(elf.SECTION_HEADER.size))
    for name, section in zip(numbers, sections, strict=True):
        link = 1 + sections.index(section.link) if section.link else 0
        out.write(elf.SECTION_HEADER.pack(*section.header(name, link)))


def _relocatable_header(like: RelocatableObject, table_offset: int, sections: int) -> bytes:
    header = elf.FileHeader(
        elf.IDENT,
        elf.ET_REL,
        like.machine,
        1,
        0,
        0,
        table_offset,
        like.flags,
        elf.FILE_HEADER.size,
        0,
        0,
        elf.SECTION_HEADER.size,
        sections,
        sections - 1,
    )
    return elf.FILE_HEADER.pack(*header)
