"""The decoder of `benchmarks.decoder` as a GGUF file, and its steps in llama.cpp.

The weights are the same to the last bit: codes in blocks of 32 with scales of f16, `Q4_0` or
`Q8_0`. Heads of queries and keys are in the order in which llama.cpp rotates them.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SCRIPT: Final = Path(__file__).with_name("llama_steps.mjs")
NAMES: Final = {
    "q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output",
    "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down",
    "first": "attn_norm", "second": "ffn_norm",
}  # fmt: skip


def blocks(codes: Array, scales: Array, bits: int) -> Array:
    """Rows of blocks as GGUF stores them, of unsigned codes `[columns, blocks, 32]`."""
    count = codes.shape[0]
    heads = scales.reshape(count, -1, 1).astype(np.float16).view(np.uint8)
    if bits == 8:
        stored = (codes.astype(np.int16) - 128).astype(np.int8).view(np.uint8)
    else:
        stored = codes[..., :16] | codes[..., 16:] << 4
    return np.concatenate([heads, stored], axis=2).reshape(count, -1)


def rotated_in_pairs(rows: Array, heads: int) -> Array:
    """Rows of heads whose halves are rotated together, as rows whose neighbours are."""
    count = rows.shape[0]
    halves = rows.reshape(heads, 2, count // heads // 2, -1)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(count, -1)


def write(path: Path, weights: Mapping[str, Array], bits: int, heads: Mapping[str, int]) -> None:
    """Writes the model; `weights` are arrays of floats, and rows of blocks, by ONNX's names, and
    `heads` how many there are of queries and of keys.
    """
    import gguf

    width, layers = weights["table"].shape[1], sum(name.endswith(".first") for name in weights)
    words = weights["table"].shape[0]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(2048)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(weights["0.gate"].shape[0])
    writer.add_head_count(heads["q"])
    writer.add_head_count_kv(heads["k"])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(1e4)
    writer.add_vocab_size(words)
    writer.add_tokenizer_model("llama")
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    writer.add_token_list([*special, *(f"w{n}" for n in range(len(special), words))])
    writer.add_token_scores([0.0] * words)
    types = gguf.TokenType
    few = [types.UNKNOWN, types.CONTROL, types.CONTROL, *[types.BYTE] * 256]
    writer.add_token_types([*few, *[types.NORMAL] * (words - len(few))])
    stored_as = gguf.GGMLQuantizationType.Q8_0 if bits == 8 else gguf.GGMLQuantizationType.Q4_0
    for name, array in weights.items():
        if array.dtype != np.uint8:
            writer.add_tensor(_gguf_name(name), array)
            continue
        part = name.rpartition(".")[2]
        rows = rotated_in_pairs(array, heads[part]) if part in heads else array
        writer.add_tensor(_gguf_name(name), rows, raw_dtype=stored_as)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _gguf_name(name: str) -> str:
    whole = {"table": "token_embd", "last": "output_norm", "logits": "output"}
    layer, _, part = name.partition(".")
    return f"{whole[name] if name in whole else f'blk.{layer}.{NAMES[part]}'}.weight"


class Llama:
    """A model in a process of llama.cpp's; `folder` has `node_modules` with node-llama-cpp. It ends
    with the context that it is entered in. Seconds are processor time of one thread, elapsed ones
    of several.
    """

    def __init__(self, model: Path, folder: Path, threads: int) -> None:
        command = ["node", "--preserve-symlinks", str(SCRIPT), str(model.resolve()), str(threads)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(command, cwd=folder, **pipes)

    def __enter__(self) -> Llama:
        return self

    def __exit__(
        self,
        cause: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def _asked(self, line: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def step(self, token: int, count: int = 1) -> float:
        """Evaluates so many more tokens, of which the last is followed by another; its seconds."""
        return self._asked(f"step {token} {count}")

    def prompt(self, token: int, count: int) -> float:
        """The same for the first tokens of all."""
        return self._asked(f"prompt {token} {count}")

    def log_probabilities(self, token: int) -> Array:
        """Logarithms of the probabilities of what follows the first token."""
        found = np.array(self._asked(f"probabilities {token}"))
        ordered = np.empty(len(found))
        ordered[found[:, 0].astype(int)] = found[:, 1]
        return np.log(ordered)
