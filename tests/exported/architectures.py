"""Architectures as PyTorch modules: small random configurations with dynamic batch and sequence.

Each is a function without arguments in `ARCHITECTURES`; what it imports may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

Axes = Mapping[int, str]
Sizes = Mapping[str, int]


class FirstOutput(nn.Module):
    """A model called with its inputs in a fixed order by name, which gives its first output."""

    def __init__(self, model: nn.Module, names: tuple[str, ...], fixed: Mapping[str, Any]):
        super().__init__()
        self.model = model
        self.names = names
        self.fixed = dict(fixed)

    def forward(self, *values: Tensor) -> Tensor:
        result = self.model(**dict(zip(self.names, values, strict=True)), **self.fixed)
        return result[0] if isinstance(result, tuple) else result.to_tuple()[0]


@dataclass(frozen=True)
class Architecture:
    """A module, how its inputs are made for given sizes, and which of their axes vary."""

    module: nn.Module
    make_inputs: Callable[[Sizes], dict[str, Tensor]]
    axes: Mapping[str, Axes]


VOCABULARY = 99
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
TEXT = {**SMALL, "vocab_size": VOCABULARY, "intermediate_size": 64, "max_position_embeddings": 64}
BATCH_AND_LENGTH = {0: "batch", 1: "length"}


def _tokens(names: tuple[str, ...], sizes: Sizes) -> dict[str, Tensor]:
    shape = (sizes["batch"], sizes["length"])
    generator = torch.Generator().manual_seed(sum(shape))
    inputs: dict[str, Tensor] = {}
    for name in names:
        if name.endswith("mask"):
            inputs[name] = torch.ones(shape, dtype=torch.int64)
            inputs[name][0, -2:] = 0
        else:
            inputs[name] = torch.randint(3, VOCABULARY, shape, generator=generator)
    return inputs


def _noise(shape: tuple[int, ...], name: str, sizes: Sizes) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(sizes["batch"])
    return {name: torch.randn((sizes["batch"], *shape), generator=generator)}


def _transformers(model: str, config: str, **options: Any) -> nn.Module:
    import transformers

    torch.manual_seed(0)
    configuration = getattr(transformers, config)(**options)
    made = getattr(transformers, model)(configuration)
    return made.eval()


def _text(
    model: str,
    config: str,
    names: tuple[str, ...] = ("input_ids", "attention_mask"),
    cached: bool = False,
    **options: Any,
) -> Architecture:
    """A model of tokens; `cached` for one that would give its keys and values too."""
    fixed = {"use_cache": False} if cached else {}
    made = _transformers(model, config, **options)
    axes = dict.fromkeys(names, BATCH_AND_LENGTH)
    return Architecture(FirstOutput(made, names, fixed), partial(_tokens, names), axes)


def _image(model: str, config: str, size: int, **options: Any) -> Architecture:
    """A model of square images of one size."""
    made = _transformers(model, config, **options)
    inputs = partial(_noise, (3, size, size), "pixel_values")
    module = FirstOutput(made, ("pixel_values",), {})
    return Architecture(module, inputs, {"pixel_values": {0: "batch"}})


def _torchvision(name: str, size: int = 64, **options: Any) -> Architecture:
    import torchvision

    torch.manual_seed(0)
    module = getattr(torchvision.models, name)(weights=None, num_classes=10, **options).eval()
    return Architecture(
        module, partial(_noise, (3, size, size), "pixels"), {"pixels": {0: "batch"}}
    )


def _whisper() -> Architecture:
    names = ("input_features", "decoder_input_ids")
    options = {
        "vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64, "max_source_positions": 20, "max_target_positions": 64,
        "num_mel_bins": 16, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
        "decoder_start_token_id": 1, "suppress_tokens": None, "begin_suppress_tokens": None,
    }  # fmt: skip
    made = _transformers("WhisperModel", "WhisperConfig", **options)

    def inputs(sizes: Sizes) -> dict[str, Tensor]:
        tokens = _tokens(names[1:], sizes)
        return _noise((16, 40), names[0], sizes) | tokens

    axes = {names[0]: {0: "batch"}, names[1]: BATCH_AND_LENGTH}
    return Architecture(FirstOutput(made, names, {"use_cache": False}), inputs, axes)


def _clip() -> Architecture:
    names = ("input_ids", "pixel_values", "attention_mask")
    text = {**TEXT, "projection_dim": 16, "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 1}
    vision = {**SMALL, "intermediate_size": 64, "image_size": 32, "patch_size": 8}
    made = _transformers(
        "CLIPModel", "CLIPConfig",
        text_config=text, vision_config={**vision, "projection_dim": 16}, projection_dim=16,
    )  # fmt: skip

    def inputs(sizes: Sizes) -> dict[str, Tensor]:
        tokens = _tokens((names[0], names[2]), sizes)
        image = _noise((3, 32, 32), names[1], sizes)
        return {names[0]: tokens[names[0]], **image, names[2]: tokens[names[2]]}

    axes = {names[0]: BATCH_AND_LENGTH, names[1]: {0: "batch"}, names[2]: BATCH_AND_LENGTH}
    return Architecture(FirstOutput(made, names, {}), inputs, axes)


_DECODER = ("input_ids", "attention_mask", "decoder_input_ids")
_SEQUENCES = {
    "vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64, "max_position_embeddings": 64,
}  # fmt: skip
_T5 = {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2,
       "num_heads": 4, "decoder_start_token_id": 0}  # fmt: skip
_GROUPED = {**TEXT, "num_key_value_heads": 2}
_PATCHES = {**SMALL, "intermediate_size": 64, "image_size": 32, "patch_size": 8}
_WINDOWS = {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2],
            "num_heads": [2, 4], "window_size": 4}  # fmt: skip

ARCHITECTURES: Mapping[str, Callable[[], Architecture]] = {
    "bert": partial(_text, "BertModel", "BertConfig", **TEXT),
    "roberta": partial(_text, "RobertaModel", "RobertaConfig", **TEXT),
    "electra": partial(_text, "ElectraModel", "ElectraConfig", embedding_size=32, **TEXT),
    "albert": partial(_text, "AlbertModel", "AlbertConfig", embedding_size=16, **TEXT),
    "distilbert": partial(
        _text, "DistilBertModel", "DistilBertConfig", vocab_size=VOCABULARY, dim=32, n_layers=2,
        n_heads=4, hidden_dim=64, max_position_embeddings=64,
    ),
    "mpnet": partial(_text, "MPNetModel", "MPNetConfig", **TEXT),
    "deberta_v2": partial(
        _text, "DebertaV2Model", "DebertaV2Config", relative_attention=True,
        pos_att_type=["p2c", "c2p"], position_buckets=8, **TEXT,
    ),
    "gpt2": partial(
        _text, "GPT2Model", "GPT2Config", cached=True, vocab_size=VOCABULARY, n_embd=32, n_layer=2,
        n_head=4, n_positions=64,
    ),
    "gpt_neox": partial(_text, "GPTNeoXModel", "GPTNeoXConfig", cached=True, **TEXT),
    "opt": partial(
        _text, "OPTModel", "OPTConfig", cached=True, vocab_size=VOCABULARY, ffn_dim=64,
        word_embed_proj_dim=32, max_position_embeddings=64, **SMALL,
    ),
    "bloom": partial(
        _text, "BloomModel", "BloomConfig", cached=True, vocab_size=VOCABULARY, hidden_size=32,
        n_layer=2, n_head=4,
    ),
    "llama": partial(_text, "LlamaModel", "LlamaConfig", cached=True, **_GROUPED),
    "mistral": partial(
        _text, "MistralModel", "MistralConfig", cached=True, sliding_window=8, **_GROUPED
    ),
    "qwen2": partial(_text, "Qwen2Model", "Qwen2Config", cached=True, **_GROUPED),
    "phi": partial(_text, "PhiModel", "PhiConfig", cached=True, **_GROUPED),
    "gemma": partial(_text, "GemmaModel", "GemmaConfig", cached=True, head_dim=8, **_GROUPED),
    "t5": partial(_text, "T5Model", "T5Config", _DECODER, cached=True, **_T5),
    "bart": partial(_text, "BartModel", "BartConfig", _DECODER, cached=True, **_SEQUENCES),
    "whisper": _whisper,
    "clip": _clip,
    "vit": partial(_image, "ViTModel", "ViTConfig", 32, **_PATCHES),
    "deit": partial(_image, "DeiTModel", "DeiTConfig", 32, **_PATCHES),
    "beit": partial(_image, "BeitModel", "BeitConfig", 32, **_PATCHES),
    "dinov2": partial(
        _image, "Dinov2Model", "Dinov2Config", 32, mlp_ratio=2, image_size=32, patch_size=8, **SMALL
    ),
    "swin": partial(_image, "SwinModel", "SwinConfig", 32, **_WINDOWS),
    "convnext": partial(
        _image, "ConvNextModel", "ConvNextConfig", 64, hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 2, 1],
    ),
    "segformer": partial(
        _image, "SegformerModel", "SegformerConfig", 64, hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
    ),
    "resnet18": partial(_torchvision, "resnet18"),
    "mobilenet_v2": partial(_torchvision, "mobilenet_v2"),
    "mobilenet_v3": partial(_torchvision, "mobilenet_v3_small"),
    "efficientnet": partial(_torchvision, "efficientnet_b0"),
    "shufflenet": partial(_torchvision, "shufflenet_v2_x0_5"),
    "squeezenet": partial(_torchvision, "squeezenet1_1"),
    "densenet": partial(_torchvision, "densenet121"),
    "regnet": partial(_torchvision, "regnet_y_400mf"),
}  # fmt: skip
"""The architectures by name."""
