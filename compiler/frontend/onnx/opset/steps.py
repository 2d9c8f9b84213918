"""What each step of an operator's version asks for: nothing (UNCHANGED), or an upgrade function
(UPGRADES).

Together the two name every step that the installed onnx knows, which a test asserts.
"""

from collections.abc import Callable, Mapping

from onnx import NodeProto

from weft.compiler.frontend.onnx.opset import opsets_1_to_7, upgrades
from weft.compiler.frontend.onnx.opset.builder import Builder

Upgrade = Callable[[NodeProto, Builder], list[NodeProto]]

REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSumSquare",
)  # fmt: skip

LOST_CONSUMED_INPUTS = (
    *("Abs", "Add", "BatchNormalization", "Ceil", "Clip", "Div", "Dropout", "Elu", "Exp", "Floor"),
    *("HardSigmoid", "InstanceNormalization", "LeakyRelu", "Log", "Max", "Mean", "Min", "Mul"),
    *("Neg", "PRelu", "Reciprocal", "Relu", "Sigmoid", "Sqrt", "Sub", "Sum", "Tanh"),
)

LOST_AXIS = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")

UPGRADES: Mapping[tuple[str, int], Upgrade] = {
    ("BatchNormalization", 7): opsets_1_to_7.batch_norm_by_outputs,
    ("BatchNormalization", 9): upgrades.batch_norm_without_spatial,
    ("BatchNormalization", 14): upgrades.batch_norm_training_mode,
    ("Cast", 6): opsets_1_to_7.cast_by_number,
    ("Clip", 11): upgrades.clip_to_inputs,
    ("Concat", 4): opsets_1_to_7.concat_axis,
    ("DFT", 20): upgrades.dft_axis_to_input,
    ("Dropout", 7): opsets_1_to_7.dropout_tested,
    ("Dropout", 10): upgrades.dropout_bool_mask,
    ("Dropout", 12): upgrades.dropout_to_inputs,
    ("Flatten", 11): upgrades.flatten_from_the_end,
    ("GRU", 3): opsets_1_to_7.gru_direction,
    ("GRU", 7): opsets_1_to_7.recurrent_outputs,
    ("Gemm", 7): opsets_1_to_7.gemm_broadcasts,
    ("GlobalLpPool", 2): opsets_1_to_7.norm_by_integer,
    ("GridSample", 20): upgrades.grid_sample_modes,
    ("GroupNormalization", 21): upgrades.group_norm_per_channel,
    ("Hardmax", 13): upgrades.coerce_to_matrix,
    ("LSTM", 7): opsets_1_to_7.recurrent_outputs,
    ("LogSoftmax", 13): upgrades.coerce_to_matrix,
    ("LpPool", 2): opsets_1_to_7.norm_by_integer,
    ("Mod", 28): upgrades.mod_of_floats,
    ("OneHot", 11): upgrades.one_hot_negative_indices,
    ("PRelu", 7): opsets_1_to_7.slope_by_channel,
    ("Pad", 2): opsets_1_to_7.pad_by_pads,
    ("Pad", 11): upgrades.pad_to_inputs,
    ("RNN", 7): opsets_1_to_7.recurrent_outputs,
    ("ReduceSum", 13): upgrades.axes_to_input,
    ("Reshape", 5): opsets_1_to_7.reshape_to_input,
    ("Resize", 11): upgrades.resize_coordinates,
    ("Resize", 13): upgrades.resize_optional_inputs,
    ("RoiAlign", 16): upgrades.roi_align_coordinates,
    ("Scan", 9): upgrades.scan_over_batch,
    ("Scatter", 11): upgrades.scatter_to_elements,
    ("Selu", 6): opsets_1_to_7.selu_numbers,
    ("Slice", 10): upgrades.slice_to_inputs,
    ("Softmax", 13): upgrades.coerce_to_matrix,
    ("Split", 2): opsets_1_to_7.split_by_attribute,
    ("Split", 13): upgrades.split_to_input,
    ("Split", 18): upgrades.split_equally,
    ("Squeeze", 13): upgrades.axes_to_input,
    ("Tile", 6): opsets_1_to_7.tile_by_repeats,
    ("TopK", 10): upgrades.top_k_to_input,
    ("Unsqueeze", 13): upgrades.axes_to_input,
    ("Upsample", 7): opsets_1_to_7.upsample_scales,
    ("Upsample", 9): upgrades.upsample_to_input,
    ("Upsample", 10): upgrades.upsample_to_resize,
    **{(name, 6): opsets_1_to_7.without_consumed_inputs for name in LOST_CONSUMED_INPUTS},
    **{(name, 7): opsets_1_to_7.broadcast_by_shape for name in LOST_AXIS},
    **{(name, 18): upgrades.axes_to_input for name in REDUCTIONS},
}

# These steps add element types, optional inputs, attributes whose default is the former behaviour,
# or words.
UNCHANGED: Mapping[str, tuple[int, ...]] = {
    "Gemm": (6, 9, 11, 13),
    "AveragePool": (7, 10, 11, 19, 22),
    "MaxPool": (8, 10, 11, 12, 22),
    **dict.fromkeys(("Max", "Min"), (8, 12, 13)),
    **dict.fromkeys(("Mean", "Sum"), (8, 13)),
    "Constant": (9, 11, 12, 13, 19, 21, 23, 24, 25),
    **dict.fromkeys(("Greater", "Less", "MatMul"), (9, 13)),
    "Cast": (9, 13, 19, 21, 23, 24, 25, 28),
    "Flatten": (9, 13, 21, 23, 24, 25),
    "PRelu": (9, 16),
    **dict.fromkeys((
        "Hardmax", "LogSoftmax", "NonMaxSuppression", "ReduceSum", "Softmax", "Split",
    ), (11,)),
    **dict.fromkeys(("ArgMax", "ArgMin"), (11, 12, 13)),
    **dict.fromkeys(("ReduceMax", "ReduceMin"), (11, 12, 13, 20)),
    **dict.fromkeys((
        "Concat", "Gather", "ReduceL1", "ReduceL2", "ReduceMean", "ReduceProd", "ReduceSumSquare",
        "Slice",
    ), (11, 13)),
    **dict.fromkeys(("If", "Loop"), (11, 13, 16, 19, 21, 23, 24, 25)),
    "Equal": (11, 13, 19),
    **dict.fromkeys(("DepthToSpace", "ReduceLogSum", "ReduceLogSumExp"), (11, 13, 28)),
    "Scan": (11, 16, 19, 21, 23, 24, 25),
    "LpPool": (11, 18, 22),
    **dict.fromkeys(("Squeeze", "Unsqueeze"), (11, 21, 23, 24, 25)),
    **dict.fromkeys(("Conv", "ConvTranspose", "MaxUnpool"), (11, 22)),
    "TopK": (11, 24),
    "Compress": (11, 28),
    **dict.fromkeys(("Clip", "GatherND"), (12, 13)),
    "Pow": (12, 13, 15),
    **dict.fromkeys((
        "Abs", "Ceil", "Erf", "Exp", "Expand", "Floor", "GatherElements", "LRN", "Log",
        "MeanVarianceNormalization", "Mod", "Neg", "NonZero", "Reciprocal", "Sigmoid", "Sign",
        "SoftmaxCrossEntropyLoss", "Sqrt", "Tanh", "Tile",
    ), (13,)),
    **dict.fromkeys(("Add", "Div", "Mul", "Relu", "Sub"), (13, 14)),
    "Identity": (13, 14, 16, 19, 21, 23, 24, 25),
    "Reshape": (13, 14, 19, 21, 23, 24, 25),
    "Shape": (13, 15, 19, 21, 23, 24, 25),
    **dict.fromkeys(("ScatterElements", "ScatterND"), (13, 16, 18)),
    "Pad": (13, 18, 19, 21, 23, 24, 25),
    "Size": (13, 19, 21, 23, 24, 25),
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear"), (13, 19, 21, 23, 24, 25, 28)),
    "IsNaN": (13, 20),
    "Transpose": (13, 21, 23, 24, 25),
    **dict.fromkeys(("Dropout", "NegativeLogLikelihoodLoss"), (13, 22)),
    "SpaceToDepth": (13, 28),
    "CumSum": (14,),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), (14, 22)),
    "BatchNormalization": (15,),
    **dict.fromkeys(("GreaterOrEqual", "LeakyRelu", "LessOrEqual", "Where"), (16,)),
    "Resize": (18, 19),
    **dict.fromkeys(("OptionalGetElement", "OptionalHasElement"), (18, 28)),
    "CastLike": (19, 21, 23, 24, 25),
    "IsInf": (20,),
    "ConstantOfShape": (20, 21, 23, 24, 25),
    "QLinearMatMul": (21,),
    **dict.fromkeys((
        "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Bernoulli", "Cos", "Cosh",
        "DeformConv", "Det", "Elu", "EyeLike", "GlobalAveragePool", "GlobalLpPool",
        "GlobalMaxPool", "GridSample", "HardSigmoid", "HardSwish", "InstanceNormalization",
        "LpNormalization", "MaxRoiPool", "Mish", "Multinomial", "RandomNormal",
        "RandomNormalLike", "RandomUniform", "RandomUniformLike", "RoiAlign", "Round", "Selu",
        "Sin", "Sinh", "Softplus", "Softsign", "Tan", "ThresholdedRelu",
    ), (22,)),
    "SplitToSequence": (24,),
    "Attention": (24, 25),
    "Range": (27,),
    **dict.fromkeys((
        "BitShift", "Celu", "Einsum", "OneHot", "Optional", "ReverseSequence", "Unique",
    ), (28,)),
}  # fmt: skip
