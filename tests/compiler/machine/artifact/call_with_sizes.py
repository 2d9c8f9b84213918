"""Calls models with sizes that wrapped once, and prints what comes of each as JSON; run in a
process of its own, for a call that goes wrong may end it.
"""

import ctypes
import json

import numpy as np
from onnx import parser

import weft
from tests.compiler.machine.artifact.test_dlpack import Model, Tensor
from weft.compiler.machine.python.checked_call import _Call
from weft.compiler.machine.python.executable import Executable
from weft.dialects.extent import MOST

HUGE = 2**61
MODELS = {
    "gather": """(float[n] x, int64[2] s, int64[1] i) => (float[k, l] z) {
        y = Reshape(x, s) z = Gather(y, i) }""",
    "tile": "(float[n, m] x, int64[2] r) => (float[k, l] z) { z = Tile(x, r) }",
    "softmax": """(float[n, m] x) => (float[n, n] z) {
        t = Transpose(x) y = MatMul(x, t) z = Softmax(y) }""",
    "concat": "(float[n, m] x) => (float[k, m] z) { z = Concat<axis = 0>(x, x) }",
    "flatten": "(float[n, m, k] x) => (float[a, k] z) { z = Flatten<axis = 2>(x) }",
    "window": """(float[1, 1, h, w] x, float[1, 1, 3, 3] k) => (float[1, 1, a, b] y) {
        y = Conv(x, k) }""",
    "constant": "(int64[2] s) => (float[k, l] z) { z = ConstantOfShape(s) }",
    "bytes": "(uint8[n] x) => (uint8[n] y) { y = Identity(x) }",
}


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


CALLS = {
    "s1": ("gather", zeros(24), np.array([HUGE + 3, 8]), np.array([10**8])),
    "s2": ("tile", zeros(2, 8), np.array([1, HUGE])),
    "s2 bytes": ("tile", zeros(2, 8), np.array([2**45, 1])),
    "s3": ("softmax", zeros(2**32, 0)),
    "s4 concat": ("concat", zeros(2**46, 0)),
    "s4 flatten": ("flatten", zeros(2**32, 2**28, 0)),
    "window": ("window", zeros(1, 1, 1, 5), zeros(1, 1, 3, 3)),
    "growing": ("constant", np.array([2**30, 2**30])),
    "zero": ("softmax", zeros(4, 0)),
}


def compiled(name: str, **options: object) -> Executable:
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>agraph {MODELS[name]}')
    return weft.compile(model, threads=1, naive=True, **options)


def called(executable: Executable, arrays: tuple[np.ndarray, ...]) -> object:
    try:
        return [list(each.shape) for each in executable(*arrays)]
    except weft.InputError as error:
        return str(error)


def workspace(executable: Executable, *sizes: int) -> bool:
    """Whether `m_workspace_size` allows the sizes."""
    function = executable._checked._workspace_size
    return function((ctypes.c_int64 * len(sizes))(*sizes)) != 2**64 - 1


def run(executable: Executable, *sizes: int) -> str:
    """What `m_run` says of sizes, with buffers that it must not look at."""
    checked, table = executable._checked, (ctypes.c_void_p * 2)(64, 64)
    places = ctypes.addressof(table), ctypes.addressof(table)
    dims = (ctypes.c_int64 * len(sizes))(*sizes)
    call = _Call(ctypes.sizeof(_Call), *places, ctypes.addressof(dims), 64, 2**63)
    status = checked._run(checked.context, ctypes.addressof(call))
    return f"{status} {checked._last_error(checked.context).decode()}"


def run_dlpack(executable: Executable, array: np.ndarray) -> str:
    """What `m_run_dlpack` says of an input of that shape."""
    model = Model(executable, 2)
    return f"{model.run([Tensor(array)], [Tensor(zeros(1, 1))])} {model.error}"


def main() -> None:
    models = {name: compiled(name) for name in MODELS}
    told: dict[str, object] = {
        call: called(models[name], arrays) for call, (name, *arrays) in CALLS.items()
    }
    softmax, few = models["softmax"], compiled("softmax", bounds={"n": (1, 32)})
    told["s5 run"] = run(softmax, 2**32, 0)
    told["s5 dlpack"] = run_dlpack(softmax, zeros(2**32, 0))
    told["s5 bounds"] = run(few, 33, 1)
    told["s5 workspace"] = {
        "small": workspace(softmax, 4, 0),
        "wraps": workspace(softmax, 2**32, 0),
        "most": workspace(models["bytes"], MOST),
        "more": workspace(models["bytes"], MOST + 1),
        "negative": workspace(models["bytes"], -1),
        "beyond its bounds": workspace(few, 33, 1),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
