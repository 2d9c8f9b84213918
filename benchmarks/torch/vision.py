"""The vision models of the suite, of torchvision and of timm, with random weights and no dropout.
The lists were committed before any of them was run.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import torch

TORCHVISION: Final = (
    "alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "efficientnet_v2_s", "googlenet",
    "inception_v3", "maxvit_t", "mnasnet0_5", "mobilenet_v2", "mobilenet_v3_small",
    "regnet_x_400mf", "regnet_y_400mf", "resnet18", "resnext50_32x4d", "shufflenet_v2_x0_5",
    "squeezenet1_1", "swin_t", "swin_v2_t", "vit_b_16", "wide_resnet50_2",
    "deeplabv3_mobilenet_v3_large", "fcn_resnet50", "lraspp_mobilenet_v3_large", "r3d_18", "mc3_18",
    "r2plus1d_18", "s3d", "mvit_v1_b", "raft_small",
)  # fmt: skip
"""One of each family, of fewer than 100 million parameters."""

TIMM: Final = (
    "vit_tiny_patch16_224", "resnet10t", "efficientnet_lite0", "ghostnet_050", "convnext_atto",
    "mixer_s32_224", "levit_128s", "mobilevit_xxs", "poolformer_s12", "edgenext_xx_small",
    "xcit_nano_12_p16_224", "pit_ti_224", "repvgg_a0", "skresnet18", "ese_vovnet19b_dw",
    "lcnet_035", "rexnet_100", "resnest14d", "gmlp_ti16_224", "starnet_s1",
)  # fmt: skip

_SIDES: Final = {
    "torchvision.alexnet": 80, "torchvision.inception_v3": 96, "torchvision.maxvit_t": 224,
    "torchvision.vit_b_16": 224, "torchvision.s3d": 64, "torchvision.mvit_v1_b": 224,
    "torchvision.raft_small": 128, "timm.levit_128s": 224, "timm.shvit_s1": 128,
    "timm.crossvit_tiny_240": 240, "timm.visformer_tiny": 224, "timm.botnet50ts_256": 256,
    "timm.efficientvit_m1": 224, "timm.inception_v3": 96,
}  # fmt: skip
"""Where 64 pixels a side are too few; timm's attention models are built for 224."""

_VIDEOS: Final = ("r3d_18", "mc3_18", "r2plus1d_18", "s3d", "mvit_v1_b")

SOURCES: Final = ("torchvision.", "timm.")
"""What the names of models begin with."""

NAMES: Final = (
    *(f"torchvision.{each}" for each in TORCHVISION), *(f"timm.{each}" for each in TIMM),
)  # fmt: skip


@cache
def without_compiled_operators() -> Any:
    """Declares the operators of torchvision whose kernels no CPU wheel for this torch has: its
    Python models are imported without them.
    """
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


def model(name: str) -> torch.nn.Module:
    """A model in training, whose dropout has a probability of 0."""
    without_compiled_operators()
    source, own = name.split(".", 1)
    torch.manual_seed(0)
    if source == "timm":
        import timm

        built: torch.nn.Module = timm.create_model(own, pretrained=False, num_classes=10)
    else:
        import torchvision

        given: dict[str, Any] = {"weights": None}
        if own.startswith(("deeplabv3", "fcn", "lraspp")):
            given["weights_backbone"] = None
        if own == "googlenet" or own == "inception_v3":
            given |= {"init_weights": False, "aux_logits": False}
        built = torchvision.models.get_model(own, **given)
    for each in built.modules():
        for probability in ("p", "drop_prob"):
            if isinstance(getattr(each, probability, None), float):
                setattr(each, probability, 0.0)
    return built.train()


def inputs(name: str, seed: int) -> list[torch.Tensor]:
    """Seeded images, or videos."""
    generator = torch.Generator().manual_seed(seed)
    own = name.split(".", 1)[1]
    side = _SIDES.get(name, 224 if own.endswith("_224") else 64)
    if own == "raft_small":
        return [torch.rand(1, 3, side, side, generator=generator) * 2 - 1 for _ in range(2)]
    frames = [16] if own in _VIDEOS else []
    return [torch.randn(2, 3, *frames, side, side, generator=generator)]
