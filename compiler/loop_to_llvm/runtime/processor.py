"""Which of an artifact's levels a processor can run: asked of the processor itself on x86-64 and of
the system elsewhere, by code that all of its kind run. Nothing is remembered beside the context:
asking again gives the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

from llvmlite import ir
from msgspec import Struct

from weft.compiler.loop_to_llvm.runtime.code import (
    I1,
    I32,
    I64,
    NULL,
    POINTER,
    VOID,
    Code,
    compile_plainly,
    constant_bytes,
    declare_function,
    i32,
    i64,
    machine_code,
)
from weft.compiler.loop_to_llvm.runtime.layout import CHECK_SIZES, CONTEXT, PROGRAM, WORKSPACE
from weft.compiler.loop_to_llvm.runtime.message import message_writer
from weft.compiler.loop_to_llvm.runtime.pool import Pool
from weft.compiler.target.cpuid import STATE, TILE_STATE, XSAVE, Register
from weft.compiler.target.features import Word, needed_bits
from weft.compiler.target.hwcap import AuxiliaryEntry

# void cpuid(i32 leaf, i32 subleaf, ptr registers)
_CPUID: Final = bytes.fromhex(
    "4989d0"  # mov r8, rdx
    "4989d9"  # mov r9, rbx
    "89f8"  # mov eax, edi
    "89f1"  # mov ecx, esi
    "0fa2"  # cpuid
    "418900"  # mov [r8], eax
    "41895804"  # mov [r8 + 4], ebx
    "41894808"  # mov [r8 + 8], ecx
    "4189500c"  # mov [r8 + 12], edx
    "4c89cb"  # mov rbx, r9
)
# void xgetbv(ptr state)
_XGETBV: Final = bytes.fromhex(
    "31c9"  # xor ecx, ecx
    "0f01d0"  # xgetbv
    "8907"  # mov [rdi], eax
)
# void permit_tiles(ptr state)
_PERMIT_TILES: Final = bytes.fromhex(
    "57"  # push rdi
    "b89e000000"  # mov eax, 158 (arch_prctl)
    "bf23100000"  # mov edi, 0x1023 (ARCH_REQ_XCOMP_PERM)
    "be12000000"  # mov esi, 18 (the data of tiles)
    "0f05"  # syscall
    "5f"  # pop rdi
    "85c0"  # test eax, eax
    "7406"  # jz to the end
    "8127fffff9ff"  # and dword [rdi], ~TILE_STATE
)
_EXTENDED: Final = 0x80000000
_NONE: Final = -1
_Bits = Mapping[Word, ir.Value]


class Level(Struct, frozen=True):
    """Code for processors that have all features of all groups; its symbols start with `prefix`."""

    prefix: str
    groups: tuple[tuple[str, ...], ...] = ()


class Processor:
    """Declares the choice of a level, and emits it with what leads to the level that was chosen."""

    def __init__(self, pool: Pool, levels: Sequence[Level] = ()):
        self.pool = pool
        self.module: ir.Module = pool.module
        self.levels = levels
        self._arch = pool.platform.arch
        features = chain(*(chain(*level.groups) for level in levels))
        self._bits = needed_bits(self._arch, dict.fromkeys(features))
        self._words = list(self._bits)
        self._is_asked = any(level.groups for level in levels)

    @property
    def choose_level(self) -> ir.Function:
        """`i32 (i32 wanted)`: the last level that the processor can run, or the one before number
        `wanted` if that is not 0; -1 where there is none.
        """
        return self.pool.declare("choose_level", ir.FunctionType(I32, [I32]))

    @property
    def refusal(self) -> ir.Function:
        """`ptr ()`: why the processor cannot run the first level; NULL where it can."""
        return self.pool.declare("refusal", ir.FunctionType(POINTER, []))

    @property
    def shared(self) -> list[str]:
        """What the rest of the run time calls, the levels' own code, and a self-test."""
        levels = self._own_levels
        forwarders = [each.name for level in levels for each, _ in self._forwarders(level)]
        programs = ("program", "workspace", "check_sizes") if forwarders else ()
        own = [f"{self.pool.prefix}.{name}" for name in programs]
        return [self.choose_level.name, self.refusal.name, *forwarders, *own]

    @property
    def _own_levels(self) -> Sequence[Level]:
        """Levels with symbols of their own."""
        return self.levels if len(self.levels) > 1 else ()

    def define(self) -> None:
        if self._is_asked:
            self._define_ask()
            compile_plainly(self._ask)
        self._define_choose_level()
        self._define_refusal()
        for function in (self.choose_level, self.refusal):
            compile_plainly(function)
        for level in self._own_levels:
            self._define_forwarders(level)
        if self._own_levels:
            self._define_check_sizes()
            self._define_program()
            self._define_workspace()

    @property
    def _ask(self) -> ir.Function:
        return self.pool.declare("ask_processor", ir.FunctionType(VOID, [POINTER]))

    def _define_ask(self) -> None:
        """Writes what each word says, 0 where there is no such word."""
        code = Code(self._ask.append_basic_block("entry"))
        (words,) = code.arguments
        registers = [word for word in self._words if isinstance(word, Register)]
        if registers:
            self._ask_processor(code, words, sorted({*registers, XSAVE[0]}))
        for position, word in enumerate(self._words):
            if isinstance(word, AuxiliaryEntry):
                said = self.pool.platform.call(code, "getauxval", [i64(word.type)])
                code.store(code.trunc(said, I32), code.at(words, 4 * position))
        code.ret_void()

    def _ask_processor(self, code: Code, words: ir.Value, registers: Sequence[Register]) -> None:
        """Writes what the registers say, among which is that of XSAVE."""
        answer, state = code.variable(ir.ArrayType(I32, 4)), code.variable(I32, i32(0))
        saves: ir.Value = I1(0)
        first = {leaf: self._cpuid(code, leaf, 0, answer)[0] for leaf in (0, _EXTENDED)}
        for register in registers:
            if register == STATE:
                continue
            most = first[_EXTENDED if register.leaf & _EXTENDED else 0]
            there = code.icmp_unsigned(">=", most, i32(register.leaf))
            if register.subleaf:
                subleaves = self._cpuid(code, register.leaf, 0, answer)[0]
                enough = code.icmp_unsigned(">=", subleaves, i32(register.subleaf))
                there = code.and_(there, enough)
            said = self._cpuid(code, register.leaf, register.subleaf, answer)[register.number]
            said = code.select(there, said, i32(0))
            if register in self._words:
                code.store(said, code.at(words, 4 * self._words.index(register)))
            if register == XSAVE[0]:
                saves = code.icmp_unsigned("!=", code.and_(said, i32(XSAVE[1])), i32(0))
        with code.if_then(saves):  # raises an invalid opcode elsewhere
            code.call(machine_code(self.module, self._name("xgetbv"), [POINTER], _XGETBV), [state])
        if self._bits.get(STATE, 0) & TILE_STATE:  # which may be used after asking for it once
            name = self._name("permit_tiles")
            code.call(machine_code(self.module, name, [POINTER], _PERMIT_TILES), [state])
        if STATE in self._words:
            address = code.at(words, 4 * self._words.index(STATE))
            code.store(code.load(state, typ=I32), address)

    def _name(self, name: str) -> str:
        return f"{self.pool.prefix}.{name}"

    def _cpuid(self, code: Code, leaf: int, subleaf: int, answer: ir.Value) -> list[ir.Value]:
        operand_types = [I32, I32, POINTER]
        function = machine_code(self.module, self._name("cpuid"), operand_types, _CPUID)
        code.call(function, [i32(leaf), i32(subleaf), answer])
        return [code.load(code.at(answer, 4 * number), typ=I32) for number in range(4)]

    def _answers(self, code: Code) -> _Bits:
        if not self._is_asked:
            return {}
        words = code.variable(ir.ArrayType(I32, len(self._words)))
        code.call(self._ask, [words])
        return {
            word: code.load(code.at(words, 4 * position), typ=I32)
            for position, word in enumerate(self._words)
        }

    def _has(self, code: Code, said: _Bits, features: Sequence[str]) -> ir.Value:
        has: ir.Value = I1(1)
        for word, bits in needed_bits(self._arch, features).items():
            there = code.and_(said[word], i32(bits))
            has = code.and_(has, code.icmp_unsigned("==", there, i32(bits)))
        return has

    def _define_choose_level(self) -> None:
        code = Code(self.choose_level.append_basic_block("entry"))
        (wanted,) = code.arguments
        said = self._answers(code)
        chosen: ir.Value = i32(_NONE)
        for number, level in enumerate(self.levels):
            has = self._has(code, said, list(chain(*level.groups)))
            free = code.icmp_unsigned("==", wanted, i32(0))
            named = code.icmp_unsigned("==", wanted, i32(number + 1))
            chosen = code.select(code.and_(has, code.or_(free, named)), i32(number), chosen)
        code.ret(chosen)

    def _define_refusal(self) -> None:
        code = Code(self.refusal.append_basic_block("entry"))
        groups = self.levels[0].groups
        said = self._answers(code)
        for number, group in enumerate(groups):
            text = f"{_refusal(groups, number)}\0".encode()
            reason = constant_bytes(self.module, self._name("refusal_text"), text)
            code.return_if(code.not_(self._has(code, said, group)), reason)
        code.ret(NULL)

    def _forwarders(self, level: Level) -> list[tuple[ir.Function, ir.Function]]:
        """What a level calls by names of its own, with what there is for all levels."""
        shared = [self.pool.parallel_for, message_writer(self.module), *self.pool.profile.shared]
        own = (each.name.removeprefix(f"{self.pool.prefix}.") for each in shared)
        names = (f"{level.prefix}.{name}" for name in own)
        declared = (
            declare_function(self.module, name, each.function_type)
            for name, each in zip(names, shared, strict=True)
        )
        return list(zip(declared, shared, strict=True))

    def _define_forwarders(self, level: Level) -> None:
        for function, shared in self._forwarders(level):
            code = Code(function.append_basic_block("entry"))
            result = code.call(shared, code.arguments, tail=True)
            returns = shared.function_type.return_type != VOID
            code.ret(result) if returns else code.ret_void()

    def _define_check_sizes(self) -> None:
        """What any level requires: no context says which one will run."""
        code = Code(self.pool.declare("check_sizes", CHECK_SIZES).append_basic_block("entry"))
        for level in self.levels:
            check = declare_function(self.module, f"{level.prefix}.check_sizes", CHECK_SIZES)
            status = code.call(check, code.arguments)
            code.return_if(code.icmp_unsigned("!=", status, i32(0)), status)
        code.ret(i32(0))

    def _define_program(self) -> None:
        """Goes on to the program of the level that the context was made for."""
        code = Code(self.pool.declare("program", PROGRAM).append_basic_block("entry"))
        chosen = CONTEXT.load(code, code.arguments[0], "level")
        for number, level in enumerate(self.levels):
            program = declare_function(self.module, f"{level.prefix}.program", PROGRAM)
            if number == len(self.levels) - 1:
                code.ret(code.call(program, code.arguments))
                return
            with code.if_then(code.icmp_unsigned("==", chosen, i32(number))):
                code.ret(code.call(program, code.arguments))

    def _define_workspace(self) -> None:
        """The most that any level needs: no context says which one will run."""
        code = Code(self.pool.declare("workspace", WORKSPACE).append_basic_block("entry"))
        most: ir.Value = i64(0)
        for level in self.levels:
            workspace = declare_function(self.module, f"{level.prefix}.workspace", WORKSPACE)
            size = code.call(workspace, code.arguments)
            most = code.select(code.icmp_unsigned("<", most, size), size, most)
        assert most.type == I64, "a size is an i64"
        code.ret(most)


def _refusal(groups: Sequence[Sequence[str]], number: int) -> str:
    """What is said where the groups before that number are there, and it is not."""
    rule = f"create requires a CPU with {', '.join(chain(*groups))}"
    before = ", ".join(chain(*groups[:number]))
    lacking = f"lacks some of {', '.join(groups[number])}"
    return (
        f"{rule}, got one with {before} that {lacking}"
        if before
        else f"{rule}, got one that {lacking}"
    )
