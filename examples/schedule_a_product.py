"""A matrix product from its naive nest to a micro-kernel, one schedule after the other.

Each schedule is a list of primitives, as `weft inspect --schedules` prints and
`weft compile --schedule` takes them. docs/scheduling-a-product.md tells why each step is there.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import weft
from weft.bench.limits import measure_gflops
from weft.compilation import options_of
from weft.compiler.driver.pipeline import plan_model
from weft.compiler.driver.session import Session
from weft.compiler.machine.codegen.host import host_target

ROWS, COLUMNS, DEPTH = 96, 768, 768
SECONDS = 0.2
LANES = host_target().lanes(4)
TILE_ROWS, TILE_COLUMNS = (12, 2 * LANES) if LANES == 16 else (6, 2 * LANES)

FUSED = """
fuse-loops{first="i" second="i#1"}
fuse-loops{first="j" second="j#1"}
"""
IN_VECTORS = f"""
reorder{{order="i#1","k","j#1"}}
vectorize{{loop="j" lanes={LANES}}}
vectorize{{loop="j#1" lanes={LANES}}}
"""
IN_REGISTERS = f"""{FUSED}
tile{{loop="j" size={TILE_COLUMNS}}}
reorder{{order="jo","i","ji"}}
tile{{loop="i" size={TILE_ROWS}}}
stage-tile{{source="a2" at="io" named="sums"}}
distribute{{loop="ji" before="k"}}
distribute{{loop="ii" before="ji#1"}}
reorder{{order="k","ii#1","ji#1"}}
unroll{{loop="ii"}}
vectorize{{loop="ji" lanes={LANES}}}
unroll{{loop="ji"}}
unroll{{loop="ii#1"}}
vectorize{{loop="ji#1" lanes={LANES}}}
unroll{{loop="ji#1"}}
unroll{{loop="st0"}}
vectorize{{loop="st1" lanes={LANES}}}
unroll{{loop="st1"}}
"""
IN_PANELS = f"""
pack{{buffer="a1" layout="[(d1 floordiv {TILE_COLUMNS}), d0, (d1 mod {TILE_COLUMNS})] in \
[{COLUMNS // TILE_COLUMNS}, {DEPTH}, {TILE_COLUMNS}]"}}
{IN_REGISTERS}"""
IN_PARALLEL = f"""{IN_PANELS}
parallelize{{loop="jo"}}
"""

STEPS = {
    "naive": "",
    "vectors": IN_VECTORS,
    "registers": IN_REGISTERS,
    "packed": IN_PANELS,
    "two threads": IN_PARALLEL,
}


def main() -> None:
    """Prints how fast each step is, as a share of what the cores can multiply and add."""
    draw = np.random.default_rng(0)
    x = draw.standard_normal((ROWS, DEPTH), np.float32)
    model = product(draw.standard_normal((DEPTH, COLUMNS), np.float32))
    session = Session(options_of(model))
    plan_model(model, session)
    kernel = next(iter(session.report.steps))
    peaks = {threads: measure_gflops(threads) for threads in (1, 2)}
    expected = None
    for name, steps in STEPS.items():
        threads = 2 if steps == IN_PARALLEL else 1
        seconds, y = run(model, f"schedules 2\n@{kernel} {{\n{steps}}}\n", x, threads)
        expected = y if expected is None else expected
        assert np.allclose(y, expected, rtol=1e-3, atol=1e-3)
        rate = 2e-9 * ROWS * COLUMNS * DEPTH / seconds
        print(f"{name:12} {rate:6.1f} GFLOP/s  {100 * rate / peaks[threads]:3.0f} % of peak")


def product(weight: np.ndarray) -> bytes:
    """y = x @ weight."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, DEPTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [ROWS, COLUMNS])],
        [numpy_helper.from_array(weight, "w")],
    )
    opset = helper.make_opsetid("", 21)
    return helper.make_model(graph, opset_imports=[opset], ir_version=10).SerializeToString()


def run(model: bytes, schedule: str, x: np.ndarray, threads: int) -> tuple[float, np.ndarray]:
    """The least time of a call in seconds, and its result."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "schedule.txt"
        file.write_text(schedule)
        function = weft.compile(model, schedule=file, threads=threads)
    y = function(x)[0]
    times: list[float] = []
    while len(times) < 3 or sum(times) < SECONDS:
        start = time.perf_counter()
        function(x)
        times.append(time.perf_counter() - start)
    return min(times), y


if __name__ == "__main__":
    main()
