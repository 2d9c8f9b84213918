"""An IR builder that knows blocks, loops, local variables and opaque pointers: what hand-written IR
is made with.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from llvmlite import ir
from llvmlite.ir.instructions import CastInstr, StoreAtomicInstr

I1, I8, I16 = ir.IntType(1), ir.IntType(8), ir.IntType(16)
I32, I64, DOUBLE = ir.IntType(32), ir.IntType(64), ir.DoubleType()
POINTER = ir.PointerType()
VOID = ir.VoidType()
NULL = ir.Constant(POINTER, None)

BODY = ir.FunctionType(VOID, [POINTER, I64, I64])
"""A part of a parallel loop: `body(argument, begin, end)`."""


def i32(value: int) -> ir.Constant:
    return ir.Constant(I32, value)


def i64(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


class _Callee(CastInstr):
    """An opaque pointer and the type of the function there, which llvmlite wants to read from the
    pointer.
    """

    def __init__(self, block: ir.Block, pointer: ir.Value, function_type: ir.FunctionType):
        super().__init__(block, "bitcast", pointer, POINTER)
        self._function_type = function_type

    @property
    def function_type(self) -> ir.FunctionType:
        return self._function_type


class _Function(ir.Function):
    """A function that may be passed on as an opaque pointer."""

    def __init__(self, module: ir.Module, function_type: ir.FunctionType, name: str):
        super().__init__(module, function_type, name)
        self.type = POINTER  # llvmlite still makes it a typed one

    @property
    def function_type(self) -> ir.FunctionType:
        return self.ftype


class Code(ir.IRBuilder):
    """A builder at the start of a new function; every variable has to be made before the first
    branch.
    """

    @staticmethod
    @contextmanager
    def continuing(builder: ir.IRBuilder) -> Generator[Code]:
        """Writes where the builder stands, and leaves it behind what was written."""
        code = Code(builder.block)
        code._anchor = builder._anchor
        yield code
        builder._block, builder._anchor = code._block, code._anchor

    @property
    def arguments(self) -> Sequence[ir.Argument]:
        return self.function.args

    def variable(self, llvm_type: ir.Type, initial: ir.Value | None = None) -> ir.Value:
        """Room for one value on the stack."""
        address = self.alloca(llvm_type)
        address.type = POINTER  # llvmlite still makes it a typed one
        if initial is not None:
            self.store(initial, address)
        return address

    def array(self, llvm_type: ir.Type, count: ir.Value) -> ir.Value:
        """Room for an i64 of values on the stack, and for one more: it is never empty."""
        address = self.alloca(llvm_type, self.add(count, i64(1)))
        address.type = POINTER  # llvmlite still makes it a typed one
        return address

    def variable_at_entry(self, llvm_type: ir.Type) -> ir.Value:
        """A variable that is made where the function starts, however far it has got."""
        with self.goto_entry_block():
            return self.variable(llvm_type)

    def at(self, base: ir.Value, offset: int | ir.Value) -> ir.Value:
        """The address that many bytes after `base`."""
        position = i64(offset) if isinstance(offset, int) else offset
        return self.gep(base, [position], source_etype=I8)

    def element(self, base: ir.Value, index: ir.Value, llvm_type: ir.Type) -> ir.Value:
        """The address of an element of an array."""
        return self.gep(base, [index], source_etype=llvm_type)

    def is_null(self, pointer: ir.Value) -> ir.Value:
        return self.icmp_unsigned("==", pointer, NULL)

    def least(self, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
        return self.select(self.icmp_unsigned("<", lhs, rhs), lhs, rhs)

    def call_pointer(
        self, pointer: ir.Value, function_type: ir.FunctionType, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        """Calls the function of that type at the address."""
        callee = _Callee(self.block, pointer, function_type)
        self._insert(callee)
        return self.call(callee, arguments)

    def store_atomic_at(
        self, value: ir.Value, address: ir.Value, ordering: str, alignment: int
    ) -> None:
        """`store_atomic`, which in llvmlite does not take opaque pointers."""
        self._insert(StoreAtomicInstr(self.block, value, address, ordering, alignment))

    @contextmanager
    def forever(self) -> Generator[ir.Block]:
        """A loop that ends by a jump to the block that it yields."""
        body, after = self.append_basic_block("loop"), self.append_basic_block("after")
        self.branch(body)
        self.position_at_end(body)
        yield after
        if not self.block.is_terminated:
            self.branch(body)
        self.position_at_end(after)

    @contextmanager
    def repeat(self, count: ir.Value, counter: ir.Value) -> Generator[ir.Value]:
        """Runs for 0, 1, ... below an i64; `counter` is a variable for the number."""
        self.store(i64(0), counter)
        with self.forever() as after:
            number = self.load(counter, typ=I64)
            self.jump_if(self.icmp_unsigned(">=", number, count), after)
            yield number
            self.store(self.add(number, i64(1)), counter)

    def jump_if(self, condition: ir.Value, block: ir.Block) -> None:
        """Goes to the block where the condition holds, and on with a new block where not."""
        following = self.append_basic_block("next")
        self.cbranch(condition, block, following)
        self.position_at_end(following)

    @contextmanager
    def unlikely(self, condition: ir.Value) -> Generator[None]:
        with self.if_then(condition, likely=False):
            yield

    def return_if(self, condition: ir.Value, value: ir.Value | None = None) -> None:
        """Returns the value, or nothing, where the condition holds."""
        with self.if_then(condition):
            if value is None:
                self.ret_void()
            else:
                self.ret(value)


def new_function(
    module: ir.Module, name: str, function_type: ir.FunctionType, *, visible: bool = False
) -> Code:
    """A function to be filled by the builder that it yields."""
    function = declare_function(module, name, function_type, visible=visible)
    return Code(function.append_basic_block("entry"))


def declare_function(
    module: ir.Module, name: str, function_type: ir.FunctionType, *, visible: bool = False
) -> ir.Function:
    """The function of that name, hidden from other shared objects unless it is `visible`."""
    function = module.globals.get(name)
    if function is None:
        function = _Function(module, function_type, name)
        function.attributes.add("nounwind")
        if not visible:
            function.linkage = "hidden"
    return function


def compile_plainly(function: ir.Function) -> None:
    """Has a function that is called rarely compiled as it stands, and not into its callers: the
    time that it takes does not matter, that to compile it does.
    """
    for attribute in ("noinline", "optnone"):
        function.attributes.add(attribute)


class _MachineCode(_Function):
    """A function that begins with machine code, and then returns."""

    def __init__(
        self, module: ir.Module, function_type: ir.FunctionType, name: str, content: bytes
    ):
        super().__init__(module, function_type, name)
        self._content = content

    def descr_prototype(self, buf: list[str]) -> None:
        super().descr_prototype(buf)
        data = ir.Constant(ir.ArrayType(I8, len(self._content)), bytearray(self._content))
        buf[-1] = f"{buf[-1].rstrip()} prologue {data}\n"


def machine_code(
    module: ir.Module, name: str, operands: Sequence[ir.Type], content: bytes
) -> ir.Function:
    """A function that only this module sees and whose body is given as it is; an assembler, which
    LLVM has for the machine it runs on alone, is not needed.
    """
    function = module.globals.get(name)
    if function is None:
        function = _MachineCode(module, ir.FunctionType(VOID, operands), name, content)
        function.linkage = "internal"
        for attribute in ("nounwind", "noinline"):
            function.attributes.add(attribute)
        Code(function.append_basic_block("entry")).ret_void()
    return function


def constant_bytes(module: ir.Module, name: str, content: bytes) -> ir.GlobalVariable:
    """Read-only bytes that only this module sees."""
    data = ir.Constant(ir.ArrayType(I8, len(content)), bytearray(content))
    return _constant(module, name, data)


def constant_integers(
    module: ir.Module, name: str, llvm_type: ir.IntType, values: Sequence[int]
) -> ir.GlobalVariable:
    """A read-only table that only this module sees."""
    data = ir.Constant(
        ir.ArrayType(llvm_type, len(values)), [ir.Constant(llvm_type, v) for v in values]
    )
    return _constant(module, name, data)


def _constant(module: ir.Module, name: str, data: ir.Constant) -> ir.GlobalVariable:
    table = ir.GlobalVariable(module, data.type, module.get_unique_name(name))
    table.type = POINTER
    table.global_constant = True
    table.linkage = "internal"
    table.initializer = data
    return table
