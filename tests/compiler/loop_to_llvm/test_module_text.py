"""Modules print as llvmlite prints them, but for spaces and quotes."""

from llvmlite import ir

from weft.compiler.loop_to_llvm.module_text import module_text

F32, I64, POINTER = ir.FloatType(), ir.IntType(64), ir.PointerType()


def _lines(text: str) -> list[str]:
    """The words of each line that has any."""
    lines = (line.replace('"', "").split() for line in text.splitlines())
    return [" ".join(line).replace(" ,", ",") for line in lines if line]


def _module() -> ir.Module:
    """A function of instructions of all kinds that print quickly, with and without marks, and of
    some that do not.
    """
    module = ir.Module("some")
    module.triple = "x86_64-unknown-linux-gnu"
    ir.GlobalVariable(module, F32, "there")
    wide = ir.VectorType(F32, 4)
    fma = ir.Function(module, ir.FunctionType(wide, [wide] * 3), "llvm.fma.v4f32")
    done = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER]), "done")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER, I64]), "body")
    builder = ir.IRBuilder(function.append_basic_block("start"))
    pointer, count = function.args
    further = builder.gep(pointer, [count], source_etype=F32)
    inside = builder.gep(further, [ir.Constant(I64, -3)], inbounds=True, source_etype=F32)
    first = builder.load(inside, typ=wide, align=4)
    second = builder.load(inside, typ=wide)
    second.set_metadata("nontemporal", module.add_metadata([ir.Constant(I64, 1)]))
    order = ir.Constant(ir.VectorType(ir.IntType(32), 4), [3, 2, 1, 0])
    turned = builder.shuffle_vector(first, second, order)
    total = builder.fadd(builder.fmul(first, turned), second, flags=("fast",))
    builder.store(builder.call(fma, [first, total, turned]), further, align=4)
    builder.store(builder.call(fma, [first, first, first], fastmath=("nnan",)), further)
    builder.call(done, [pointer], tail=True)
    builder.call(done, [pointer])
    after = builder.append_basic_block("after")
    builder.cbranch(builder.icmp_signed("<", builder.add(count, count), count), after, after)
    builder.position_at_end(after)
    builder.ret_void()
    return module


def test_text_is_that_of_llvmlite() -> None:
    module = _module()
    assert _lines(module_text(module)) == _lines(str(module))
