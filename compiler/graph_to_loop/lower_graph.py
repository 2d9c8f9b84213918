"""graph -> loop: tensors become buffers, each group of operators a kernel,
and the graph a program that calls them.

Kernels that are alike but for names are one kernel.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntAttr,
    LocationAttr,
    ModuleOp,
    NameLoc,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from weft.compiler.graph_to_loop.kernel_sizes import name_sizes
from weft.compiler.graph_to_loop.lower_call import lower_call
from weft.compiler.graph_to_loop.lower_collective import axes_of, lower_collective, message_of
from weft.compiler.graph_to_loop.lower_control import ControlLowering, buffer_of, mentions
from weft.compiler.graph_to_loop.naive_kernels import (
    canonicalize_kernel,
    copy_kernel,
    location_of,
    lower_group,
    symbols_of,
)
from weft.compiler.graph_to_loop.scalar_loops import ScalarLoop, lower_scalar_loop
from weft.dialects.errors import UnsupportedError
from weft.dialects.expr import Expr
from weft.dialects.graph import (
    BindSizesOp,
    CollectiveOp,
    ConditionOp,
    ConstantOp,
    ControlOp,
    EffectOp,
    ForOp,
    FusedOp,
    GraphOp,
    HostCallOp,
    MessageOp,
    NativeCallOp,
    ReshapeOp,
    YieldOp,
    group_of,
)
from weft.dialects.graph.core.size_checks import SizeChecks
from weft.dialects.graph.core.types import I64, type_of
from weft.dialects.graph.mesh.collectives import ShardRowOp
from weft.dialects.graph.regions.call import INPUT_TYPES, input_types
from weft.dialects.graph.regions.control import defined_sizes
from weft.dialects.loop.communication import RankOp
from weft.dialects.loop.dynamic import (
    CopyOp,
    RequireEqualOp,
    SubviewOp,
    TransferOwnershipOp,
    root,
    weight_of,
)
from weft.dialects.loop.equal_sizes import multiples, note_equal_sizes
from weft.dialects.loop.ops import AllocOp
from weft.dialects.loop.program import (
    BOUNDS,
    WEIGHTS,
    CallOp,
    KernelOp,
    ProgramOp,
    ViewOp,
    WeightOp,
)
from weft.dialects.loop.scalar import Scalar
from weft.dialects.loop.types import buffer_type_of
from weft.dialects.module_attributes import code_options

MAIN = "main"

IN_MEMORY = (
    ReturnOp, ReshapeOp, YieldOp, ConditionOp, ControlOp, BindSizesOp, EffectOp, CollectiveOp,
    NativeCallOp,
)  # fmt: skip
"""What reads its operands from memory, small constants too."""


class GraphToLoopPass(ModulePass):
    """Lowers the function `main` of the graph level to a `loop.program` and its kernels.

    The module's options say whether floating-point reductions stay in order, and whether a loop of
    many iterations makes the program fail.
    """

    name = "weft-graph-to-loop"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        options = code_options(op)
        lower_module(
            op,
            strict=options.strict_fp,
            max_iterations=options.max_iterations,
            naive=options.naive,
        )


def lower_module(
    module: ModuleOp,
    *,
    strict: bool = False,
    max_iterations: int | None = None,
    naive: bool = False,
) -> None:
    """Replaces the graph function in the module by a program and kernels."""
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    if len(functions) != 1:
        raise UnsupportedError(
            f"weft-graph-to-loop requires one graph function, got {len(functions)}"
        )
    kernels, program = _Lowering(functions[0], strict, max_iterations, naive).run()
    functions[0].detach()
    functions[0].erase()
    module.body.block.add_ops([*kernels, program])


SharedKernel = tuple[str, Sequence[Expr]]
"""The name of a kernel, and the sizes of the program that a call hands to it."""


@dataclass
class _Lowering(ControlLowering):
    function: FuncOp
    strict: bool
    max_iterations: int | None = None
    naive: bool = False
    run_time_sizes: set[str] = field(default_factory=set[str])
    location: LocationAttr | None = None
    communications: int = 0
    kernels: dict[str, KernelOp] = field(default_factory=dict[str, KernelOp])
    buffers: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    lowered: dict[Hashable, SharedKernel] = field(default_factory=dict[Hashable, SharedKernel])
    scalar_loops: dict[ForOp, ScalarLoop | None] = field(
        default_factory=dict[ForOp, "ScalarLoop | None"]
    )

    def run(self) -> tuple[list[KernelOp], ProgramOp]:
        """The kernels, each once, and the program that calls them."""
        body = self.function.body.block
        returned = body.last_op
        assert isinstance(returned, ReturnOp), "a graph function ends in func.return"
        self.run_time_sizes = {name for op in body.walk() for name in defined_sizes(op)}
        self.program = self._program(body, returned)
        self.block = self.program.body.block
        self.checks = SizeChecks(self.function)
        self.multiples = multiples(self.checks.first)
        note_equal_sizes(self.program, self.checks.first)
        self._view_inputs(body)
        for value, target in zip(returned.operands, self.outputs, strict=True):
            if not mentions(type_of(value), self.run_time_sizes):
                self.write_to(value, target)
        self.lower_block(body)
        self._return(returned)
        return list(self.kernels.values()), self.program

    def lower_block(self, block: Block) -> None:
        self.prepare_states(block)
        for op in list(block.ops):
            self._lower(op)

    def _return(self, returned: ReturnOp) -> None:
        """Fills the outputs that are not written yet; returns the caller those of unknown size."""
        gives: dict[SSAValue, TransferOwnershipOp] = {}
        for value, target in zip(returned.operands, self.outputs, strict=True):
            source = self.buffers[value]
            if mentions(type_of(value), self.run_time_sizes):
                if root(source) in gives or not isinstance(root(source).owner, AllocOp):
                    own = self.add(AllocOp.of(buffer_of(type_of(value)))).result
                    self.add(CopyOp.of(source, own))
                    source = own
                gives[root(source)] = TransferOwnershipOp.of(source, target)
            elif source is not target:
                self._copy(value, target)
        self.block.add_ops(gives.values())

    def _program(self, body: Block, returned: ReturnOp) -> ProgramOp:
        inputs = input_types(self.function)
        tensor_types = [*inputs, *(type_of(value) for value in returned.operands)]
        symbols = symbols_of(inputs)
        known = self.run_time_sizes.union(symbols)
        unknown = [name for name in symbols_of(tensor_types) if name not in known]
        if unknown:
            raise UnsupportedError(
                f"graph function requires sizes that its inputs decide, got {', '.join(unknown)}"
            )
        program = ProgramOp.of(
            MAIN, symbols, [buffer_of(each) for each in tensor_types], len(body.args)
        )
        program.attributes |= self.function.attributes
        program.attributes.pop(INPUT_TYPES, None)
        arguments = program.body.block.args
        for argument, value in zip(arguments, (*body.args, *returned.operands), strict=True):
            argument.name_hint = value.name_hint
        self.buffers |= dict(zip(body.args, arguments, strict=False))
        self.outputs = arguments[len(body.args) :]
        return program

    def _view_inputs(self, body: Block) -> None:
        """Inputs whose sizes are known to be others are views of what the caller hands over."""
        for value in body.args:
            wanted = buffer_of(type_of(value))
            if buffer_type_of(self.buffers[value]) != wanted:
                self.buffers[value] = self.add(ViewOp.of(self.buffers[value], wanted)).result

    def write_to(self, value: SSAValue, target: SSAValue) -> None:
        """Lets a kernel write an output in place; a reshape of a value that nobody
        else binds is written through.
        """
        while value not in self.buffers and isinstance(value.owner, Operation):
            self.buffers[value] = target
            owner = value.owner
            if not isinstance(owner, ReshapeOp) or isinstance(owner.operand.owner, ConstantOp):
                break
            value = owner.operand
            if value in self.buffers:
                break
            target = self.add(ViewOp.of(target, buffer_of(type_of(value)))).result

    def _lower(self, op: Operation) -> None:
        outer, own = self.location, op.location if isinstance(op.location, NameLoc) else None
        self.location = location_of(op) if isinstance(op, FusedOp) else own
        self._lower_operator(op)
        self.location = outer

    def _lower_operator(self, op: Operation) -> None:
        match op:
            case ConstantOp():
                self._lower_constant(op)
            case ReshapeOp():
                self._lower_reshape(op)
            case GraphOp():
                self._lower_group(group_of(op), list(op.results), list(dict.fromkeys(op.operands)))
            case FusedOp():
                self._lower_group(op, list(op.results), list(op.operands_))
            case BindSizesOp():
                self.bind_sizes(op)
            case ShardRowOp():
                self._lower_row(op)
            case CollectiveOp():
                self._lower_collective(op)
            case MessageOp():
                self._lower_message(op)
            case HostCallOp() | NativeCallOp():
                self._lower_call(op)
            case EffectOp():
                self.lower_effect(op)
            case ForOp() if self.is_one_kernel(op):
                self._lower_scalar_loop(op)
            case ControlOp():
                self.lower_control(op)
            case ReturnOp() | YieldOp() | ConditionOp():
                pass
            case _:
                rule = "weft-graph-to-loop requires graph operators"
                raise UnsupportedError(f"{rule}, got {op.name}")

    def _lower_constant(self, op: ConstantOp) -> None:
        """A stored constant is a weight; a literal is written by a kernel where
        something reads it from memory.
        """
        if op.key is not None and op.result not in self.buffers:
            weight = WeightOp.of(op.key.data, buffer_of(op.result_type))
            self.buffers[op.result] = self.add(weight).result
        elif op.key is not None:
            weight = self.add(WeightOp.of(op.key.data, buffer_of(op.result_type))).result
            self._copy_buffer(weight, self.buffers[op.result])
        elif any(self._reads_memory(use.operation) for use in op.result.uses):
            self._lower_group(group_of(op), [op.result], [])

    def _reads_memory(self, op: Operation) -> bool:
        return isinstance(op, IN_MEMORY) and not self.is_one_kernel(op)

    def _lower_reshape(self, op: ReshapeOp) -> None:
        if op.result not in self.buffers:
            view = ViewOp.of(self.buffers[op.operand], buffer_of(op.result_type))
            self.buffers[op.result] = self.add(view).result
        elif self.buffers[op.operand] is not _viewed(self.buffers, op):
            view = ViewOp.of(self.buffers[op.operand], buffer_of(op.result_type))
            self._copy_buffer(self.add(view).result, self.buffers[op.result])

    def _lower_message(self, op: MessageOp) -> None:
        buffers = [*map(self._as_computed, op.operands), *map(self._fresh, op.results)]
        self.add(message_of(op, buffers[0]))

    def _fresh(self, value: SSAValue) -> SSAValue:
        """The buffer of a value that no kernel computes."""
        if value not in self.buffers:
            self.buffers[value] = self.add(AllocOp.of(buffer_of(type_of(value)))).result
        return self.buffers[value]

    def _lower_collective(self, op: CollectiveOp) -> None:
        self._fresh(op.result)
        source = self._as_computed(op.operands[0]) if op.operands else None
        self.communications += lower_collective(
            op, source, self.buffers[op.result], self.block, self.communications
        )

    def _lower_row(self, op: ShardRowOp) -> None:
        rank, b = self.add(RankOp.of(axes_of(op))).result, self._builder
        index = b.subscript(Scalar(b.builder, rank, I64))
        row = SubviewOp.of(self.buffers[op.operand], index, buffer_of(type_of(op.result)))
        found = self.add(row).result
        if op.result in self.buffers:
            self._copy_buffer(found, self.buffers[op.result])
        else:
            self.buffers[op.result] = found

    def _as_computed(self, value: SSAValue) -> SSAValue:
        """A value's buffer; of a weight, which is laid out as kernels like, a copy."""
        source = self.buffers[value]
        if weight_of(source) is None:
            return source
        own = self.add(AllocOp.of(buffer_type_of(source))).result
        self._copy_buffer(source, own)
        return own

    def _lower_call(self, op: HostCallOp | NativeCallOp) -> None:
        targets = [self._fresh(each) for each in op.found]
        sources = [self._as_computed(each) for each in op.values]
        for each in lower_call(op, sources, targets):
            each.location = op.location
            self.add(each)

    def _copy(self, value: SSAValue, target: SSAValue) -> None:
        self._copy_buffer(self.buffers[value], target)

    def _copy_buffer(self, source: SSAValue, target: SSAValue) -> None:
        """Calls a kernel that copies one buffer to another of the same shape."""
        kernel = copy_kernel(buffer_type_of(source), buffer_type_of(target))
        weights = () if weight_of(source) is None else (0,)
        self._call(self._share(kernel, weights), [source, target], None)

    def _lower_group(
        self, group: FusedOp, results: list[SSAValue], operands: list[SSAValue]
    ) -> None:
        constants: dict[SSAValue, ConstantOp] = {
            inner: operand.owner
            for inner, operand in zip(group.body.block.args, operands, strict=True)
            if isinstance(operand.owner, ConstantOp)
            and operand.owner.literal is not None
            and operand not in self.buffers
        }
        kept = [
            (inner, operand)
            for inner, operand in zip(group.body.block.args, operands, strict=True)
            if inner not in constants
        ]
        for pair in self.checks.in_place(group.members):
            self.add(RequireEqualOp.of(*pair))
        for result in results:
            if result not in self.buffers:
                self.buffers[result] = self.add(AllocOp.of(buffer_of(type_of(result)))).result
                self.buffers[result].name_hint = result.name_hint
        arguments = [self.buffers[operand] for _, operand in kept] + [
            self.buffers[result] for result in results
        ]
        weights = _weights_among(arguments)
        known = [constants.get(inner) for inner in group.body.block.args]
        literals = tuple(None if each is None else each.literal for each in known)
        key = (group.structure, literals, weights)
        if key not in self.lowered:
            inside = [inner for inner, _ in kept]
            kernel = lower_group(group, inside, constants, strict=self.strict)
            self.lowered[key] = self._share(kernel, weights)
        self._call(self.lowered[key], arguments, location_of(group))

    def is_one_kernel(self, op: Operation) -> bool:
        if isinstance(op, ForOp) and not self.naive and op not in self.scalar_loops:
            members = (each for each in op.walk() if isinstance(each, GraphOp))
            if not self.checks.in_place(members):
                self.scalar_loops[op] = lower_scalar_loop(
                    op, strict=self.strict, max_iterations=self.max_iterations
                )
        return isinstance(op, ForOp) and self.scalar_loops.get(op) is not None

    def _lower_scalar_loop(self, op: ForOp) -> None:
        """Calls the kernel that a loop has become."""
        found = self.scalar_loops[op]
        assert found is not None, "the loop is one kernel"
        kernel, values = found
        arguments = [*map(self.buffers.__getitem__, values), *map(self._fresh, op.results_)]
        self._call(self._share(kernel, _weights_among(arguments)), arguments, self.location)

    def _share(self, kernel: KernelOp, weights: Sequence[int]) -> SharedKernel:
        """Gives a kernel its name, or finds the one that is like it, and says what its sizes are in
        the program; `weights` are the arguments that are weights.
        """
        _note_bounds(kernel, self.program)
        sizes = name_sizes(kernel, self.multiples)
        if weights:
            kernel.attributes[WEIGHTS] = ArrayAttr([IntAttr(position) for position in weights])
        key = canonicalize_kernel(kernel)
        shared = self.kernels.setdefault(key, kernel)
        return shared.sym_name.data, sizes

    def _call(
        self, kernel: SharedKernel, arguments: list[SSAValue], location: LocationAttr | None
    ) -> None:
        name, sizes = kernel
        call = CallOp.of(name, sizes, arguments)
        if location is not None:
            call.location = location
        self.block.add_op(call)


def _weights_among(arguments: Sequence[SSAValue]) -> tuple[int, ...]:
    """The positions of weights among the arguments of a call."""
    return tuple(n for n, value in enumerate(arguments) if weight_of(value) is not None)


def _note_bounds(kernel: KernelOp, program: ProgramOp) -> None:
    """Gives a kernel the bounds of its sizes, which are named as in the program."""
    bounds = program.attributes.get(BOUNDS)
    if not isinstance(bounds, DictionaryAttr):
        return
    found = {name: bounds.data[name] for name in kernel.symbol_names if name in bounds.data}
    if found:
        kernel.attributes[BOUNDS] = DictionaryAttr(found)


def _viewed(buffers: Mapping[SSAValue, SSAValue], op: ReshapeOp) -> SSAValue | None:
    """The view through which the operand of a reshape writes into the
    reshape's own buffer, if it does.
    """
    operand = buffers[op.operand]
    owner = operand.owner
    return operand if isinstance(owner, ViewOp) and owner.source is buffers[op.result] else None
