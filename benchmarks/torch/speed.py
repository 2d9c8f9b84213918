"""Inference by weft, TorchInductor and eager mode, in turns in one process: processor time of a
call on one thread, or its time on several. `python -m benchmarks.torch.speed --output FILE [names]`
measures them; with `--cold` caches are empty, and only first calls are measured, of this process
and of all that it started. The engine `onnx` is `weft.compile` of the model as PyTorch exports it
to ONNX, `weft freeze unguarded` leaves out Dynamo's guards on modules.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import torch
from torch import nn

import weft
from benchmarks.torch import vision
from benchmarks.torch.processor import processor_seconds

Call = tuple[nn.Module, Sequence[Any], dict[str, Any]]


class UNet(nn.Module):
    """Three levels of two convolutions each, with skip connections, as in Ronneberger et al."""

    def __init__(self, widths: Sequence[int] = (32, 64, 128)) -> None:
        super().__init__()
        first, second, third = widths
        self.down = nn.ModuleList([_block(3, first), _block(first, second)])
        self.bottom = _block(second, third)
        self.grow = nn.ModuleList(
            [nn.ConvTranspose2d(third, second, 2, 2), nn.ConvTranspose2d(second, first, 2, 2)]
        )
        self.up = nn.ModuleList([_block(2 * second, second), _block(2 * first, first)])
        self.head = nn.Conv2d(first, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images `[n, 3, h, w]` to two numbers a pixel; `h` and `w` are multiples of 4."""
        kept: list[torch.Tensor] = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for grow, block in zip(self.grow, self.up, strict=True):
            x = block(torch.cat([grow(x), kept.pop()], 1))
        return self.head(x)


def _block(channels: int, width: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for given in (channels, width):
        layers += [nn.Conv2d(given, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*layers)


def _image(name: str, dtype: torch.dtype = torch.float32) -> Call:
    import torchvision

    model = torchvision.models.get_model(name, weights=None).to(dtype)
    return model, (torch.randn(1, 3, 224, 224, dtype=dtype),), {}


def _tokens(count: int) -> torch.Tensor:
    return torch.randint(0, 1000, (1, count))


def _bert(dtype: torch.dtype) -> Call:
    import transformers

    model = transformers.BertModel(transformers.BertConfig(num_hidden_layers=4)).to(dtype)
    return model, (_tokens(128),), {}


def _gpt2(past: int, count: int) -> Call:
    import transformers

    model: Any = transformers.GPT2Model(transformers.GPT2Config(n_layer=4)).eval()
    if not past:
        return model, (_tokens(count),), {"use_cache": False}
    layers = [(torch.randn(1, 12, past, 64), torch.randn(1, 12, past, 64)) for _ in range(4)]

    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, tokens: torch.Tensor, *pairs: torch.Tensor) -> torch.Tensor:
            cache = transformers.DynamicCache(list(zip(pairs[::2], pairs[1::2], strict=True)))
            return self.model(tokens, past_key_values=cache, use_cache=True)[0]

    return Step(), (_tokens(count), *(each for pair in layers for each in pair)), {}


def _whisper() -> Call:
    import transformers

    config = transformers.WhisperConfig(
        d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6,
        decoder_attention_heads=6, encoder_ffn_dim=1536, decoder_ffn_dim=1536,
    )  # fmt: skip
    model = transformers.WhisperModel(config)
    return model, (torch.randn(1, 80, 3000),), {"decoder_input_ids": _tokens(4)}


MODELS: Final[Mapping[str, Callable[[], Call]]] = {
    "resnet50": lambda: _image("resnet50"),
    "mobilenet_v3_large": lambda: _image("mobilenet_v3_large"),
    "vit_b_16": lambda: _image("vit_b_16"),
    "resnet50 bf16": lambda: _image("resnet50", torch.bfloat16),
    "mobilenet_v3_large bf16": lambda: _image("mobilenet_v3_large", torch.bfloat16),
    "vit_b_16 bf16": lambda: _image("vit_b_16", torch.bfloat16),
    "bert f32": lambda: _bert(torch.float32),
    "bert bf16": lambda: _bert(torch.bfloat16),
    "gpt2 prefill": lambda: _gpt2(0, 128),
    "gpt2 decode": lambda: _gpt2(128, 1),
    "whisper tiny": _whisper,
    "u-net": lambda: (UNet(), (torch.randn(1, 3, 128, 128),), {}),
}
"""BERT and GPT-2 in their base sizes, of 4 layers each."""


def _engines(call: Call, names: Sequence[str]) -> dict[str, Callable[..., Any]]:
    model = call[0]
    frozen = {"fallback": "error", "freeze": True}
    unguarded = frozen | {"guard_filter_fn": torch.compiler.skip_guard_on_all_nn_modules_unsafe}
    makers: dict[str, Callable[[], Callable[..., Any]]] = {
        "eager": lambda: model,
        "weft": lambda: torch.compile(model, backend="weft", options={"fallback": "error"}),
        "weft freeze": lambda: torch.compile(model, backend="weft", options=frozen),
        "weft freeze unguarded": lambda: torch.compile(
            model, backend="weft", options=unguarded, isolate_recompiles=True
        ),
        "inductor": lambda: torch.compile(model),
        "inductor freezing": lambda: torch.compile(model, options={"freezing": True}),
        "onnx": lambda: _as_onnx(*call),
    }
    return {name: makers[name]() for name in names}


def _as_onnx(
    model: nn.Module, args: Sequence[Any], named: Mapping[str, Any]
) -> Callable[..., torch.Tensor]:
    """The model as PyTorch exports it to ONNX, compiled by `weft.compile`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        torch.onnx.export(model, tuple(args), path, kwargs=dict(named), dynamo=True, verbose=False)
        executable = weft.compile(path, threads=torch.get_num_threads())

    def call(*args: torch.Tensor, **named: torch.Tensor) -> torch.Tensor:
        first = executable(*(each.numpy() for each in (*args, *named.values())))[0]
        return torch.from_numpy(np.asarray(first, np.float32))

    return call


Calls = Mapping[str, Callable[[], Any]]


def prepared(name: str, engines: Sequence[str]) -> tuple[dict[str, Any], Calls]:
    """A model's calls by engine; what the first of them take, and how far they are off."""
    vision.without_compiled_operators()
    torch.manual_seed(0)
    model, args, named = MODELS[name]()
    found: dict[str, Any] = {"name": name}
    with torch.no_grad():
        calls = _engines((model.eval(), args, named), engines)
        wanted = _tensor(model(*args, **named))
        for engine, call in calls.items():
            start = processor_seconds(os.getpid())
            result = _tensor(call(*args, **named))
            found[f"{engine} first call s"] = round(processor_seconds(os.getpid()) - start, 2)
            scale = float(wanted.abs().max()) or 1.0
            found[f"{engine} off"] = float(f"{float((result - wanted).abs().max()) / scale:.2g}")
            call(*args, **named)
    return found, {engine: partial(call, *args, **named) for engine, call in calls.items()}


def timed(calls: Calls, rounds: int) -> dict[str, float]:
    """Milliseconds of a call by each engine, and how much faster than eager mode each is, as
    medians of the turns, with the least time. Each call is behind one of the same engine: eager
    mode's threads wait by spinning for a while, on the cores of the engine behind it.
    """
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    times: dict[str, list[float]] = {engine: [] for engine in calls}
    with torch.no_grad():
        for _ in range(rounds):
            for engine, call in calls.items():
                call()
                start = clock()
                call()
                times[engine].append(clock() - start)
    found: dict[str, float] = {}
    for engine, each in times.items() if rounds else ():
        pairs = zip(times["eager"], each, strict=True)
        found[f"{engine} ms"] = round(1e3 * median(each), 2)
        found[f"{engine} least ms"] = round(1e3 * min(each), 2)
        found[f"{engine} times eager"] = round(median(one / other for one, other in pairs), 3)
    return found


def _tensor(result: Any) -> torch.Tensor:
    leaves = torch.utils._pytree.tree_leaves(result)
    return next(each for each in leaves if isinstance(each, torch.Tensor)).float()


def main() -> None:
    """Measures models, a line of JSON each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--engines", default="eager,weft,weft freeze,inductor")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cold", action="store_true", help="empty caches, first calls alone")
    chosen = parser.parse_args()
    if chosen.cold:
        empty = tempfile.mkdtemp()
        os.environ |= {"WEFT_CACHE_DIR": empty, "TORCHINDUCTOR_CACHE_DIR": f"{empty}/inductor"}
    torch.set_num_threads(chosen.threads)
    for name in chosen.names or list(MODELS):
        row, calls = prepared(name, chosen.engines.split(","))
        row |= {"threads": chosen.threads} | timed(calls, 0 if chosen.cold else chosen.rounds)
        print(json.dumps(row), flush=True)
        with chosen.output.open("a") as file:
            print(json.dumps(row), file=file)


if __name__ == "__main__":
    main()
