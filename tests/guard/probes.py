"""One small ONNX model for each operator that takes sizes, axes or indices at run time.

In the text, `T` is an element type, drawn for each case out of `types`; one of `?(a|b)` is drawn,
and named sizes are. `values` has the inputs to be hostile in, with examples that are valid.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from onnx import ModelProto, defs, parser

from weft.compiler.frontend.onnx.ops.composites import COMPOSITES, CONTROL
from weft.dialects.graph import OPS

FLOATS = ("float", "double", "float16")
ALL = ("float", "double", "float16", "int8", "int64", "bool")
NUMBERS = ("float", "double", "int32", "int64")


HEADER = '<ir_version: 13, opset_import: ["" : 28, "ai.onnx.ml" : 4, "com.microsoft" : 1]>\nagraph '

Choose = Callable[[Sequence[str]], str]


def drawn_text(text: str, types: Sequence[str], choose: Choose) -> str:
    """The text with what is drawn: an element type, and alternatives."""
    kind = choose(types)
    text = re.sub(r"\?\(([^)]*)\)", lambda found: choose(found[1].split("|")), text)
    return re.sub(r"\bT(?=[\[ ])", kind, text)


def model_of(text: str) -> ModelProto:
    """The model whose graph is the text."""
    return parser.parse_model(HEADER + text)


@dataclass(frozen=True)
class Probe:
    """The operators that it is for, the graph, and the inputs that say sizes, axes or indices."""

    ops: str
    text: str
    values: Mapping[str, Sequence[object]] = field(default_factory=dict)
    types: Sequence[str] = ("float",)


PROBES: tuple[Probe, ...] = (
    # Shapes -----------------------------------------------------------------------------------
    Probe("Reshape", "(T[n, 6] x, int64[2] s) => (T[a, b] y) { y = Reshape(x, s) }",
          {"s": [[3, 8], [-1, 4], [0, 6], [2, -1], [6, -1]]}, ALL),
    Probe("Reshape Gather",
          """(T[n, 8] x, int64[2] s, int64[k] i) => (T[c, b] y) {
             z = Reshape(x, s) y = Gather(z, i) }""",
          {"s": [[-1, 8], [8, -1], [4, -1]], "i": [[0, 1], [-1], []]}, FLOATS),
    Probe("Expand", "(T[n, 1] x, int64[2] s) => (T[a, b] y) { y = Expand(x, s) }",
          {"s": [[1, 5], [4, 3], [1, 1]]}, ALL),
    Probe("Tile", "(T[n, 3] x, int64[2] r) => (T[a, b] y) { y = Tile(x, r) }",
          {"r": [[1, 2], [2, 2], [0, 1]]}, ALL),
    Probe("Slice", "(T[n, m] x, int64[2] s, int64[2] e) => (T[a, b] y) { y = Slice(x, s, e) }",
          {"s": [[0, 1], [-3, 0]], "e": [[9, 9], [2, -1]]}, ALL),
    Probe("Slice",
          """(T[n, m] x, int64[2] s, int64[2] e) => (T[a, b] y) <int64[2] t = {0, 1},
             int64[2] p = {-1, 3}> { y = Slice(x, s, e, t, p) }""",
          {"s": [[9, 0], [-1, -9]], "e": [[-9, 9], [0, 5]]}, ALL),
    Probe("Slice",
          "(T[n, m] x, int64[1] s, int64[1] e, int64[1] t) => (T[a, b] y) {y = Slice(x, s, e, t)}",
          {"s": [[0], [1]], "e": [[9]], "t": [[0], [1], [-1]]}),
    Probe("Pad", "(T[n, m] x, int64[4] p, T v) => (T[a, b] y) { y = Pad(x, p, v) }",
          {"p": [[0, 1, 2, 3], [-1, 0, 0, 5], [0, 0, 0, 0]]}, ALL),
    Probe("Pad", """(T[n, m] x, int64[4] p) => (T[a, b] y) {
             y = Pad<mode = "?(reflect|edge|wrap)">(x, p) }""",
          {"p": [[0, 1, 1, 1], [2, 0, 0, 1]]}, FLOATS),
    Probe("Range", "(int64 a, int64 b, int64 d) => (int64[n] y) { y = Range(a, b, d) }",
          {"a": [0, 3], "b": [7, -4], "d": [1, 2, -3]}),
    Probe("Range", "(float a, float b, float d) => (float[n] y) { y = Range(a, b, d) }",
          {"a": [0.0, 3.5], "b": [7.0, -4.0], "d": [1.0, 0.5, -3.0]}),
    Probe("OneHot", "(int64[n] i, int64 d, T[2] v) => (T[n, m] y) { y = OneHot(i, d, v) }",
          {"i": [[0, 1, 2], [-1]], "d": [4, 17]}, FLOATS),
    Probe("OneHot", "(int64[n] i, float d, T[2] v) => (T[m, n] y) {y = OneHot<axis = 0>(i, d, v)}",
          {"i": [[0, 1, 2], [-1]], "d": [4.0, 17.0]}),
    Probe("ConstantOfShape", "(int64[2] s) => (float[a, b] y) { y = ConstantOfShape(s) }",
          {"s": [[2, 3], [0, 9], [17, 5]]}),
    Probe("Split", """(T[n, 8] x, int64[2] s) => (T[n, a] y, T[n, b] z) {
             y, z = Split<axis = 1>(x, s) }""", {"s": [[4, 4], [1, 7], [0, 8]]}, ALL),
    Probe("Squeeze", "(T[1, m] x, int64[1] a) => (y) { y = Squeeze(x, a) }", {"a": [[0], [-2]]}),
    Probe("Unsqueeze", "(T[n, m] x, int64[1] a) => (y) { y = Unsqueeze(x, a) }",
          {"a": [[0], [2], [-1]]}),
    Probe("ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin "
          "ReduceProd ReduceSum ReduceSumSquare",
          """(T[n, m] x, int64[1] a) => (y) {
             y = Reduce?(L1|L2|LogSum|LogSumExp|Max|Mean|Min|Prod|Sum|SumSquare)(x, a) }""",
          {"a": [[0], [1], [-1]]}, FLOATS),
    Probe("CenterCropPad", """(T[5, 8] x, int64[2] s) => (T[a, b] y) {
             y = CenterCropPad(x, s) }""", {"s": [[3, 3], [9, 9], [1, 20]]}, FLOATS),
    Probe("Concat Flatten", """(T[n, m] x, T[k, m] z) => (T[a, m] y, T[b, c] w) {
             y = Concat<axis = 0>(x, z) w = Flatten(y) }""", {}, ALL),
    Probe("Shape Size", "(T[n, m] x) => (int64[2] s, int64 c) { s = Shape(x) c = Size(x) }"),
    Probe("EyeLike", "(float[4, 7] x) => (float[4, 7] y) { y = EyeLike<k = ?(1|-9|7)>(x) }"),
    Probe("Trilu", "(T[n, m] x, int64 k) => (T[n, m] y) { y = Trilu<upper = 0>(x, k) }",
          {"k": [0, 1, -2]}, NUMBERS),
    Probe("CumSum", "(T[n, m] x, int64 a) => (T[n, m] y) { y = CumSum(x, a) }",
          {"a": [0, 1, -1]}, NUMBERS),
    Probe("CumProd", "(T[n, m] x, int64 a) => (T[n, m] y) { y = CumProd(x, a) }",
          {"a": [0, 1, -1]}, NUMBERS),
    Probe("AffineGrid", """(float[2, 2, 3] t, int64[4] s) => (float[a, b, c, d] y) {
             y = AffineGrid(t, s) }""", {"s": [[2, 3, 4, 5], [2, 1, 1, 1]]}),
    Probe("Col2Im", """(float[1, 8, 4] x, int64[2] s, int64[2] w) => (float[a, b, c, d] y) {
             y = Col2Im(x, s, w) }""", {"s": [[3, 3], [2, 5], [5, 2]], "w": [[2, 2]]}),
    Probe("Resize", """(T[1, 2, h, w] x, int64[4] s) => (T[a, b, c, d] y) {
             y = Resize<mode = "linear">(x, , , s) }""",
          {"s": [[1, 2, 3, 9], [1, 2, 16, 16], [1, 2, 1, 1]]}, FLOATS),
    Probe("Resize", """(T[1, 2, h, w] x, float[4] s) => (T[a, b, c, d] y) {
             y = Resize<mode = "?(nearest|linear|cubic)">(x, , s) }""",
          {"s": [[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 0.5, 1.5]]}, FLOATS),
    Probe("Resize", """(T[1, 2, h, w] x, float[8] r, float[4] s) => (T[a, b, c, d] y) {
             y = Resize<coordinate_transformation_mode = "tf_crop_and_resize">(x, r, s) }""",
          {"r": [[0., 0., 0., 0., 1., 1., 1., 1.], [0., 0., .2, .1, 1., 1., .9, 1.5]],
           "s": [[1.0, 1.0, 2.0, 2.0]]}),
    # Indices ----------------------------------------------------------------------------------
    Probe("Gather", """(T[n, m] x, int?(64|32)[k] i) => (y) {
             y = Gather<axis = ?(0|1)>(x, i) }""", {"i": [[0, 1], [-1, 0, 2], []]}, ALL),
    Probe("Gather", "(T[n, m] x, int64 i) => (T[m] y) { y = Gather(x, i) }", {"i": [0, -1]}, ALL),
    Probe("Gather Softmax", """(T[n, m] x, int64[k] i) => (T[k, m] y) {
             z = Gather(x, i) w = Softmax(z) y = Mul(w, z) }""", {"i": [[0, 1], [-1]]}, FLOATS),
    Probe("GatherElements", """(T[4, m] x, int64[3, k] i) => (T[3, k] y) {
             y = GatherElements<axis = ?(0|1)>(x, i) }""",
          {"i": [[[0, 1], [-1, 0], [1, 1]], [[0], [0], [0]]]}, ALL),
    Probe("GatherND", "(T[n, m] x, int64[k, 2] i) => (T[k] y) { y = GatherND(x, i) }",
          {"i": [[[0, 1], [-1, 0]], [[0, 0]]]}, ALL),
    Probe("GatherND", """(T[2, m, 5] x, int64[2, 1] i) => (T[2, 5] y) {
             y = GatherND<batch_dims = 1>(x, i) }""", {"i": [[[0], [-1]]]}, ALL),
    Probe("Scatter ScatterElements", """(T[n, m] x, int64[1, k] i, T[1, k] u) => (T[n, m] y) {
             y = ScatterElements<axis = ?(0|1), reduction = "?(none|add|max)">(x, i, u) }""",
          {"i": [[[0, 1]], [[-1, 0, 1]]]}, NUMBERS),
    Probe("ScatterND", """(T[n, m] x, int64[k, 1] i, T[k, m] u) => (T[n, m] y) {
             y = ScatterND<reduction = "?(none|add|mul)">(x, i, u) }""",
          {"i": [[[0], [1]], [[-1]]]}, NUMBERS),
    Probe("ScatterND", """(T[n, m] x, int64[k, 2] i, T[k] u) => (T[n, m] y) {
             y = ScatterND(x, i, u) }""",
          {"i": [[[0, 0], [1, 1]], [[-1, -1]]]}, ALL),
    Probe("TopK", "(T[n, m] x, int64[1] k) => (T[n, a] y, int64[n, a] i) { y, i = TopK(x, k) }",
          {"k": [[1], [3], [0]]}, NUMBERS),
    Probe("TopK", """(T[n, m] x, int64[1] k) => (T[n, a] y, int64[n, a] i) {
             y, i = TopK<axis = 0, largest = 0>(x, k) }""", {"k": [[1], [3], [0]]}, NUMBERS),
    Probe("Compress", "(T[n, m] x, bool[k] c) => (T[a, m] y) { y = Compress<axis = 0>(x, c) }",
          {"c": [[True], [False, True, True], [True] * 40]}, ALL),
    Probe("Compress", "(T[n, m] x, bool[k] c) => (T[a] y) { y = Compress(x, c) }",
          {"c": [[True], [False, True, True], [True] * 40]}, ALL),
    Probe("NonZero", "(T[n, m] x) => (int64[2, k] y) { y = NonZero(x) }", {}, ALL),
    Probe("Unique", "(T[n] x) => (y, i, j, c) { y, i, j, c = Unique(x) }", {}, ("float", "int64")),
    Probe("ArgMax ArgMin", """(T[n, m] x) => (int64[n] y, int64[m] z) {
             y = ArgMax<axis = 1, keepdims = 0>(x) z = ArgMin<axis = 0, keepdims = 0>(x) }""", {},
          NUMBERS),
    Probe("MaxUnpool", """(T[1, 2, 2, 2] x, int64[1, 2, 2, 2] i) => (T[1, 2, 4, 4] y) {
             y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(x, i) }""",
          {"i": [[[[[5, 7], [13, 15]], [[21, 23], [29, 31]]]]]}, FLOATS),
    Probe("MaxUnpool", """(T[1, 1, 2, 2] x, int64[1, 1, 2, 2] i, int64[4] s) => (T[a, b, c, d] y) {
             y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(x, i, s) }""",
          {"i": [[[[[5, 7], [13, 15]]]]], "s": [[1, 1, 5, 5], [1, 1, 4, 4]]}),
    Probe("MaxPool MaxUnpool", """(T[1, 1, h, w] x) => (y, i) {
             y, i = MaxPool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(x) }""",
          {}, FLOATS),
    Probe("TensorScatter", """(T[2, 6, 3] x, T[2, k, 3] u, int64[2] i) => (T[2, 6, 3] y) {
             y = TensorScatter(x, u, i) }""", {"i": [[0, 1], [2, 0]]}, FLOATS),
    Probe("TensorScatter", """(T[2, 6, 3] x, T[2, 2, 3] u, int64[2] i) => (T[2, 6, 3] y) {
             y = TensorScatter<mode = "circular">(x, u, i) }""", {"i": [[0, 5], [4, 0]]}, FLOATS),
    Probe("ReverseSequence", """(T[4, n, 3] x, int64[n] s) => (T[4, n, 3] y) {
             y = ReverseSequence(x, s) }""", {"s": [[1, 2, 4], [0], []]}, ALL),
    Probe("RoiAlign", """(T[n, 2, 5, 6] x, T[k, 4] r, int64[k] b) => (T[k, 2, 3, 3] y) {
             y = RoiAlign<output_height = 3, output_width = 3, sampling_ratio = 1>(x, r, b) }""",
          {"b": [[0], [0, 1]], "r": [[[0., 0., 3., 3.]], [[0., 0., 3., 3.], [1., 2., 4., 8.]]]}),
    Probe("RoiAlign", """(T[n, 2, 5, 6] x, T[k, 4] r, int64[k] b) => (T[k, 2, 3, 3] y) {
             y = RoiAlign<mode = "max", output_height = 3, output_width = 3, sampling_ratio = 2>(
             x, r, b) }""",
          {"b": [[0]], "r": [[[0., 0., 3., 3.]]]}),
    Probe("MaxRoiPool", """(T[n, 2, 5, 6] x, T[k, 5] r) => (T[k, 2, 3, 3] y) {
             y = MaxRoiPool<pooled_shape = [3, 3]>(x, r) }""",
          {"r": [[[0., 0., 0., 3., 3.]], [[0., 1., 2., 4., 5.]]]}),
    Probe("GridSample", """(float[1, 2, h, w] x, float[1, 3, k, 2] g) => (y) {
             y = GridSample<mode = "?(linear|nearest|cubic)",
                padding_mode = "?(zeros|border|reflection)">(x, g) }""",
          {"g": [[[[[0., 0.]], [[.5, -1.]], [[1., 1.]]]]]}),
    Probe("DeformConv", """(float[1, 1, 5, 5] x, float[1, 1, 2, 2] w, float[1, 8, 4, 4] o) => (y) {
             y = DeformConv<kernel_shape = [2, 2]>(x, w, o) }""", {"o": [[[[[0.5] * 4] * 4] * 8]]}),
    Probe("NonMaxSuppression", """(float[1, n, 4] b, float[1, 2, n] s, int64[1] m, float[1] t,
             float[1] u) => (int64[k, 3] y) { y = NonMaxSuppression(b, s, m, t, u) }""",
          {"m": [[2], [0], [100]], "t": [[0.5]], "u": [[0.0]]}),
    Probe("NegativeLogLikelihoodLoss", """(float[n, 5] x, int64[n] t) => (float l) {
             l = NegativeLogLikelihoodLoss(x, t) }""", {"t": [[0, 4, 2], [1]]}),
    Probe("SoftmaxCrossEntropyLoss", """(float[n, 5] x, int64[n] t) => (float l) {
             l = SoftmaxCrossEntropyLoss(x, t) }""", {"t": [[0, 4, 2], [1]]}),
    Probe("RotaryEmbedding", """(float[1, 2, n, 4] x, float[50, 2] c, float[50, 2] s,
             int64[1, n] p) => (float[1, 2, n, 4] y) { y = RotaryEmbedding(x, c, s, p) }""",
          {"p": [[[0, 1, 2]], [[49]]]}),
    Probe("Attention", """(float[2, 1, 3, 4] q, float[2, 1, k, 4] a, float[2, 1, k, 4] v,
             int64[2] c) => (y) { y = Attention(q, a, v, , , , c) }""",
          {"c": [[1, 2], [3, 3]]}),
    # Sequences, counts, signals ---------------------------------------------------------------
    Probe("SequenceAt", """(T[n] a, T[n] b, int64 p) => (y) {
             s = SequenceConstruct(a, b) y = SequenceAt(s, p) }""", {"p": [0, 1, -1, -2]}),
    Probe("SequenceInsert SequenceErase", """(T[n] a, T[n] b, int64 p, int64 q) => (y) {
             s = SequenceConstruct(a, b) t = SequenceInsert(s, a, p) u = SequenceErase(t, q)
             y = ConcatFromSequence<axis = 0>(u) }""", {"p": [0, 1, -1, -2], "q": [0, 2, -1]}),
    Probe("SplitToSequence", """(T[6, m] x, int64[2] s) => (y) {
             q = SplitToSequence(x, s) z = Constant<value_int = 1>() y = SequenceAt(q, z) }""",
          {"s": [[2, 4], [3, 3]]}),
    Probe("Loop", """(T[n] x, int64 m, bool c) => (T[n] y, T[k, n] z) {
             y, z = Loop(m, c, x) <body = b (int64 i, bool c_in, T[n] s) => (
                bool c_out, T[n] t, T[n] u) { five = Constant<value_int = 5>()
                c_out = Less(i, five) t = Add(s, s) u = Neg(s) }> }""",
          {"m": [0, 1, 3], "c": [True, False]}, FLOATS),
    Probe("Loop", """(T[n, 2] x, int64[6] m) => (T[k] y) {
             c = Constant<value_int = 1>() b = Cast<to = 9>(c) m3 = Constant<value_int = 3>()
             y0 = Constant<value_floats = [0.5]>() y = Loop(m3, b, y0) <body = b (int64 i,
                bool c_in, float[j] s) => (bool c_out, float[l] t) { c_out = Identity(c_in)
                one = Gather(m, i) shape = Reshape(one, c_) c_ = Constant<value_ints = [1]>()
                t = Expand(s, shape) }> }""", {"m": [[1, 1, 1, 1, 1, 1]]}),
    Probe("Scan", """(T[m] s, T[n, m] x) => (T[m] y, T[n, m] z) {
             y, z = Scan(s, x) <num_scan_inputs = 1, scan_input_directions = [?(0|1)],
                scan_output_directions = [?(0|1)], body = b (T[m] p, T[m] e) => (T[m] q, T[m] o) {
                q = Add(p, e) o = Neg(p) }> }""", {}, FLOATS),
    Probe("Scan", """(T[2] s, T[2, n] x, T[n, m] z, int64[k] i) => (T[2] y, T[a, b] w, T[k, n] v) {
             y, w, v = Scan(s, x, z) <num_scan_inputs = 2, scan_input_axes = [?(1|-1), 0],
                scan_output_axes = [?(0|1|-1), -1], body = b (T[2] p, T[2] e, T[m] r) => (
                T[2] q, T[m] f, T[k] g) { q = Max(p, e) f = Neg(r) g = Gather(r, i) }> }""",
          {"i": [[0, 1], [-1], []]}, FLOATS),
    Probe("SequenceMap", """(T[n, m] a, T[n, m] b, int64[k] i, int64 p) => (y) {
             s = SequenceConstruct(a, b) t = SequenceMap(s) <body = b (T[n, m] e) => (T[k, m] f) {
                f = Gather(e, i) }> y = SequenceAt(t, p) }""",
          {"i": [[0, -1], [1]], "p": [0, 1, -2]}),
    Probe("DFT", """(T[1, n, 1] x, int64 d, int64 a) => (y) { y = DFT(x, d, a) }""",
          {"d": [4, 8, 5], "a": [1]}, ("float", "double")),
    Probe("STFT", """(float[1, n, 1] x, int64 s, float[8] w, int64 l) => (y) {
             y = STFT(x, s, w, l) }""", {"s": [2, 4], "l": [8]}),
    *(Probe(f"{name}Window", f"(int64 n) => (float[k] y) {{ y = {name}Window(n) }}",
            {"n": [1, 8, 17]}) for name in ("Hann", "Hamming", "Blackman")),
    Probe("MelWeightMatrix", """(int64 m, int64 d, int64 r, float lo, float hi) => (y) {
             y = MelWeightMatrix(m, d, r, lo, hi) }""",
          {"m": [4], "d": [16], "r": [8192], "lo": [0.0], "hi": [4096.0]}),
    *(Probe(name, f"""(float[4, 2, 3] x, float[1, {gates}, 3] w, float[1, {gates}, 5] r,
             int32[2] s) => (y) {{ y = {name}<hidden_size = 5>(x, w, r, , s) }}""",
            {"s": [[4, 2], [0, 1]]})
      for name, gates in (("RNN", 5), ("GRU", 15), ("LSTM", 20))),
    Probe("Det", "(T[n, 3, 3] x) => (T[n] y) { z = Floor(x) y = Det(z) }", {}, ("float", "double")),
    # Arithmetic that may trap -----------------------------------------------------------------
    *(Probe("Div Mod", f"""({kind}[n] x, {kind}[n] z) => ({kind}[n] y, {kind}[n] w) {{
             y = Div(x, z) w = Mod(x, z) }}""", {"x": [[7, -7, 0]], "z": [[2, -2, 3]]})
      for kind in ("int64", "int32", "int8", "uint8")),
    Probe("BitShift Pow", """(uint32[n] x, uint32[n] z) => (uint32[n] y, uint32[n] w) {
             y = BitShift<direction = "LEFT">(x, z) w = BitShift<direction = "RIGHT">(x, z) }""",
          {"z": [[0, 1, 5]]}),
    Probe("Cast", """(float[n] x) => (int64[n] y, int8[n] z, int32[n] w) {
             y = Cast<to = 7>(x) z = Cast<to = 3>(x) w = Cast<to = 6>(x) }""",
          {"x": [[0.5, -1.0, 100.0]]}),
    # Sizes that leave nothing -----------------------------------------------------------------
    Probe("Conv MaxPool", """(float[n, 2, h, w] x, float[3, 2, 3, 3] k) => (y, z) {
             y = Conv(x, k) z = MaxPool<kernel_shape = [2, 2]>(x) }"""),
    Probe("AveragePool", """(float[n, 2, h, w] x) => (y, z) {
             y = AveragePool<kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1>(x)
             z = GlobalMaxPool(x) }"""),
    Probe("MatMul Softmax", """(float[n, m] x) => (float[n, n] y) {
             t = Transpose(x) p = MatMul(x, t) y = Softmax(p) }"""),
    # Classical models -------------------------------------------------------------------------
    Probe("LabelEncoder", """(string[n] x) => (int64[n] y) { y = ai.onnx.ml.LabelEncoder
          <keys_strings = ["a", "bc", ""], values_int64s = [1, 2, 3]> (x) }"""),
    Probe("StringConcat RegexFullMatch", """(string[n] x, string[n] z) => (string[n] y, bool[n] w) {
          y = StringConcat(x, z) w = RegexFullMatch<pattern = "a+|[b-d]*e">(x) }"""),
    Probe("StringSplit Unique", """(string[n] x) => (y, c, u, i, j, k) {
          y, c = StringSplit<delimiter = "a">(x) u, i, j, k = Unique(x) }"""),
    Probe("Tokenizer", """(string[n] x) => (y) { y = com.microsoft.Tokenizer
          <mark = 0, mincharnum = 1, pad_value = "#", tokenexp = "[a-z]+"> (x) }"""),
    Probe("TreeEnsembleRegressor", """(T[n, 2] x) => (float[n, 1] y) {
          y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1, nodes_treeids = [0, 0, 0],
          nodes_nodeids = [0, 1, 2], nodes_modes = ["?(BRANCH_LEQ|BRANCH_EQ)", "LEAF", "LEAF"],
          nodes_featureids = [1, 0, 0], nodes_values = [0.5, 0.0, 0.0],
          nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0],
          target_treeids = [0, 0], target_nodeids = [1, 2], target_ids = [0, 0],
          target_weights = [1.5, -2.0]> (x) }""", {}, ("float", "double")),
)  # fmt: skip


def probed_operators() -> set[str]:
    """The ONNX operators that some probe is for."""
    return {name for probe in PROBES for name in probe.ops.split()}


GRAPH = defs.OpSchema.AttrType.GRAPH
INTEGERS = {"tensor(int64)", "tensor(int32)", "tensor(bool)"}

DATA_ALONE = {
    "And": "truth values are its data",
    "If": "chooses one of two graphs",
    "Not": "truth values are its data",
    "Or": "truth values are its data",
    "Where": "truth values choose elements",
    "Xor": "truth values are its data",
    "Dropout": "its truth value says whether it is of a training",
    "QLinearConv": "the integers are a bias",
}
"""Operators whose inputs of integers or truth values say no size, axis or place, and why."""


def operators_with_numbers() -> set[str]:
    """The operators that the front end has, or ONNX by others, with an input that has to be of
    integers or truth values, which are sizes, axes, counts or places, or with a graph, whose
    iterations are counted.
    """
    own = {op.ONNX.name for op in OPS if op.ONNX and not op.ONNX.domain}
    own |= {*COMPOSITES, *CONTROL}
    found: set[str] = set()
    for schema in defs.get_all_schemas():
        known = schema.name in own or schema.has_function or schema.has_context_dependent_function
        if not schema.domain and known:
            kinds = [set(each.types) for each in schema.inputs]
            numbers = any(kind and kind <= INTEGERS for kind in kinds)
            graphs = any(each.type == GRAPH for each in schema.attributes.values())
            found |= {schema.name} if numbers or graphs else set()
    return found
