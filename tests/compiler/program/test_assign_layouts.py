"""Layouts of arguments: a weight that the body of a loop reads is derived beside the weight."""

from xdsl.parser import Parser

from weft.compiler.graph_to_loop.naive_kernels import copy_kernel
from weft.compiler.program.layouts.assign_layouts import AssignLayouts
from weft.dialects.context import WeftContext
from weft.dialects.loop.ops import ForOp
from weft.dialects.loop.program import CallOp, WeightOp

PACKED = "!loop.buffer<[8, 4], f32, [(d0 floordiv 4), d1, (d0 mod 4)] in [2, 4, 4]>"
TYPES = ", ".join(["!loop.buffer<[8, 4], f32>"] * 3)
PROGRAM = f"""
loop.program @main(%x: !loop.buffer<[8, 4], f32>, %y: !loop.buffer<[8, 4], f32>) inputs 1 {{
  %w = loop.weight "w" : !loop.buffer<[8, 4], f32>
  loop.for %i = 0 to 3 {{
    loop.call @add(%w, %x, %y) : {TYPES}
    loop.call @add(%w, %y, %y) : {TYPES}
  }}
  loop.call @add(%w, %x, %y) : {TYPES}
}}
loop.kernel @add(%w: {PACKED}, %x: !loop.buffer<[8, 4], f32>, %y: !loop.buffer<[8, 4], f32>) {{
}}
"""


def test_a_weight_of_a_loop_s_body_is_derived_once_where_it_stands():
    module = Parser(WeftContext(), PROGRAM).parse_module()
    AssignLayouts(copy_kernel).run(module)
    module.verify()
    weights = [op for op in module.walk() if isinstance(op, WeightOp)]
    calls = [op for op in module.walk() if isinstance(op, CallOp)]
    (derived,) = [op for op in weights if str(op.result.type) == PACKED]
    assert [call.arguments[0] for call in calls] == [derived.result] * 3
    assert not any(isinstance(op.parent_op(), ForOp) for op in weights)
