"""Runs artifacts for other processors in an emulator, with no C toolchain of theirs.

The host is a program written here as LLVM IR. It is linked as a shared object whose entry point is
patched to its only function, so that the loader of the other architecture starts it.
"""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weft.compiler.machine.artifact.artifact import Compiled
from weft.compiler.machine.codegen.object_code import compile_object
from weft.compiler.machine.elf import records as elf
from weft.compiler.machine.elf.link import link_shared
from weft.compiler.target.features import baseline
from weft.compiler.target.target import Target

THREADS = 2


_HOST = """
{input_path}
{output_path}
{read}
{write}
declare ptr @fopen(ptr, ptr)
declare i64 @fread(ptr, i64, i64, ptr)
declare i64 @fwrite(ptr, i64, i64, ptr)
declare i32 @fclose(ptr)
declare ptr @aligned_alloc(i64, i64)
declare void @exit(i32)
declare ptr @{prefix}_create(ptr)
declare i32 @{prefix}_run(ptr, ptr)
declare void @{prefix}_destroy(ptr)
declare void @{prefix}_set_profile(ptr, ptr, ptr)
declare i32 @{prefix}_self_test(ptr)
declare ptr @{prefix}_last_error(ptr)
declare i32 @puts(ptr)
declare i32 @strcmp(ptr, ptr)
@refused = internal constant [52 x i8]
  c"create requires weft_options of 96 bytes, got 95\\00\\00\\00\\00"
@told = internal global [2 x i64] zeroinitializer ; spans of kernels, and of whole calls
define internal void @tell(ptr %counts, ptr %span) {{
  %number.at = getelementptr i8, ptr %span, i64 40
  %number = load i32, ptr %number.at
  %is.kernel = icmp sge i32 %number, 0
  %is.call = icmp eq i32 %number, -1
  %one.kernel = zext i1 %is.kernel to i64
  %one.call = zext i1 %is.call to i64
  %calls = getelementptr i8, ptr %counts, i64 8
  %begin.at = getelementptr i8, ptr %span, i64 8
  %end.at = getelementptr i8, ptr %span, i64 16
  %begin = load i64, ptr %begin.at
  %end = load i64, ptr %end.at
  %forwards = icmp ule i64 %begin, %end
  br i1 %forwards, label %count, label %leave
count:
  %kernels.before = atomicrmw add ptr %counts, i64 %one.kernel monotonic
  %calls.before = atomicrmw add ptr %calls, i64 %one.call monotonic
  br label %leave
leave:
  ret void
}}
define void @start() {{
  %x = call ptr @aligned_alloc(i64 64, i64 {input_memory})
  %y = call ptr @aligned_alloc(i64 64, i64 {output_memory})
  %w = call ptr @aligned_alloc(i64 64, i64 {workspace_memory})
  %in = call ptr @fopen(ptr @input, ptr @read)
  %got = call i64 @fread(ptr %x, i64 1, i64 {input_bytes}, ptr %in)
  %closed = call i32 @fclose(ptr %in)
  %whole = icmp eq i64 %got, {input_bytes}
  br i1 %whole, label %create, label %no_input
no_input:
  call void @exit(i32 1)
  unreachable
create:
  %options = alloca [12 x i64], align 8
  store [12 x i64] zeroinitializer, ptr %options
  store i64 95, ptr %options
  %refused.context = call ptr @{prefix}_create(ptr %options)
  %reason = call ptr @{prefix}_last_error(ptr null)
  %differs = call i32 @strcmp(ptr %reason, ptr @refused)
  %is.told = icmp eq i32 %differs, 0
  br i1 %is.told, label %create_well, label %not_told
not_told:
  call void @exit(i32 5)
  unreachable
create_well:
  store i64 96, ptr %options
  %threads = getelementptr i8, ptr %options, i64 8
  store i32 {threads}, ptr %threads
  %context = call ptr @{prefix}_create(ptr %options)
  %null = icmp eq ptr %context, null
  br i1 %null, label %no_context, label %test
no_context:
  %why = call ptr @{prefix}_last_error(ptr null)
  %said = call i32 @puts(ptr %why)
  call void @exit(i32 2)
  unreachable
test:
  %tested = {test}
  %passed = icmp eq i32 %tested, 0
  br i1 %passed, label %run, label %not_passed
not_passed:
  call void @exit(i32 4)
  unreachable
run:
  %inputs = alloca ptr, align 8
  store ptr %x, ptr %inputs
  %outputs = alloca ptr, align 8
  store ptr %y, ptr %outputs
  %call = alloca [8 x i64], align 8
  store [8 x i64] zeroinitializer, ptr %call
  store i64 64, ptr %call
  %c8 = getelementptr i8, ptr %call, i64 8
  store ptr %inputs, ptr %c8
  %c16 = getelementptr i8, ptr %call, i64 16
  store ptr %outputs, ptr %c16
  %c32 = getelementptr i8, ptr %call, i64 32
  store ptr %w, ptr %c32
  %c40 = getelementptr i8, ptr %call, i64 40
  store i64 {workspace}, ptr %c40
  call void @{prefix}_set_profile(ptr %context, ptr @tell, ptr @told)
  %status = call i32 @{prefix}_run(ptr %context, ptr %call)
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %profiled, label %failed
failed:
  call void @exit(i32 3)
  unreachable
profiled:
  %kernels = load i64, ptr @told
  %calls.at = getelementptr i8, ptr @told, i64 8
  %calls = load i64, ptr %calls.at
  %some = icmp sgt i64 %kernels, 0
  %one = icmp eq i64 %calls, 1
  %complete = and i1 %some, %one
  br i1 %complete, label %write_it, label %untold
untold:
  call void @exit(i32 6)
  unreachable
write_it:
  call void @{prefix}_destroy(ptr %context)
  %out = call ptr @fopen(ptr @output, ptr @write)
  %put = call i64 @fwrite(ptr %y, i64 1, i64 {output_bytes}, ptr %out)
  %done = call i32 @fclose(ptr %out)
  call void @exit(i32 0)
  unreachable
}}"""
"""Reads `input`, calls the model, writes `output`; exits with 1 to 6 at fault, and where it gets no
context, with 2, it says why. With 5 it was not told why wrong options were refused, with 6 the
profile had no kernels or not one call.
"""


@dataclass(frozen=True)
class Emulator:
    """An emulator's command, and where the C library of its processor lies."""

    arch: str
    loader: str
    options: tuple[str, ...] = ()

    @property
    def prefix(self) -> Path:
        """Where Debian puts libraries of that architecture."""
        return Path(f"/usr/{self.arch}-linux-gnu")

    @property
    def command(self) -> str | None:
        """The emulator's path, if it is installed."""
        return shutil.which(f"qemu-{self.arch}") or shutil.which(f"qemu-{self.arch}-static")

    def missing(self) -> str | None:
        """What has to be installed first, if anything."""
        if self.command is None:
            return f"qemu-{self.arch} is not installed (Debian: qemu-user)"
        if not (self.prefix / "lib" / self.loader).exists():
            return f"no C library in {self.prefix} (Debian: libc6-{self.arch}-cross)"
        return None

    def arguments(self, program: Path, cpu: str | None = None) -> list[str]:
        """The command that runs a program that lies beside its libraries, on a processor of that
        name.
        """
        assert self.command is not None, "an emulator that runs programs is installed"
        folders = f"{program.parent}:{self.prefix / 'lib'}"
        loader = self.prefix / "lib" / self.loader
        options = self.options if cpu is None else ("-cpu", cpu)
        return [self.command, *options, str(loader), "--library-path", folders, str(program)]

    def run(self, program: Path, cpu: str | None = None) -> subprocess.CompletedProcess[str]:
        """Runs such a program to its end."""
        command = self.arguments(program, cpu)
        return subprocess.run(command, capture_output=True, text=True, check=False)


AARCH64 = Emulator("aarch64", "ld-linux-aarch64.so.1")
RISCV64 = Emulator(
    "riscv64", "ld-linux-riscv64-lp64d.so.1", ("-cpu", "rv64,v=true,vlen=128,vext_spec=v1.0")
)


def make_executable(path: Path) -> None:
    """Sets the entry point to the only symbol that the shared object exports."""
    data = bytearray(path.read_bytes())
    header = elf.FileHeader(*elf.FILE_HEADER.unpack_from(data))
    size = header.section_count * elf.SECTION_HEADER.size
    table = data[header.section_offset : header.section_offset + size]
    sections = [elf.SectionHeader(*fields) for fields in elf.SECTION_HEADER.iter_unpack(table)]
    symbols = next(section for section in sections if section.type == elf.SHT_DYNSYM)
    records = data[symbols.offset : symbols.offset + symbols.size]
    last = elf.SymbolRecord(*list(elf.SYMBOL.iter_unpack(records))[-1])
    elf.FILE_HEADER.pack_into(data, 0, *header._replace(entry=last.value))
    path.write_bytes(data)


def run_artifact(
    compiled: Compiled, emulator: Emulator, array: np.ndarray, folder: Path
) -> np.ndarray:
    """What a model of one input and one output, both of constant size, gives for that input."""
    done = emulator.run(build_host(compiled, array, folder))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (output,) = compiled.signature.outputs
    shape = tuple(int(dim) for dim in output.dims)
    return np.frombuffer((folder / "output").read_bytes(), output.dtype).reshape(shape)


def build_host(compiled: Compiled, array: np.ndarray, folder: Path) -> Path:
    """A program that calls a model of one input and one output, both of constant size."""
    (output,) = compiled.signature.outputs
    elements = np.prod([int(dim) for dim in output.dims], dtype=int)
    compiled.export(folder / "libmodel.so")
    (folder / "input").write_bytes(array.tobytes())
    output_bytes = int(elements) * np.dtype(output.dtype).itemsize
    source = _host(compiled, array.nbytes, output_bytes, folder)
    return link_program(
        source, baseline(compiled.target), folder / "program.so", ["libmodel.so", "libc.so.6"]
    )


def link_program(source: str, target: Target, path: Path, needed: Sequence[str]) -> Path:
    """Writes a program whose LLVM IR has the function `start`, and which needs these libraries."""
    objects = [compile_object(source, target)]
    with open(path, "wb") as out:
        link_shared(objects, soname=path.name, exports=["start"], needed=needed, out=out)
    make_executable(path)
    return path


def _host(compiled: Compiled, input_bytes: int, output_bytes: int, folder: Path) -> str:
    """The host of one model, its files and its sizes filled in."""
    workspace: Any = compiled.metadata["workspace_bytes"]
    own = f"call i32 @{compiled.prefix}_self_test(ptr %context)"
    return _HOST.format(
        prefix=compiled.prefix,
        test=own if "self_test" in compiled.metadata else "add i32 0, 0",
        input_path=_text("input", str(folder / "input")),
        output_path=_text("output", str(folder / "output")),
        read=_text("read", "rb"),
        write=_text("write", "wb"),
        input_bytes=input_bytes,
        output_bytes=output_bytes,
        workspace=workspace,
        input_memory=_memory(input_bytes),
        output_memory=_memory(output_bytes),
        workspace_memory=_memory(workspace),
        threads=THREADS,
    )


def _text(name: str, content: str) -> str:
    data = content.encode() + b"\0"
    escaped = "".join(f"\\{byte:02x}" for byte in data)
    return f'@{name} = private constant [{len(data)} x i8] c"{escaped}"'


def _memory(size: int) -> int:
    return (size + 64) // 64 * 64
