"""The recorded list: operators and models of the table, and more of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import numpy as np
from onnx import ModelProto, TensorProto

from benchmarks.case import Case, Inputs, random_array
from benchmarks.networks import (
    build_convnext,
    build_efficientnet,
    build_gpt2_decode,
    build_lstm,
    build_unet,
    build_vit,
)
from benchmarks.operators import (
    attention,
    chain,
    conv,
    gathered,
    matmul,
    operator,
    reduced,
    resized,
    with_indices,
)
from tests.models.convolutional import build_lenet, build_mobilenet_v2, build_resnet50
from tests.models.light import SEED, seeded_input
from tests.models.networks import bert_inputs, build_mlp, gpt2_inputs, image_inputs
from tests.models.transformers import build_bert, build_gpt2
from weft.cli.demo_model import load_light, with_random_weights

FOUR_MILLION: Final = (1024, 4096)

OPERATORS: Final[tuple[Case, ...]] = (
    *(matmul(n, n, n, name=f"sgemm_{n}") for n in (256, 512, 1024, 2048)),
    matmul(128, 768, 3072, constant=True),
    conv("conv3x3_56_64_64", 64, 64, 56, 3),
    conv("conv1x1_14_1024_256", 1024, 256, 14, 1),
    conv("depthwise3x3_112_32", 32, 32, 112, 3, group=32),
    operator("softmax_1024x1024", "Softmax", [(1024, 1024)], (1024, 1024), axis=-1),
    operator(
        "layer_norm_1024x768",
        "LayerNormalization",
        [(1024, 768)],
        (1024, 768),
        constants=[(768,), (768,)],
    ),
    operator("gelu_4M", "Gelu", [FOUR_MILLION], FOUR_MILLION),
    chain("chain8_4M", FOUR_MILLION),
    reduced("reduce_sum_4096x4096", "ReduceSum", (4096, 4096), None),
    operator("transpose_4096x4096", "Transpose", [(4096, 4096)], (4096, 4096), perm=[1, 0]),
    attention(12, 128),
    attention(12, 1024),
    operator("add_8", "Add", [(8,), (8,)], (8,)),
)
"""The single operators of the table."""


def _images(batch: int = 1, channels: int = 3, size: int = 224) -> Callable[[], Inputs]:
    return partial(image_inputs, SEED, batch, channels, size)


def _decode_inputs(past: int = 128) -> Inputs:
    caches = {
        f"past_{each}_{layer}": random_array((1, 12, past, 64), TensorProto.FLOAT, layer)
        for layer in range(12)
        for each in ("key", "value")
    }
    return {"input_ids": np.array([[42]])} | caches


MODELS: Final[tuple[Case, ...]] = (
    Case("resnet50_b1", build_resnet50, _images()),
    Case("resnet50_b8", partial(build_resnet50, 8), _images(8)),
    Case("mobilenet_v2_b1", build_mobilenet_v2, _images()),
    Case("bert_base_128", build_bert, partial(bert_inputs, SEED)),
    Case("gpt2_prefill_128", build_gpt2, partial(gpt2_inputs, SEED)),
    Case("gpt2_decode_128", build_gpt2_decode, _decode_inputs),
    Case("mlp_b1", build_mlp, _images(1, 1, 28)),
    Case("mlp_b128", partial(build_mlp, 128), _images(128, 1, 28)),
    Case("lenet_b1", build_lenet, _images(1, 1, 28)),
)
"""The models of the table."""


def _light(name: str) -> Case:
    def build() -> ModelProto:
        return with_random_weights(load_light(name), SEED)

    def inputs() -> Inputs:
        model = load_light(name)
        constants = {tensor.name for tensor in model.graph.initializer}
        (image,) = (value.name for value in model.graph.input if value.name not in constants)
        return {image: seeded_input()}

    return Case(name, build, inputs)


def _sequence_inputs(length: int = 64, width: int = 256) -> Inputs:
    return {"sequence": random_array((length, 1, width), TensorProto.FLOAT, 0)}


MORE_MODELS: Final[tuple[Case, ...]] = (
    Case("unet_128", build_unet, _images(size=128)),
    Case("vit_s16", build_vit, _images()),
    Case("lstm_2x512", build_lstm, _sequence_inputs),
    Case("convnext_t", build_convnext, _images()),
    Case("efficientnet_b0", build_efficientnet, _images()),
    *map(_light, ("densenet121", "inception_v1", "vgg19", "squeezenet", "shufflenet")),
    _light("inception_v2"),
)
"""Other architectures; the last six are graphs of the onnx package."""

_F16, _BF16, _F64 = TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE
_I8, _I32, _I64 = TensorProto.INT8, TensorProto.INT32, TensorProto.INT64

_PRODUCTS: Final = (
    matmul(64, 64, 64),
    matmul(100, 100, 100),
    matmul(333, 777, 555),
    matmul(1, 4096, 4096, constant=True),
    matmul(8, 768, 3072, constant=True),
    matmul(32, 768, 768, constant=True),
    matmul(128, 3072, 768, constant=True),
    matmul(511, 513, 127, constant=True),
    matmul(4096, 64, 64, constant=True),
    matmul(128, 64, 128, batch=(12,)),
    matmul(17, 33, 65, batch=(32,)),
    matmul(512, 512, 512, dtype=_F64, name="matmul_512_f64"),
    matmul(512, 512, 512, dtype=_F16, name="matmul_512_f16"),
    matmul(128, 768, 768, constant=True, symbolic={0: "rows"}, name="matmul_rows_x768x768"),
    matmul(200, 256, 1000, constant=True, symbolic={0: "rows"}, name="matmul_rows_x256x1000"),
)

_CONVOLUTIONS: Final = (
    conv("conv7x7s2_224_3_64", 3, 64, 224, 7, stride=2),
    conv("conv3x3s2_224_3_32", 3, 32, 224, 3, stride=2),
    conv("conv3x3_28_128_128", 128, 128, 28, 3),
    conv("conv3x3_14_256_256", 256, 256, 14, 3),
    conv("conv3x3_7_512_512", 512, 512, 7, 3),
    conv("conv3x3s2_56_128_128", 128, 128, 56, 3, stride=2),
    conv("conv3x3_14_256_256_b8", 256, 256, 14, 3, batch=8),
    conv("conv3x3_odd_37_50_70", 50, 70, 37, 3),
    conv("conv3x3_dilated2_28_128", 128, 128, 28, 3, dilation=2),
    conv("conv3x3_group4_28_128", 128, 128, 28, 3, group=4),
    conv("conv5x5_28_64_96", 64, 96, 28, 5),
    conv("conv1x1_56_64_256", 64, 256, 56, 1),
    conv("conv1x1s2_56_256_512", 256, 512, 56, 1, stride=2),
    conv("conv1x1_7_512_2048", 512, 2048, 7, 1),
    conv("depthwise3x3s2_112_96", 96, 96, 112, 3, stride=2, group=96),
    conv("depthwise5x5_28_240", 240, 240, 28, 5, group=240),
    conv("depthwise7x7_56_96", 96, 96, 56, 7, group=96),
    operator(
        "conv1d_400_80_256",
        "Conv",
        [(1, 80, 400)],
        (1, 256, 400),
        constants=[(256, 80, 3)],
        pads=[1, 1],
    ),
    operator(
        "conv_transpose2x2s2_28_128_64",
        "ConvTranspose",
        [(1, 128, 28, 28)],
        (1, 64, 56, 56),
        constants=[(128, 64, 2, 2)],
        strides=[2, 2],
    ),
)

_ROWS: Final = (
    operator("softmax_12x128x128", "Softmax", [(12, 128, 128)], (12, 128, 128), axis=-1),
    operator("softmax_1x50257", "Softmax", [(1, 50257)], (1, 50257), axis=-1),
    operator("softmax_axis1_64x100x64", "Softmax", [(64, 100, 64)], (64, 100, 64), axis=1),
    operator("log_softmax_128x1000", "LogSoftmax", [(128, 1000)], (128, 1000), axis=-1),
    operator(
        "layer_norm_128x1023",
        "LayerNormalization",
        [(128, 1023)],
        (128, 1023),
        constants=[(1023,), (1023,)],
    ),
    operator(
        "layer_norm_rows_x768",
        "LayerNormalization",
        [(128, 768)],
        (128, 768),
        constants=[(768,), (768,)],
        symbolic={0: "rows"},
    ),
    operator(
        "instance_norm_64x56x56",
        "InstanceNormalization",
        [(1, 64, 56, 56)],
        (1, 64, 56, 56),
        constants=[(64,), (64,)],
    ),
    reduced("reduce_max_rows_2048x2048", "ReduceMax", (2048, 2048), [1]),
    reduced("reduce_mean_columns_2048x2048", "ReduceMean", (2048, 2048), [0]),
    reduced("reduce_sum_middle_64x256x64", "ReduceSum", (64, 256, 64), [1]),
    operator("argmax_128x5025_i64", "ArgMax", [(128, 5025)], (128, 1), dtype=_I64, axis=1),
    operator("global_average_pool_2048x7", "GlobalAveragePool", [(1, 2048, 7, 7)], (1, 2048, 1, 1)),
    with_indices("cumsum_512x1024", "CumSum", (512, 1024), (512, 1024), [1]),
)

_POINTWISE: Final = (
    operator("add_1M", "Add", [(1024, 1024)] * 2, (1024, 1024)),
    operator("add_rows_4096x1000", "Add", [(4096, 1000), (1000,)], (4096, 1000)),
    operator("add_columns_1000x4096", "Add", [(1000, 4096), (1000, 1)], (1000, 4096)),
    operator("add_1M_i32", "Add", [(1024, 1024)] * 2, (1024, 1024), dtype=_I32),
    operator("relu_1M_f16", "Relu", [(1024, 1024)], (1024, 1024), dtype=_F16),
    operator("tanh_1M", "Tanh", [(1024, 1024)], (1024, 1024)),
    operator("exp_999999", "Exp", [(999999,)], (999999,)),
    operator("sigmoid_64K", "Sigmoid", [(256, 256)], (256, 256)),
    operator("tanh_512K_f64", "Tanh", [(512, 1024)], (512, 1024), dtype=_F64),
    chain("chain8_rows_x1000", (1000, 1000), {0: "rows"}),
)

_MOVES: Final = (
    operator("transpose_0213_128x12x64", "Transpose", [(1, 128, 12, 64)], (1, 12, 128, 64),
             perm=[0, 2, 1, 3]),
    operator("nchw_to_nhwc_64x112", "Transpose", [(1, 64, 112, 112)], (1, 112, 112, 64),
             perm=[0, 2, 3, 1]),
    operator("concat_1M", "Concat", [(1024, 512)] * 2, (1024, 1024), axis=1),
    with_indices("slice_strided_2048", "Slice", (2048, 2048), (1024, 1024),
                 [[0, 0], [2048, 2048], [0, 1], [2, 2]]),
    with_indices("pad_128x112", "Pad", (1, 128, 112, 112), (1, 128, 114, 114),
                 [[0, 0, 1, 1, 0, 0, 1, 1]]),
    gathered("embedding_30522x768_128", 30522, 768, 128),
    resized("resize_nearest2_64x64", (1, 64, 64, 64), 2, "nearest"),
    resized("resize_linear2_64x64", (1, 64, 64, 64), 2, "linear"),
    operator("max_pool3x3s2_64x112", "MaxPool", [(1, 64, 112, 112)], (1, 64, 56, 56),
             kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    operator("average_pool2x2_256x28", "AveragePool", [(1, 256, 28, 28)], (1, 256, 14, 14),
             kernel_shape=[2, 2], strides=[2, 2]),
)  # fmt: skip

_ATTENTION: Final = (
    attention(12, 197),
    attention(8, 1, 64, keys=1024),
    attention(12, 512, 64, causal=True),
    attention(16, 77, 80),
)

MORE_OPERATORS: Final[tuple[Case, ...]] = (
    *_PRODUCTS,
    *_CONVOLUTIONS,
    *_ROWS,
    *_POINTWISE,
    *_MOVES,
    *_ATTENTION,
)
"""Other shapes, batches, strides, dtypes, odd and symbolic sizes."""

GROUPS: Final[Mapping[str, tuple[Case, ...]]] = {
    "operators": OPERATORS,
    "models": MODELS,
    "more operators": MORE_OPERATORS,
    "more models": MORE_MODELS,
}
"""What the report shows, table by table."""


def find_cases(names: list[str]) -> list[Case]:
    """The cases of these names or groups, all of them for none. Raises ValueError for others."""
    choices = {case.name: (case,) for group in GROUPS.values() for case in group} | GROUPS
    unknown = [name for name in names if name not in choices]
    if unknown:
        raise ValueError(f"benchmarks require cases of {', '.join(choices)}, got {unknown}")
    return [case for name in names or list(GROUPS) for case in choices[name]]
