"""WebAssembly objects -> one module, which imports nothing and exports the memory it brings along.

The stack is stored at the bottom of the memory, so that one that overflows traps; data, the weights
and the heap follow.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import BinaryIO, Final, cast

from msgspec import Struct

from weft.compiler.machine.elf.records import align_up
from weft.compiler.machine.wasm.note import MAGIC, wasm_note, wasm_trailer
from weft.compiler.machine.wasm.object_file import (
    CODE,
    CUSTOM,
    DATA,
    ELEMENT,
    EXPORT,
    FUNCTION,
    GLOBAL,
    MEMORY,
    TABLE,
    TYPE,
    WEAK,
    Piece,
    Relocation,
    Symbol,
    SymbolKind,
    WasmObject,
    read_wasm,
)
from weft.compiler.machine.weights.blob import HashingFile, WeightBlob
from weft.dialects.errors import ArtifactError, UnsupportedError

STACK_BYTES: Final = 1 << 20
PAGE: Final = 1 << 16
HEAP_BASE: Final = "__heap_base"
"""The symbol of the first byte that nothing else uses."""

_LARGEST: Final = 1 << 32
_HEAP_ALIGNMENT: Final = 64
_I32, _FUNCREF, _CONST, _END = 0x7F, 0x70, 0x41, 0x0B

# How the field of each relocation type is written.
_UNSIGNED: Final = {0: "function", 3: "memory", 6: "type", 7: "global", 20: "table"}
_SIGNED: Final = {1: "element", 4: "memory"}
_WORD: Final = {2: "element", 5: "memory", 13: "global"}


def unsigned(value: int, *, padded: bool = False) -> bytes:
    """LEB128; in 5 bytes if padded, as fields that are patched have it."""
    out = bytearray()
    while value >= 0x80 or (padded and len(out) < 4):
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def signed(value: int, *, padded: bool = False) -> bytes:
    """Signed LEB128; in 5 bytes if padded."""
    out = bytearray()
    while not -0x40 <= value < 0x40 or (padded and len(out) < 4):
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value & 0x7F])


class _SymbolValue(Struct, frozen=True):
    """What a symbol leads to: a number of its kind's index space, or an address."""

    kind: SymbolKind
    value: int


class _Module:
    """All objects side by side: numbers of their types and functions, addresses of their data."""

    def __init__(self, objects: Sequence[WasmObject], blobs: Sequence[WeightBlob]) -> None:
        self.objects = objects
        self.types = list(
            dict.fromkeys(function_type for each in objects for function_type in each.types)
        )
        self.first_function: list[int] = []
        self.functions: list[tuple[WasmObject, Piece, int]] = []
        for each in objects:
            self.first_function.append(len(self.functions))
            for piece, number in zip(
                each.functions, each.signatures[len(each.imports) :], strict=True
            ):
                self.functions.append((each, piece, self.types.index(each.types[number])))
        self._end = STACK_BYTES
        self.addresses = [[self._reserve(piece) for piece in each.segments] for each in objects]
        self.blobs = [(blob, self._align(blob.size, blob.alignment)) for blob in blobs]
        self.heap = align_up(self._end, _HEAP_ALIGNMENT)
        if self.heap >= _LARGEST:
            got = f"{self.heap} bytes of stack, data and weights"
            raise UnsupportedError(f"linker requires a memory below 4 GiB, got {got}")
        self.elements: dict[int, int] = {}
        self._global = self._resolve()

    def _reserve(self, piece: Piece) -> int:
        return self._align(len(piece.content), piece.alignment)

    def _align(self, size: int, alignment: int) -> int:
        start = align_up(self._end, alignment)
        self._end = start + size
        return start

    def _resolve(self) -> dict[str, _SymbolValue]:
        found = {HEAP_BASE: _SymbolValue(SymbolKind.DATA, self.heap)}
        found |= {blob.symbol: _SymbolValue(SymbolKind.DATA, start) for blob, start in self.blobs}
        weak: set[str] = set()
        for number, each in enumerate(self.objects):
            for symbol in each.symbols:
                if not symbol.is_defined or symbol.is_local or not symbol.name:
                    continue
                if symbol.name in found and symbol.name not in weak:
                    if symbol.flags & WEAK:
                        continue
                    rule = f"one definition of '{symbol.name}'"
                    raise ArtifactError(f"{each.name}: linker requires {rule}, got another")
                found[symbol.name] = self._defined(number, symbol)
                (weak.add if symbol.flags & WEAK else weak.discard)(symbol.name)
        return found

    def _defined(self, number: int, symbol: Symbol) -> _SymbolValue:
        each = self.objects[number]
        if symbol.kind is SymbolKind.FUNCTION:
            inside = symbol.index - len(each.imports)
            return _SymbolValue(symbol.kind, self.first_function[number] + inside)
        if symbol.kind is SymbolKind.DATA:
            return _SymbolValue(symbol.kind, self.addresses[number][symbol.index] + symbol.offset)
        rule = "functions and data alone"
        raise UnsupportedError(f"{each.name}: linker requires {rule}, got '{symbol.name}'")

    def value_of(self, number: int, symbol: Symbol) -> _SymbolValue:
        """What a symbol of an object leads to. The only global is the stack pointer."""
        if symbol.kind in (SymbolKind.GLOBAL, SymbolKind.TABLE):
            return _SymbolValue(symbol.kind, 0)
        return self._defined(number, symbol) if symbol.is_local else self._global[symbol.name]

    def missing(self) -> list[str]:
        """The names that no object defines."""
        needed = (
            symbol.name
            for each in self.objects
            for symbol in each.symbols
            if symbol.kind in (SymbolKind.FUNCTION, SymbolKind.DATA) and not symbol.is_defined
        )
        return sorted(set(needed) - self._global.keys())

    def function(self, name: str) -> int:
        """The number of an exported function."""
        symbol_value = self._global.get(name)
        if symbol_value is None or symbol_value.kind is not SymbolKind.FUNCTION:
            raise ArtifactError(f"linker requires a definition of export '{name}', got none")
        return symbol_value.value

    def element(self, function: int) -> int:
        """The number in the table under which a function is called by pointer; NULL is 0."""
        return self.elements.setdefault(function, 1 + len(self.elements))

    def patch(self) -> None:
        """Fills in every field that names something."""
        for number, each in enumerate(self.objects):
            for piece in (*each.functions, *each.segments):
                for relocation in piece.relocations:
                    self._patch(number, piece, relocation)

    def _patch(self, number: int, piece: Piece, relocation: Relocation) -> None:
        each, relocation_type, offset = self.objects[number], relocation.type, relocation.offset
        role = (
            _UNSIGNED.get(relocation_type)
            or _SIGNED.get(relocation_type)
            or _WORD.get(relocation_type)
        )
        if role is None:
            raise UnsupportedError(
                f"{each.name}: linker requires a known relocation, got {relocation_type}"
            )
        value = self._value(number, role, relocation)
        if relocation_type in _WORD:
            field = value.to_bytes(4, "little")
        else:
            field = (unsigned if relocation_type in _UNSIGNED else signed)(
                _wrapped(value, relocation_type), padded=True
            )
        piece.content[offset : offset + len(field)] = field

    def _value(self, number: int, role: str, relocation: Relocation) -> int:
        each, index = self.objects[number], relocation.index
        if role == "type":
            return self.types.index(each.types[index])
        symbol_value = self.value_of(number, each.symbols[index])
        if role == "element":
            return self.element(symbol_value.value)
        return symbol_value.value + relocation.addend


def _wrapped(value: int, relocation_type: int) -> int:
    """Addresses above 2 GiB as the signed constants that they are."""
    return value - _LARGEST if relocation_type in _SIGNED and value >= _LARGEST >> 1 else value


def link_wasm(
    objects: Sequence[bytes],
    *,
    exports: Sequence[str],
    weights: Sequence[WeightBlob] = (),
    note: bytes | None = None,
    out: BinaryIO,
) -> None:
    """Writes a WebAssembly module to `out`; the same input gives the same bytes.

    It exports `memory` and the functions `exports`. `note` is kept in a custom section, where
    `read_note` finds it; the last section is a digest of all others. Raises ArtifactError for
    damaged objects or undefined symbols, and UnsupportedError for sound ones that need a memory of
    4 GiB or more.
    """
    with _intact():
        module = _Module(_read(objects), weights)
        if missing := module.missing():
            raise ArtifactError(f"linker requires a definition of {', '.join(missing)}, got none")
        module.patch()
        sections = list(_sections(module, exports))
    hashed = HashingFile(out)
    hashed.write(MAGIC)
    for section_id, content in sections:
        hashed.write(_section(section_id, content))
    _write_data(module, cast("BinaryIO", hashed))
    if note is not None:
        hashed.write(_section(CUSTOM, wasm_note(note)))
    out.write(wasm_trailer(hashed.digest()))


@contextmanager
def _intact() -> Generator[None]:
    """Says of numbers that lead nowhere that an object is damaged."""
    try:
        yield
    except (IndexError, OverflowError, ValueError) as error:
        raise ArtifactError(f"linker requires intact objects, got {error}") from error


def _read(objects: Sequence[bytes]) -> list[WasmObject]:
    return [read_wasm(data, f"object {number}") for number, data in enumerate(objects)]


def _sections(module: _Module, exports: Sequence[str]) -> Iterable[tuple[int, bytes]]:
    pages = align_up(module.heap, PAGE) // PAGE
    table = 1 + len(module.elements)
    stack = bytes([_I32, 1, _CONST]) + signed(STACK_BYTES) + bytes([_END])
    named = [(name, module.function(name)) for name in sorted(exports)]
    exported = [_vector(b"memory") + b"\2\0"]
    exported += [_vector(name.encode()) + b"\0" + unsigned(number) for name, number in named]
    bodies = [_vector(bytes(piece.content)) for _, piece, _ in module.functions]
    yield TYPE, _list(module.types)
    yield FUNCTION, _list([unsigned(each) for *_, each in module.functions])
    yield TABLE, _list([bytes([_FUNCREF, 1]) + unsigned(table) + unsigned(table)])
    yield MEMORY, _list([b"\0" + unsigned(pages)])
    yield GLOBAL, _list([stack])
    yield EXPORT, _list(exported)
    if module.elements:
        numbers = _list([unsigned(number) for number in module.elements])
        yield ELEMENT, _list([bytes([0, _CONST, 1, _END]) + numbers])
    yield CODE, _list(bodies)


def _section(section_id: int, content: bytes) -> bytes:
    return bytes([section_id]) + unsigned(len(content)) + content


def _list(items: Sequence[bytes]) -> bytes:
    return unsigned(len(items)) + b"".join(items)


def _vector(content: bytes) -> bytes:
    return unsigned(len(content)) + content


def _write_data(module: _Module, out: BinaryIO) -> None:
    """Segments that are not all zeros, and the weights, which are streamed."""
    kept = [
        (address, bytes(piece.content))
        for each, addresses in zip(module.objects, module.addresses, strict=True)
        for piece, address in zip(each.segments, addresses, strict=True)
        if any(piece.content)
    ]
    heads = [_placement(address) + _vector(content) for address, content in kept]
    blobs = [(_placement(start) + unsigned(blob.size), blob) for blob, start in module.blobs]
    count = unsigned(len(heads) + len(blobs))
    size = len(count) + sum(map(len, heads)) + sum(len(head) + blob.size for head, blob in blobs)
    out.write(bytes([DATA]) + unsigned(size) + count + b"".join(heads))
    for head, blob in blobs:
        out.write(head)
        blob.write(out)


def _placement(address: int) -> bytes:
    value = address - _LARGEST if address >= _LARGEST >> 1 else address
    return bytes([0, _CONST]) + signed(value) + bytes([_END])
