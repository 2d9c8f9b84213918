"""Architectures as PyTorch's exporters write them, with random weights: those that the tests do not
export, at the sizes that people run.

In: nothing but the libraries of models. Out: models of two exporters and their inputs.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import diffusers
import numpy as np
import timm
import torch
import torchvision
import transformers
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.real.classical import Made

Inputs = dict[str, Tensor]
Axes = Mapping[str, Mapping[int, str]]

OPSETS: Final = {"script": 17, "dynamo": 20}
VOCABULARY: Final = 1000
LENGTH: Final = 24


class Export(NamedTuple):
    """A module, its inputs by name in the order of its parameters, and which of their axes vary."""

    module: nn.Module
    inputs: Inputs
    axes: Axes = {}
    exporter: str = "dynamo"


class Flat(nn.Module):
    """A model that is called with tensors by name, and gives all the tensors of its result."""

    def __init__(self, model: nn.Module, names: tuple[str, ...], fixed: Mapping[str, Any]):
        super().__init__()
        self.model = model
        self.names = names
        self.fixed = dict(fixed)

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        result = self.model(**dict(zip(self.names, values, strict=True)), **self.fixed)
        return tuple(_tensors(result))


class Listed(nn.Module):
    """A detector, which takes a list of images and gives a dict for each."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        return tuple(_tensors(self.model([image])))


class Cached(nn.Module):
    """A step of a decoder: a token, what the cache has, and both behind it."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, token: Tensor, mask: Tensor, *cache: Tensor) -> tuple[Tensor, ...]:
        pairs = list(zip(cache[::2], cache[1::2], strict=True))
        past = transformers.DynamicCache(pairs)
        given = self.model(
            input_ids=token, attention_mask=mask, past_key_values=past, use_cache=True
        )
        after = given.past_key_values.layers
        return given.logits, *(each for layer in after for each in (layer.keys, layer.values))


def _tensors(result: Any) -> Iterator[Tensor]:
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, Mapping):
        for each in result.values():
            yield from _tensors(each)
    elif isinstance(result, (list, tuple)):
        for each in result:
            yield from _tensors(each)


def _timm(name: str, size: int = 224, **options: Any) -> Export:
    module = timm.create_model(name, pretrained=False, num_classes=100, **options)
    return Export(module, {"pixels": torch.randn(1, 3, size, size)}, {"pixels": {0: "batch"}})


def _image(make: Callable[..., nn.Module], shape: tuple[int, ...], **options: Any) -> Export:
    module = make(weights=None, **options)
    return Export(module, {"pixels": torch.randn(shape)}, {"pixels": {0: "batch"}})


def _dense(make: Callable[..., nn.Module], name: str = "x") -> Export:
    """A segmentation of images of any size, whose parameter has that name."""
    module = make(weights=None, weights_backbone=None, num_classes=21)
    axes = {"pixels": {0: "batch", 2: "height", 3: "width"}}
    inputs = {"pixels": torch.randn(1, 3, 224, 224)}
    return Export(Flat(module, (name,), {}), inputs, axes, "script")


def _detector(make: Callable[..., nn.Module]) -> Export:
    module = make(weights=None, weights_backbone=None, num_classes=5, box_score_thresh=0.0)
    return Export(Listed(module), {"image": torch.rand(3, 256, 320)}, {}, "script")


def _one_stage(make: Callable[..., nn.Module], size: int) -> Export:
    module = make(weights=None, weights_backbone=None, num_classes=5)
    return Export(Listed(module), {"image": torch.rand(3, size, size)}, {}, "script")


def _flow() -> Export:
    images = {name: torch.rand(1, 3, 128, 160) for name in ("first", "second")}
    model = torchvision.models.optical_flow.raft_small(weights=None)
    return Export(Flat(model, ("image1", "image2"), {"num_flow_updates": 3}), images)


def _made(model: str, config: str, **options: Any) -> nn.Module:
    return getattr(transformers, model)(getattr(transformers, config)(**options))


def _text(model: str, config: str, **options: Any) -> Export:
    module = Flat(_made(model, config, **options), ("input_ids", "attention_mask"), {})
    tokens = torch.randint(3, VOCABULARY, (1, LENGTH))
    inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    return Export(module, inputs, dict.fromkeys(inputs, {0: "batch", 1: "length"}))


def _speech(model: str, config: str, **options: Any) -> Export:
    module = Flat(_made(model, config, **options), ("input_values",), {})
    axes = {"input_values": {0: "batch", 1: "samples"}}
    return Export(module, {"input_values": torch.randn(1, 8000)}, axes)


def _pixels(model: str, config: str, size: int, **options: Any) -> Export:
    module = Flat(_made(model, config, **options), ("pixel_values",), {})
    inputs = {"pixel_values": torch.randn(1, 3, size, size)}
    return Export(module, inputs, {"pixel_values": {0: "batch"}})


def _step(model: str, config: str, heads: int, width: int, layers: int, **options: Any) -> Export:
    """A decoder with its cache as inputs and outputs."""
    axes: dict[str, Mapping[int, str]] = {"token": {0: "batch"}, "mask": {0: "batch", 1: "seen"}}
    mask = torch.ones(1, LENGTH + 1, dtype=torch.int64)
    inputs = {"token": torch.randint(3, VOCABULARY, (1, 1)), "mask": mask}
    for layer in range(layers):
        for part in ("key", "value"):
            inputs[f"{part}{layer}"] = torch.randn(1, heads, LENGTH, width)
            axes[f"{part}{layer}"] = {0: "batch", 2: "past"}
    return Export(Cached(_made(model, config, **options)), inputs, axes, "script")


def _diffuser(model: str, inputs: Inputs, fixed: Mapping[str, Any], **options: Any) -> Export:
    module = getattr(diffusers, model)(**options)
    return Export(Flat(module, tuple(inputs), {"return_dict": False, **fixed}), inputs)


_TEXT = {"vocab_size": VOCABULARY, "hidden_size": 128, "num_hidden_layers": 3,
         "num_attention_heads": 4, "intermediate_size": 256}  # fmt: skip
_SPEECH = {"hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4,
           "intermediate_size": 256, "conv_dim": (64,) * 7, "num_conv_pos_embeddings": 16,
           "num_conv_pos_embedding_groups": 4}  # fmt: skip
_LATENT = {"sample": torch.randn(1, 4, 32, 32), "timestep": torch.tensor([7])}
_WORDS = {"encoder_hidden_states": torch.randn(1, 12, 64)}
_BLOCKS = {"block_out_channels": (32, 64), "norm_num_groups": 8}

VISION = torchvision.models
DETECTION = VISION.detection

EXPORTS: Final[Mapping[str, Callable[[], Export]]] = {
    **{
        name: partial(_timm, name, size)
        for name, size in {
            "convnextv2_atto": 224, "efficientvit_b0": 224, "mobilevit_xxs": 256,
            "mobilenetv4_conv_small": 224, "ghostnet_100": 224, "hrnet_w18_small": 224,
            "repvgg_a0": 224, "dla34": 224, "ese_vovnet19b_dw": 224, "levit_128s": 224,
            "pvt_v2_b0": 224, "poolformer_s12": 224, "xcit_nano_12_p16_224": 224,
            "edgenext_xx_small": 256, "fastvit_t8": 256, "tiny_vit_5m_224": 224,
            "mixer_s32_224": 224, "cait_xxs24_224": 224, "crossvit_tiny_240": 240,
            "eca_nfnet_l0": 224, "rexnet_100": 224, "swinv2_cr_tiny_ns_224": 224,
            "maxvit_rmlp_pico_rw_256": 256, "starnet_s1": 224, "efficientformer_l1": 224,
            "inception_next_atto": 224, "davit_tiny": 224,
        }.items()
    },
    "deeplabv3_mobilenet": partial(_dense, VISION.segmentation.deeplabv3_mobilenet_v3_large),
    "lraspp_mobilenet": partial(_dense, VISION.segmentation.lraspp_mobilenet_v3_large, "input"),
    "fasterrcnn_mobilenet": partial(_detector, DETECTION.fasterrcnn_mobilenet_v3_large_320_fpn),
    "ssdlite_mobilenet": partial(_one_stage, DETECTION.ssdlite320_mobilenet_v3_large, 320),
    "r2plus1d_18": partial(_image, VISION.video.r2plus1d_18, (1, 3, 8, 64, 64)),
    "s3d": partial(_image, VISION.video.s3d, (1, 3, 16, 224, 224)),
    "raft_small": _flow,
    "modernbert": partial(_text, "ModernBertModel", "ModernBertConfig", pad_token_id=0, **_TEXT),
    "mobilebert": partial(_text, "MobileBertModel", "MobileBertConfig", **_TEXT,
                          embedding_size=128, intra_bottleneck_size=128),
    "gpt2_step": partial(_step, "GPT2LMHeadModel", "GPT2Config", 4, 32, 3, vocab_size=VOCABULARY,
                         n_embd=128, n_layer=3, n_head=4),
    "qwen3_step": partial(_step, "Qwen3ForCausalLM", "Qwen3Config", 2, 32, 3, **_TEXT,
                          num_key_value_heads=2, head_dim=32),
    "llama_step": partial(_step, "LlamaForCausalLM", "LlamaConfig", 2, 32, 3, **_TEXT,
                          num_key_value_heads=2),
    "wav2vec2": partial(_speech, "Wav2Vec2Model", "Wav2Vec2Config", **_SPEECH),
    "hubert": partial(_speech, "HubertModel", "HubertConfig", **_SPEECH),
    "wavlm": partial(_speech, "WavLMModel", "WavLMConfig", **_SPEECH),
    "mobilevitv2": partial(_pixels, "MobileViTV2Model", "MobileViTV2Config", 256),
    "dpt": partial(_pixels, "DPTForDepthEstimation", "DPTConfig", 96, image_size=96, patch_size=16,
                   hidden_size=96, num_hidden_layers=4, num_attention_heads=4,
                   intermediate_size=192, backbone_out_indices=[0, 1, 2, 3],
                   neck_hidden_sizes=[16, 24, 32, 48], fusion_hidden_size=32),
    "yolos": partial(_pixels, "YolosForObjectDetection", "YolosConfig", 128, image_size=[128, 128],
                     hidden_size=96, num_hidden_layers=3, num_attention_heads=4,
                     intermediate_size=192, num_detection_tokens=20),
    "detr": partial(_pixels, "DetrForObjectDetection", "DetrConfig", 192, d_model=64,
                    encoder_layers=2, decoder_layers=2, encoder_ffn_dim=128, decoder_ffn_dim=128,
                    encoder_attention_heads=4, decoder_attention_heads=4, num_queries=20,
                    use_timm_backbone=True, use_pretrained_backbone=False, backbone="resnet18"),
    "unet2d": partial(_diffuser, "UNet2DModel", {**_LATENT, "sample": torch.randn(1, 3, 32, 32)},
                      {}, sample_size=32, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                      up_block_types=("AttnUpBlock2D", "UpBlock2D"), **_BLOCKS),
    "unet_condition": partial(
        _diffuser, "UNet2DConditionModel", {**_LATENT, **_WORDS}, {}, sample_size=32,
        cross_attention_dim=64, attention_head_dim=8, layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), **_BLOCKS),
    "vae": partial(_diffuser, "AutoencoderKL", {"sample": torch.randn(1, 3, 64, 64)}, {},
                   down_block_types=("DownEncoderBlock2D",) * 2,
                   up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4, **_BLOCKS),
    "dit": partial(_diffuser, "DiTTransformer2DModel",
                   {"hidden_states": torch.randn(1, 4, 16, 16), "timestep": torch.tensor([7]),
                    "class_labels": torch.tensor([3])}, {}, num_attention_heads=4,
                   attention_head_dim=16, in_channels=4, num_layers=2, sample_size=16),
}  # fmt: skip
"""The architectures by name."""


def make_exports() -> Iterator[Made | str]:
    """Each architecture as a model with its inputs, or what was said of one that has none."""
    for name, make in EXPORTS.items():
        try:
            torch.manual_seed(0)
            export = make()
            yield name, exported(export), _arrays(export.inputs)
        except Exception as error:  # what exporters raise have no type in common
            said = str(error).strip().splitlines() or [""]
            yield f"exports/{name}: {type(error).__name__}: {said[0][:200]}"


def exported(export: Export) -> bytes:
    """The serialised model, whose axes are named."""
    out = io.BytesIO()
    is_dynamo = export.exporter == "dynamo"
    options: dict[str, Any] = {"input_names": list(export.inputs)}
    if not is_dynamo:
        options["dynamic_axes"] = {name: dict(axes) for name, axes in export.axes.items()}
    elif export.axes:
        shapes = tuple(dict(export.axes.get(name, {})) for name in export.inputs)
        # A module whose forward takes `*values` has one parameter, the tuple of them.
        options["dynamic_shapes"] = (shapes,) if isinstance(export.module, Flat) else shapes
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            made = torch.onnx.export(
                export.module.eval(), tuple(export.inputs.values()), None if is_dynamo else out,
                dynamo=is_dynamo, opset_version=OPSETS[export.exporter],
                **options, **({"verbose": False} if is_dynamo else {}),
            )  # fmt: skip
        finally:
            logging.disable(logging.NOTSET)
    return out.getvalue() if made is None else made.model_proto.SerializeToString()


def _arrays(inputs: Inputs) -> dict[str, NDArray[Any]]:
    return {name: np.asarray(value) for name, value in inputs.items()}
