"""The context of an artifact: made from options, holding threads, weights and the allocator, and
destroyed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llvmlite import ir

from weft.compiler.abi.constants import MOST_THREADS, THREADS_VARIABLE
from weft.compiler.loop_to_llvm.runtime.code import (
    I1,
    I32,
    I64,
    NULL,
    POINTER,
    VOID,
    Code,
    compile_plainly,
    i32,
    i64,
)
from weft.compiler.loop_to_llvm.runtime.create_failure import CreateFailure
from weft.compiler.loop_to_llvm.runtime.layout import CONTEXT, OPTIONS
from weft.compiler.loop_to_llvm.runtime.metadata import Metadata
from weft.compiler.loop_to_llvm.runtime.platform import Platform
from weft.compiler.loop_to_llvm.runtime.pool import Pool
from weft.compiler.loop_to_llvm.runtime.processor import Processor
from weft.compiler.loop_to_llvm.runtime.status import Shown
from weft.compiler.loop_to_llvm.runtime.usable_threads import INVALID, UsableThreads

ALLOCATE: Final = ir.FunctionType(POINTER, [POINTER, I64, I64])
RELEASE: Final = ir.FunctionType(VOID, [POINTER, POINTER])
PRINT: Final = ir.FunctionType(VOID, [POINTER, POINTER, POINTER, POINTER])
CALL_HOST: Final = ir.FunctionType(I32, [POINTER, POINTER, POINTER, POINTER])
CREATE: Final = ir.FunctionType(POINTER, [POINTER])
DESTROY: Final = ir.FunctionType(VOID, [POINTER])


class ContextFunctions:
    """Emits `m_create` and `m_destroy`."""

    def __init__(self, pool: Pool, metadata: Metadata, processor: Processor):
        self.module: ir.Module = pool.module
        self.platform: Platform = pool.platform
        self.prefix = pool.prefix
        self.pool = pool
        self.metadata = metadata
        self.processor = processor
        self.failure = CreateFailure(self.module, self.platform, self.prefix)
        self.usable_threads = UsableThreads(self.module, self.platform, self.prefix)

    def define(self) -> None:
        self._define_allocate()
        self._define_release()
        self.usable_threads.define()
        self._define_bind_weights()
        self._define_read_options()
        self._define_build()
        self._define_destroy()
        self._define_create()
        if self.platform.has_threads:
            self._define_create_pool()
        own = (self._bind_weights, self._read_options, self._build)
        for function in (*own, self.module.globals[f"{self.prefix}_create"]):
            compile_plainly(function)

    def _define_allocate(self) -> None:
        """The allocator of callers who bring none."""
        code = self.pool.define_own("allocate", ALLOCATE)
        _, size, alignment = code.arguments
        mask = code.sub(alignment, i64(1))
        whole = code.and_(code.add(size, mask), code.not_(mask))
        code.ret(self.platform.call(code, "aligned_alloc", [alignment, whole]))

    def _define_release(self) -> None:
        code = self.pool.define_own("release", RELEASE)
        self.platform.call(code, "free", [code.arguments[1]])
        code.ret_void()

    @property
    def _bind_weights(self) -> ir.Function:
        return self.pool.declare("bind_weights", ir.FunctionType(I1, [POINTER, POINTER]))

    def _define_bind_weights(self) -> None:
        """Fills the context's table from the caller's, and where that has nothing, from the
        blob; whether there is something for each weight.
        """
        code = Code(self._bind_weights.append_basic_block("entry"))
        context, given = code.arguments
        number, pointer = code.variable(I64), code.variable(POINTER)
        table = CONTEXT.load(code, context, "weights")
        with code.repeat(self.metadata.weight_count(code), number) as weight:
            code.store(self.metadata.embedded(code, weight), pointer)
            with code.if_then(code.not_(code.is_null(given))):
                own = code.load(code.element(given, weight, POINTER), typ=POINTER)
                with code.if_then(code.not_(code.is_null(own))):
                    code.store(own, pointer)
            chosen = code.load(pointer, typ=POINTER)
            with code.if_then(code.is_null(chosen)):
                text = "create requires a pointer for weight {} (counted from 0), got NULL"
                self._fail(code, text, [weight])
            code.store(chosen, code.element(table, weight, POINTER))
        code.ret(I1(1))

    @property
    def _read_options(self) -> ir.Function:
        return self.pool.declare("read_options", ir.FunctionType(I1, [POINTER, POINTER]))

    def _define_read_options(self) -> None:
        """Copies the options, or the defaults for NULL, with `threads` resolved; whether they are
        valid.
        """
        code = Code(self._read_options.append_basic_block("entry"))
        options, settings = code.arguments
        size = i64(OPTIONS.size)
        self.platform.call(code, "memset", [settings, i32(0), size])
        with code.if_then(code.not_(code.is_null(options))):
            given = OPTIONS.load(code, options, "size")
            with code.if_then(code.icmp_unsigned("!=", given, size)):
                text = f"create requires weft_options of {OPTIONS.size} bytes, got {{}}"
                self._fail(code, text, [given])
            self.platform.call(code, "memcpy", [settings, options, size])
        self._refuse_contradictions(code, settings)
        threads = OPTIONS.load(code, settings, "threads")
        with code.if_then(code.icmp_unsigned(">", threads, i32(MOST_THREADS))):
            text = f"create requires at most {MOST_THREADS} threads, got {{}}"
            self._fail(code, text, [code.zext(threads, I64)])
        with code.if_then(code.icmp_unsigned("==", threads, i32(0))):
            available = code.call(self.usable_threads.count, [])
            with code.if_then(code.icmp_signed("==", available, i32(INVALID))):
                rule = f"{THREADS_VARIABLE} of the environment to be a number of threads"
                self._fail(code, f"create requires {rule}, at most {MOST_THREADS}")
            with code.if_then(code.icmp_unsigned("==", available, i32(0))):
                rule = "threads to be given where the system does not tell the processors"
                self._fail(code, f"create requires {rule}, got 0")
            OPTIONS.store(code, settings, "threads", available)
        code.ret(I1(1))

    def _fail(self, code: Code, text: str, shown: Sequence[Shown] = ()) -> None:
        """Ends a check, with the reason for `m_last_error`."""
        self.failure.note(code, text, shown)
        code.ret(I1(0))

    def _refuse_contradictions(self, code: Code, settings: ir.Value) -> None:
        """Fails where a level is named that there is not, or half of the allocator is missing."""
        flags = code.zext(OPTIONS.load(code, settings, "flags"), I64)
        levels = self.metadata.count(code, "levels")
        with code.if_then(code.icmp_unsigned(">", flags, levels)):
            text = "create requires flags of 0, or of a level, at most {}, got {}"
            self._fail(code, text, [levels, flags])
        halves = {n: OPTIONS.load(code, settings, n) for n in ("allocate", "release")}
        given = {name: code.not_(code.is_null(half)) for name, half in halves.items()}
        with code.if_then(code.xor(*given.values())):
            for name, is_given in given.items():
                with code.if_then(is_given):
                    text = f"create requires allocate and release, or neither, got {name} alone"
                    self._fail(code, text)
            code.unreachable()

    @property
    def _build(self) -> ir.Function:
        return self.pool.declare("build", ir.FunctionType(POINTER, [POINTER]))

    def _define_build(self) -> None:
        """A context for valid settings, with no weights and no threads yet; NULL without memory."""
        code = Code(self._build.append_basic_block("entry"))
        (settings,) = code.arguments
        for name in ("allocate", "release"):
            llvm_type = ALLOCATE if name == "allocate" else RELEASE
            given = OPTIONS.load(code, settings, name)
            default = self.pool.declare(name, llvm_type)
            OPTIONS.store(code, settings, name, code.select(code.is_null(given), default, given))
        threads = code.zext(OPTIONS.load(code, settings, "threads"), I64)
        weights = code.mul(self.metadata.weight_count(code), i64(8))
        tables = code.add(i64(CONTEXT.size), weights)
        size = code.add(tables, code.mul(threads, i64(8)))
        allocator = [OPTIONS.load(code, settings, n) for n in ("allocate", "allocator_user")]
        memory = code.call_pointer(allocator[0], ALLOCATE, [allocator[1], size, i64(64)])
        with code.if_then(code.is_null(memory)):
            text = "create requires {} bytes of memory, got none"
            self.failure.note(code, text, [size])
            code.ret(NULL)
        self.platform.call(code, "memset", [memory, i32(0), size])
        CONTEXT.store(code, memory, "threads", threads)
        CONTEXT.store(code, memory, "process", self.platform.call(code, "getpid", []))
        CONTEXT.store(code, memory, "weights", code.at(memory, CONTEXT.size))
        CONTEXT.store(code, memory, "handles", code.at(memory, tables))
        hosts = ("allocate", "release", "parallel_for", "print", "call_host", "communication")
        for name in (*hosts, "allocator_user", "parallel_for_user", "print_user"):
            CONTEXT.store(code, memory, name, OPTIONS.load(code, settings, name))
        code.ret(memory)

    def _define_create(self) -> None:
        code = self.pool.define_exported("create", CREATE)
        settings = code.variable(ir.ArrayType(I64, OPTIONS.size // 8))
        self.failure.clear(code)
        valid = code.call(self._read_options, [code.arguments[0], settings])
        code.return_if(code.not_(valid), NULL)
        wanted = OPTIONS.load(code, settings, "flags")
        level = code.call(self.processor.choose_level, [wanted])
        with code.if_then(code.icmp_signed("<", level, i32(0))):
            self._note_lacking_processor(code, wanted)
            code.ret(NULL)
        context = code.call(self._build, [settings])
        code.return_if(code.is_null(context), NULL)
        CONTEXT.store(code, context, "level", level)
        weights = OPTIONS.load(code, settings, "weights")
        bound = code.call(self._bind_weights, [context, weights])
        with code.if_then(bound):
            others = code.sub(CONTEXT.load(code, context, "threads"), i64(1))
            host = CONTEXT.load(code, context, "parallel_for")
            workers = code.select(code.is_null(host), others, i64(0))
            code.call(self.pool.start_workers, [context, workers])
            code.ret(context)
        code.call(self._destroy, [context])
        code.ret(NULL)

    def _define_create_pool(self) -> None:
        """`m_create_pool`: threads alone, which other contexts compute with by `m_parallel_for`."""
        code = self.pool.define_exported("create_pool", CREATE)
        settings = code.variable(ir.ArrayType(I64, OPTIONS.size // 8))
        self.failure.clear(code)
        valid = code.call(self._read_options, [code.arguments[0], settings])
        code.return_if(code.not_(valid), NULL)
        OPTIONS.store(code, settings, "parallel_for", NULL)
        context = code.call(self._build, [settings])
        code.return_if(code.is_null(context), NULL)
        others = code.sub(CONTEXT.load(code, context, "threads"), i64(1))
        code.call(self.pool.start_workers, [context, others])
        code.ret(context)

    def _note_lacking_processor(self, code: Code, wanted: ir.Value) -> None:
        """Keeps which features are missing, of the first level or of the one that is wanted."""
        refusal = code.call(self.processor.refusal, [])
        with code.if_else(code.is_null(refusal)) as (of_level, of_first):
            with of_level:
                rule = "a CPU with the features of the level that flags {} names"
                text = f"create requires {rule}, got one without"
                self.failure.note(code, text, [code.zext(wanted, I64)])
            with of_first:
                self.failure.note_constant(code, refusal)

    @property
    def _destroy(self) -> ir.Function:
        return self.pool.declare("destroy", DESTROY)

    def _define_destroy(self) -> None:
        code = Code(self._destroy.append_basic_block("entry"))
        (context,) = code.arguments
        code.return_if(code.is_null(context))
        code.call(self.pool.stop_workers, [context])
        release = CONTEXT.load(code, context, "release")
        user = CONTEXT.load(code, context, "allocator_user")
        code.call_pointer(release, RELEASE, [user, context])
        code.ret_void()
        visible = self.pool.define_exported("destroy", DESTROY)
        visible.call(self._destroy, visible.arguments)
        visible.ret_void()
