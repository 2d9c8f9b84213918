"""A program that chooses -> LLVM IR: the functions that the run time calls, which continue to those
of the program for the sizes of the call.

    i32 <prefix>.check_sizes(ptr ctx, ptr dims)
    i64 <prefix>.workspace(ptr dims)
    i32 <prefix>.program(ptr ctx, ptr inputs, ptr outputs, ptr dims, ptr workspace)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llvmlite import ir

from weft.compiler.abi.constants import Status
from weft.compiler.loop_to_llvm.runtime import CHECK_SIZES, PROGRAM, WORKSPACE, Runtime
from weft.compiler.loop_to_llvm.scalar.elements import I64
from weft.compiler.target.target import Target
from weft.dialects.loop.dispatch import DispatchOp
from weft.dialects.loop.program import ProgramOp


def bucket_prefix(prefix: str, program: ProgramOp) -> str:
    """What the names of the functions of a program that is chosen start with."""
    return f"{prefix}.{program.sym_name.data}"


def choice_of(program: ProgramOp) -> DispatchOp | None:
    """The choice that a program consists of, if it does."""
    op = program.body.block.first_op
    return op if isinstance(op, DispatchOp) else None


def emit_choice(
    chooser: ProgramOp, programs: Sequence[ProgramOp], target: Target, *, prefix: str
) -> str:
    """The LLVM IR as text; the programs are in the order of the choice."""
    module = ir.Module(chooser.sym_name.data)
    module.triple = target.triple
    return str(_Emitter(module, chooser, programs, target, prefix).run())


class _Emitter:
    """Emits both functions into a module."""

    def __init__(
        self,
        module: ir.Module,
        chooser: ProgramOp,
        programs: Sequence[ProgramOp],
        target: Target,
        prefix: str,
    ):
        choice = choice_of(chooser)
        assert choice is not None, "a chooser chooses"
        self.module, self.choice, self.programs = module, choice, programs
        self.symbols = chooser.symbol_names
        self.runtime = Runtime(module, target, prefix)
        self.prefix = prefix

    def run(self) -> ir.Module:
        """The module, filled."""
        program = self._function(PROGRAM, f"{self.prefix}.program")
        builder = ir.IRBuilder(program.append_basic_block("entry"))
        context, _, _, dims, _ = program.args
        sizes = self._sizes(builder, dims)
        self._chain(builder, program, 3, sizes)
        which = "the sizes of a bucket" if self.choice.padded is None else "within a bucket"
        text = f"run requires {', '.join(self.choice.names)} to be {which}, got "
        text += " and ".join("{}" for _ in self.choice.names)
        given = [sizes[name] for name in self.choice.names]
        if self.choice.otherwise is None:
            builder.ret(self.runtime.fail(builder, context, Status.BAD_DIMS, text, given))
        self._ask(WORKSPACE, "workspace")
        self._ask(CHECK_SIZES, "check_sizes")
        return self.module

    def _ask(self, function_type: ir.FunctionType, name: str) -> None:
        """A function whose last argument are the sizes, 0 where no program is for these."""
        function = self._function(function_type, f"{self.prefix}.{name}")
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        dims = len(function.args) - 1
        self._chain(builder, function, dims, self._sizes(builder, function.args[dims]))
        if self.choice.otherwise is None:
            builder.ret(ir.Constant(function.function_type.return_type, 0))

    def _function(self, function_type: ir.FunctionType, name: str) -> ir.Function:
        function = ir.Function(self.module, function_type, name)
        function.linkage = "hidden"
        function.attributes.add("nounwind")
        return function

    def _sizes(self, builder: ir.IRBuilder, dims: ir.Value) -> Mapping[str, ir.Value]:
        """The values of the sizes, out of the caller's array."""
        addresses = [builder.gep(dims, [ir.Constant(I64, n)], source_etype=I64)
                  for n in range(len(self.symbols))]  # fmt: skip
        loaded = (builder.load(address, typ=I64) for address in addresses)
        return dict(zip(self.symbols, loaded, strict=True))

    def _chain(
        self, builder: ir.IRBuilder, caller: ir.Function, dims: int, sizes: Mapping[str, ir.Value]
    ) -> None:
        """Returns what the program for the sizes does; continues behind where there is none."""
        function = caller.name.removeprefix(f"{self.prefix}.")
        count = len(self.choice.rows.data)
        for number, program in enumerate(self.programs[:count]):
            with builder.if_then(self._meets(builder, number, "==", sizes)):
                self._call(builder, caller, dims, function, program, sizes)
        for number in self.choice.by_volume() if self.choice.padded is not None else ():
            with builder.if_then(self._meets(builder, number, "<=", sizes)):
                padded = self.programs[count + number]
                self._call(builder, caller, dims, function, padded, sizes)
        if self.choice.otherwise is not None:
            self._call(builder, caller, dims, function, self.programs[-1], sizes)

    def _meets(
        self, builder: ir.IRBuilder, row: int, predicate: str, sizes: Mapping[str, ir.Value]
    ) -> ir.Value:
        """Whether the sizes are those of a row, or at least 1 and at most those."""
        met: ir.Value = ir.Constant(ir.IntType(1), 1)
        for name, size in zip(self.choice.names, self.choice.rows.data[row].data, strict=True):
            number = ir.Constant(I64, size.constant)
            met = builder.and_(met, builder.icmp_signed(predicate, sizes[name], number))
            if predicate != "==":
                one = ir.Constant(I64, 1)
                met = builder.and_(met, builder.icmp_signed(">=", sizes[name], one))
        return met

    def _call(
        self, builder: ir.IRBuilder, caller: ir.Function, dims: int, function: str,
        program: ProgramOp, sizes: Mapping[str, ir.Value],
    ) -> None:  # fmt: skip
        """Returns what a program's function does, with the sizes that the program still has."""
        own = program.symbol_names
        array = builder.alloca(I64, size=max(1, len(own)))
        for position, name in enumerate(own):
            address = builder.gep(array, [ir.Constant(I64, position)], source_etype=I64)
            builder.store(sizes[name], address)
        name = f"{bucket_prefix(self.prefix, program)}.{function}"
        callee = self._function(caller.function_type, name)
        arguments = list(caller.args)
        arguments[dims] = array
        builder.ret(builder.call(callee, arguments))
