"""The models of the suite: architectures of transformers with small configurations, with random
weights. The list was committed before any of them was run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

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
    "Deberta": SMALL, "DebertaV2": SMALL, "Squeezebert": {**SMALL, "embedding_size": 32},
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
    "MobileNetV1": {}, "MobileNetV2": {}, "EfficientNet": {"width_coefficient": 0.25,
                                                          "depth_coefficient": 0.25},
    "Segformer": {"hidden_sizes": [8, 16, 32, 32], "depths": [1, 1, 1, 1]},
}  # fmt: skip
"""A model of images by its class, and the configuration's values."""

MODELS: Final = {**TEXT, **IMAGES}


def _model(name: str) -> torch.nn.Module:
    import transformers

    stem = name.removesuffix("Encoder")
    configuration: Any = getattr(transformers, f"{stem}Config")(**MODELS[name])
    torch.manual_seed(0)
    whole = "T5EncoderModel" if name == "T5Encoder" else f"{name}Model"
    return getattr(transformers, whole)(configuration).eval()


def step_of(name: str) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """A model as a function of its parameters and inputs, and these."""
    model = _model(name)
    parameters = dict(model.named_parameters())
    generator = torch.Generator().manual_seed(2)
    if name in IMAGES:
        inputs = {"pixel_values": torch.randn(2, 3, 32, 32, generator=generator)}
        if name in ("MobileNetV1", "MobileNetV2", "EfficientNet", "Segformer", "RegNet", "ResNet",
                    "PoolFormer", "ConvNext", "ConvNextV2"):  # fmt: skip
            inputs = {"pixel_values": torch.randn(2, 3, 64, 64, generator=generator)}
    else:
        inputs = {"input_ids": torch.randint(3, 96, (2, 16), generator=generator)}
    names = list(parameters)

    def function(*tensors: torch.Tensor) -> Any:
        own = dict(zip(names, tensors, strict=False))
        given = dict(zip(inputs, tensors[len(names) :], strict=True))
        if "pixel_values" not in given:
            given["use_cache"] = False
        found = torch.func.functional_call(model, own, kwargs=_taken(model, given))
        return found[0]

    return function, [*parameters.values(), *inputs.values()]


def _taken(model: torch.nn.Module, given: dict[str, Any]) -> dict[str, Any]:
    """The inputs that a model has a name for."""
    names = model.forward.__code__.co_varnames
    wrapped = getattr(model.forward, "__wrapped__", None)
    names = names if wrapped is None else wrapped.__code__.co_varnames
    return {name: value for name, value in given.items() if name in names or name != "use_cache"}
