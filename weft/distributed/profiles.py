"""The same call on all ranks of a program, beside one another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from weft.compiler.graph.partition.read_mesh import read_mesh
from weft.compiler.machine.artifact.replace_file import replacing
from weft.compiler.machine.python.profile import Profile
from weft.dialects.weights import Array
from weft.distributed.messages import Messages
from weft.distributed.world import world

_PROFILES: Final = msgspec.msgpack.Decoder(Profile)
"""Made once: ranks that are threads may not make what describes a type at the same time."""


class RankProfiles(Struct, frozen=True):
    """One call on every rank, in their order."""

    profiles: tuple[Profile, ...]

    @classmethod
    def of(cls, profiles: Sequence[Profile]) -> Self:
        """Of the calls that ranks made together that of median duration on the first rank."""
        number = profiles[0].calls.index(profiles[0].median)
        return cls(tuple(replace(each, calls=(each.calls[number],)) for each in profiles))

    @property
    def offsets(self) -> list[int]:
        """How many nanoseconds behind the first each rank began its call, by one clock."""
        begins = [each.median.begin for each in self.profiles]
        return [each - min(begins) for each in begins]

    def trace(self) -> dict[str, Any]:
        """An object of Chrome's JSON, with a process for each rank."""
        traces = [each.trace() for each in self.profiles]
        for rank, (trace, start) in enumerate(zip(traces, self.offsets, strict=True)):
            for event in trace["traceEvents"]:
                event["pid"] = rank + 1
                if "ts" in event:
                    event["ts"] += start / 1e3
                if event["name"] == "process_name":
                    event["args"] = {"name": f"{self.profiles[rank].prefix} rank {rank}"}
        events = [event for each in traces for event in each["traceEvents"]]
        return {**traces[0], "traceEvents": events}

    def save_trace(self, path: str | Path) -> None:
        """Writes that, for ui.perfetto.dev."""
        with replacing(Path(path)) as out:
            out.write(json.dumps(self.trace()).encode())


def profiles_of_ranks(profile: Profile) -> RankProfiles:
    """The profiles of all ranks of this program, each of which calls this with its own, of calls
    that they made together. Raises RankError as calls do.
    """
    here = world()
    mesh = read_mesh(f"rank={here.ranks}")
    if here.table is None or mesh is None:
        return RankProfiles.of([profile])
    messages, others = Messages(mesh, "rank", here.table), range(here.ranks)
    own = np.frombuffer(msgspec.msgpack.encode(profile), np.uint8)
    for other in others:
        if other != here.rank:
            messages.send(other, 0, np.array([own.size]))
            messages.send(other, 1, own)
    found = [own if other == here.rank else _received(messages, other) for other in others]
    return RankProfiles.of([_PROFILES.decode(each.data) for each in found])


def _received(messages: Messages, other: int) -> Array:
    size = int(messages.recv(other, 0, np.zeros(1, np.int64))[0])
    return messages.recv(other, 1, np.zeros(size, np.uint8))
