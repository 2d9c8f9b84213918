"""What a step of ResNet-18 is predicted to take on so many ranks, each with 16 images of 224 x 224
and their statistics, over some wires; no rank is started, and nothing is computed:

    PYTHONPATH=. python -m benchmarks.ranks.predict 1 2 16 256
"""
# pyright: basic

from __future__ import annotations

import sys

import numpy as np

from benchmarks.ranks.training import step_of
from benchmarks.training import networks
from weft import optim
from weft.compiler.driver.options import Options
from weft.compiler.driver.pipeline import plan_model
from weft.compiler.driver.session import Session
from weft.compiler.graph.partition.read_mesh import read_mesh
from weft.compiler.program.predict_step import predict_step, program_of
from weft.compiler.target.wire import MEMORY, Wire
from weft.tracing import donations

WIRES = {
    "nothing for messages": MEMORY,
    "30 us, 1.1 GB/s": Wire(30e-6, 1.1e9),
    "2 us, 23 GB/s": Wire(2e-6, 23e9),
}
IMAGES = 16


def main(ranks: int) -> None:
    network, optimizer = networks.ResNet(ranks), optim.sgd(0.01)
    parameters = {key: np.zeros(e.shape, np.float32) for key, e in network.parameters().items()}
    count = IMAGES * ranks
    batch = np.zeros((count, 3, 224, 224), np.float32), np.zeros(count, np.int64)
    held = parameters, network.buffers(), optimizer.init(parameters)
    step = step_of(network, optimizer)
    model = donations.donating(step, *held, *batch, donate=(0, 1, 2), name="step")[0]
    options = Options().changed(prefix="step")
    if ranks > 1:
        options = options.changed(mesh=f"data={ranks}", shard=["x=data", "y=data"])
    what = program_of(plan_model(model, Session(options)).module, read_mesh(options.mesh))
    for name, wire in WIRES.items():
        found = predict_step(what, wire)
        rank = found.ranks[0]
        waiting = rank.latency + rank.bytes
        sent = f"{rank.messages} messages of {rank.sent / 1e6:.1f} MB"
        times = f"{found.step * 1e3:7.1f} ms, {waiting * 1e3:6.1f} of them waiting"
        print(f"{ranks:4} ranks, {name:20} {times}, {sent}", flush=True)


if __name__ == "__main__":
    for each in sys.argv[1:]:
        main(int(each))
