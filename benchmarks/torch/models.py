"""The models of the suite: architectures of transformers with small configurations and random
weights, and those of `vision`. The list was committed before any of them was run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

from benchmarks.torch import vision

SMALL: Final[dict[str, Any]] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "vocab_size": 96, "max_position_embeddings": 64,
}  # fmt: skip
_PLAIN: Final[dict[str, Any]] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_GROUPED: Final = {**SMALL, **_PLAIN, "num_key_value_heads": 2}
_IMAGE: Final = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "image_size": 32, "patch_size": 8,
}  # fmt: skip

TEXT: Final[Mapping[str, dict[str, Any]]] = {
    "Bert": SMALL, "Roberta": {**SMALL, **_PLAIN}, "XLMRoberta": {**SMALL, **_PLAIN},
    "Electra": {**SMALL, "embedding_size": 32}, "Albert": {**SMALL, "embedding_size": 16},
    "MPNet": SMALL, "Camembert": {**SMALL, **_PLAIN}, "Ernie": SMALL, "MobileBert": {
        **SMALL, "embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16,
    },
    "DistilBert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 96},
    "GPT2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 96, "n_positions": 64},
    "GPTNeo": {
        "hidden_size": 32, "num_layers": 2, "num_heads": 4, "vocab_size": 96,
        "attention_types": [[["global"], 2]], "max_position_embeddings": 64,
    },
    "GPTNeoX": SMALL, "GPTJ": {
        "n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 96, "rotary_dim": 4,
    },
    "OPT": {**SMALL, "ffn_dim": 64, "word_embed_proj_dim": 32},
    "Bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 96},
    "Llama": _GROUPED, "Mistral": _GROUPED, "Qwen2": _GROUPED, "Qwen3": {**_GROUPED, "head_dim": 8},
    "Gemma": {**_GROUPED, "head_dim": 8}, "Gemma2": {**_GROUPED, "head_dim": 8},
    "Phi": {**SMALL, **_PLAIN}, "Phi3": {**_GROUPED, "original_max_position_embeddings": 64},
    "StableLm": _GROUPED, "Cohere": _GROUPED, "Olmo": _GROUPED, "Olmo2": _GROUPED,
    "Granite": _GROUPED, "Starcoder2": _GROUPED, "Falcon": SMALL, "SmolLM3": _GROUPED,
    "Mixtral": {**_GROUPED, "num_local_experts": 4}, "Mamba": {
        "hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 96, "state_size": 8,
    },
    "T5Encoder": {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4,
                  "vocab_size": 96},
    "Nystromformer": {**SMALL, "num_landmarks": 4, "segment_means_seq_len": 16},
    "RoFormer": {**SMALL, "embedding_size": 32},
    "FNet": {**SMALL, "use_tpu_fourier_optimizations": False},
    "Deberta": SMALL, "DebertaV2": SMALL, "SqueezeBert": {**SMALL, "embedding_size": 32},
}  # fmt: skip
"""A model of text by its class, and the configuration's values."""

IMAGES: Final[Mapping[str, dict[str, Any]]] = {
    "ViT": _IMAGE, "DeiT": _IMAGE, "Beit": _IMAGE, "Dinov2": _IMAGE, "ViTMAE": _IMAGE,
    "ConvNext": {"hidden_sizes": [8, 16, 32, 32], "depths": [1, 1, 1, 1]},
    "ConvNextV2": {"hidden_sizes": [8, 16, 32, 32], "depths": [1, 1, 1, 1]},
    "ResNet": {"embedding_size": 8, "hidden_sizes": [8, 16, 32, 32], "depths": [1, 1, 1, 1]},
    "RegNet": {"embedding_size": 8, "hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1],
               "groups_width": 8},
    "Swin": {"embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4,
             "image_size": 32, "patch_size": 4},
    "PoolFormer": {"hidden_sizes": [8, 16, 32, 32], "depths": [1, 1, 1, 1]},
    "MobileNetV1": {}, "MobileNetV2": {}, "EfficientNet": {
        "width_coefficient": 0.25, "depth_coefficient": 0.25, "hidden_dim": 320,
    },
    "Segformer": {"hidden_sizes": [8, 16, 32, 32], "depths": [1, 1, 1, 1]},
}  # fmt: skip
"""A model of images by its class, and the configuration's values."""

HELD_OUT_TEXT: Final[Mapping[str, dict[str, Any]]] = {
    "Helium": {**_GROUPED, "head_dim": 8}, "Persimmon": {**SMALL, **_PLAIN}, "BioGpt": SMALL,
    "XGLM": {
        "d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 64, "vocab_size": 96,
        "max_position_embeddings": 64,
    },
    "CodeGen": {
        "n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 96, "rotary_dim": 4,
        "n_positions": 64, "n_ctx": 64,
    },
    "ModernBert": {**SMALL, **_PLAIN, "cls_token_id": 1, "sep_token_id": 2},
    "RemBert": {**SMALL, **_PLAIN, "input_embedding_size": 16, "output_embedding_size": 16},
    "Olmoe": {**_GROUPED, "num_experts": 4, "num_experts_per_tok": 2},
    "Qwen3VLText": {**_GROUPED, "head_dim": 8},
    "Qwen3Moe": {
        **_GROUPED, "head_dim": 8, "moe_intermediate_size": 16, "num_experts": 4,
        "num_experts_per_tok": 2,
    },
    "HYV3": {
        **_GROUPED, "head_dim": 8, "moe_intermediate_size": 16, "num_experts": 4,
        "num_experts_per_tok": 2,
    },
    "FSMT": {
        "src_vocab_size": 96, "tgt_vocab_size": 96, "d_model": 32, "encoder_layers": 2,
        "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "langs": ["en", "de"],
    },
    "ImageGPT": {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 97, "n_positions": 64},
    "Tapas": SMALL,
    "PegasusX": {
        "vocab_size": 96, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64, "max_position_embeddings": 64, "num_global_tokens": 4,
        "block_size": 8,
    },
    "Jamba": {
        **_GROUPED, "num_experts": 4, "num_experts_per_tok": 2, "attn_layer_period": 2,
        "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1,
        "use_mamba_kernels": False, "mamba_d_state": 8, "mamba_dt_rank": 4,
    },
    "Ministral": {**_GROUPED, "head_dim": 8}, "GPTNeoXJapanese": SMALL,
    "ConvBert": {**SMALL, "embedding_size": 32},
    "MT5": {
        "vocab_size": 96, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4,
    },
    "Reformer": {
        "vocab_size": 96, "hidden_size": 32, "num_attention_heads": 4, "attention_head_size": 8,
        "feed_forward_size": 64, "attn_layers": ["local", "lsh"], "axial_pos_shape": [4, 4],
        "axial_pos_embds_dim": [16, 16], "local_attn_chunk_length": 4,
        "lsh_attn_chunk_length": 4, "max_position_embeddings": 64, "num_buckets": 4,
    },
    "RecurrentGemma": {
        "vocab_size": 96, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 1, "lru_width": 32,
        "attention_window_size": 16, "block_types": ["recurrent", "attention"],
    },
    "SolarOpen": {
        **_GROUPED, "head_dim": 8, "moe_intermediate_size": 16, "n_routed_experts": 4,
        "num_experts_per_tok": 2,
    },
    "Qwen3VLMoeText": {
        **_GROUPED, "head_dim": 8, "moe_intermediate_size": 16, "num_experts": 4,
        "num_experts_per_tok": 2,
    },
    "Marian": {
        "vocab_size": 96, "decoder_vocab_size": 96, "d_model": 32, "encoder_layers": 2,
        "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64,
        "pad_token_id": 0, "decoder_start_token_id": 0,
    },
    "Rwkv": {
        "vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64,
        "context_length": 64,
    },
    "GraniteDoclingText": _GROUPED, "RobertaPreLayerNorm": SMALL,
    "Mamba2": {
        "vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "num_heads": 8,
        "head_dim": 8, "state_size": 8, "n_groups": 1, "chunk_size": 8,
    },
    "Glm": {**_GROUPED, "head_dim": 8},
    "GraniteMoeSWA": {
        **_GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8,
    },
    "Gemma4UnifiedText": {**_GROUPED, "head_dim": 8, "sliding_window": 8},
    "M2M100": {
        "vocab_size": 96, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64, "max_position_embeddings": 64,
    },
    "Glm4MoeLite": {
        **_GROUPED, "num_key_value_heads": 4, "moe_intermediate_size": 16, "n_routed_experts": 4,
        "num_experts_per_tok": 2, "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 4,
        "v_head_dim": 8, "qk_nope_head_dim": 4,
    },
    "FalconMamba": {
        "hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 96, "state_size": 8,
        "time_step_rank": 4, "intermediate_size": 64,
    },
    "Dots1": {
        **_GROUPED, "head_dim": 8, "moe_intermediate_size": 16, "n_routed_experts": 4,
        "n_shared_experts": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 1,
    },
    "Lfm3": {**_GROUPED, "head_dim": 8, "layer_types": ["conv", "full_attention"]},
    "Llama4Text": {
        **_GROUPED, "head_dim": 8, "intermediate_size_mlp": 64, "num_local_experts": 4,
        "attention_chunk_size": 8,
    },
}  # fmt: skip
HELD_OUT_IMAGES: Final[Mapping[str, dict[str, Any]]] = {
    "Yolos": {**_IMAGE, "image_size": [32, 32], "num_detection_tokens": 4},
    "Data2VecVision": _IMAGE,
    "SwiftFormer": {"image_size": 64, "depths": [1, 1, 1, 1], "embed_dims": [8, 16, 24, 32]},
    "ViTMSN": _IMAGE,
}
HELD_OUT: Final = (
    *HELD_OUT_TEXT, *HELD_OUT_IMAGES, "timm.tinynet_e", "timm.seresnet18", "timm.mobileone_s0",
    "timm.resmlp_12_224", "timm.mobilenetv4_conv_small", "timm.mambaout_femto",
    "timm.coat_lite_tiny",
    "timm.shvit_s1", "timm.cspnext_s", "timm.crossvit_tiny_240", "timm.regnetz_005",
    "timm.visformer_tiny", "torchvision.mnasnet1_3", "torchvision.shufflenet_v2_x1_5",
    "timm.resnet26d", "timm.gc_efficientnetv2_rw_t", "timm.botnet50ts_256", "timm.mixnet_s",
    "timm.regnety_002", "timm.legacy_seresnet18", "timm.tnt_s_legacy_patch16_224",
    "timm.repghostnet_050", "timm.vgg11_bn", "timm.fasternet_m", "timm.efficientvit_m1",
    "timm.selecsls84", "timm.inception_v3", "torchvision.efficientnet_b4",
)  # fmt: skip
"""Models for which nothing was mended; committed before any of them was run. The last 31 of the
texts, the last three image models and the last 21 of the others were drawn by seeds, of families
that no list has.
"""

_CONFIGURATIONS: Final = {**TEXT, **IMAGES, **HELD_OUT_TEXT, **HELD_OUT_IMAGES}

GENERATING: Final = (
    "GPT2", "GPTNeoX", "GPTJ", "OPT", "Bloom", "Llama", "Mistral", "Qwen2", "Qwen3", "Gemma2",
    "Phi", "Phi3", "StableLm", "Cohere", "Granite", "Falcon", "Mixtral", "SmolLM3",
)  # fmt: skip
"""Models that also generate, with a cache."""

MODELS: Final = (
    *TEXT, *IMAGES, *(f"generate.{each}" for each in GENERATING), *vision.NAMES,
)  # fmt: skip


def _transformer(name: str, suffix: str = "Model") -> torch.nn.Module:
    vision.without_compiled_operators()
    import transformers

    stem = name.removesuffix("Encoder")
    configuration: Any = getattr(transformers, f"{stem}Config")(**_CONFIGURATIONS[name])
    torch.manual_seed(0)
    whole = "T5EncoderModel" if name == "T5Encoder" else f"{name}{suffix}"
    return getattr(transformers, whole)(configuration).eval()


def _tokens(seed: int = 2) -> torch.Tensor:
    return torch.randint(3, 96, (2, 16), generator=torch.Generator().manual_seed(seed))


_LARGER: Final = (
    "MobileNetV1", "MobileNetV2", "EfficientNet", "Segformer", "RegNet", "ResNet", "PoolFormer",
    "ConvNext", "ConvNextV2", "SwiftFormer",
)  # fmt: skip


def _inputs(name: str, seed: int) -> dict[str, torch.Tensor]:
    if name not in IMAGES and name not in HELD_OUT_IMAGES:
        return {"input_ids": _tokens(seed)}
    side = 64 if name in _LARGER else 32
    generator = torch.Generator().manual_seed(seed)
    return {"pixel_values": torch.randn(2, 3, side, side, generator=generator)}


def step_of(name: str, seed: int) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """A model as a function of its parameters, buffers and inputs, and these."""
    if name.startswith(vision.SOURCES):
        model, given = vision.model(name), vision.inputs(name, seed)
        return as_function(model, lambda *inputs: (inputs, {}), given)
    model = _transformer(name)
    named = _inputs(name, seed)
    given = {"use_cache": False, "decoder_input_ids": _tokens(seed)}
    rest = _taken(model, given if "input_ids" in named else {})
    return as_function(
        model,
        lambda *inputs: ((), dict(zip(named, inputs, strict=True)) | rest),
        list(named.values()),
        first=True,
    )


def as_function(
    model: torch.nn.Module,
    arguments: Callable[..., tuple[Sequence[Any], dict[str, Any]]],
    inputs: Sequence[torch.Tensor],
    *,
    first: bool = False,
) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """A module as a function of its parameters, buffers and inputs, and these; `arguments` makes
    what the module takes of the inputs, and of several results the `first` may be asked for.
    """
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    names = list(state)

    def function(*tensors: torch.Tensor) -> Any:
        own = dict(zip(names, tensors, strict=False))
        args, named = arguments(*tensors[len(names) :])
        found = torch.func.functional_call(model, own, tuple(args), named)
        return found[0] if first else found

    return function, [*state.values(), *inputs]


def generation_of(name: str) -> tuple[Callable[[Callable[..., Any] | None], torch.Tensor], Any]:
    """A function that generates tokens with a cache, by the forward pass that it is given."""
    own = name.removeprefix("generate.")
    model: Any = _transformer(own, "LMHeadModel" if own == "GPT2" else "ForCausalLM")
    plain = model.forward

    def generate(forward: Callable[..., Any] | None) -> torch.Tensor:
        model.forward = forward or plain
        return model.generate(
            _tokens(), max_new_tokens=6, do_sample=False, pad_token_id=0, use_cache=True
        )

    return generate, plain


def _taken(model: torch.nn.Module, given: dict[str, Any]) -> dict[str, Any]:
    """The inputs that a model has a name for."""
    taken = inspect.signature(inspect.unwrap(model.forward)).parameters
    return {name: value for name, value in given.items() if name in taken}
