"""The typed call of the C header, in C and in C++."""

import shutil
import subprocess
from pathlib import Path

import pytest

import weft
from tests.support.small_models import dense_model, rows_of
from weft.compiler.machine.artifact.signature import Signature, TensorSpec
from weft.compiler.machine.bindings.header import header

ROWS = 5
HOST = """
#include <stdio.h>
#include "libdense.h"
static float x[5 * 96], y[5 * 80];
int main(void) {
    if (fread(x, 4, 5 * 96, stdin) != 5 * 96) return 1;
    weft_options options = {.size = sizeof options, .threads = 1};
    weft_context *context = dense_create(&options);
    if (dense_infer(context, -1, x, y, NULL, 0) != WEFT_BAD_DIMS) return 2;
    if (dense_infer(context, 5, x, y, NULL, dense_workspace_size(&(int64_t){5})) != WEFT_OK)
        return 3;
    dense_destroy(context);
    return fwrite(y, 4, 5 * 80, stdout) != 5 * 80;
}
"""
ODD = Signature(
    (TensorSpec("int", "float16", (2,)), TensorSpec("a:0", "int64", ("n",))),
    (TensorSpec("a/0", "bool", ("n",)), TensorSpec("a.0", "float32", ("k", 4))),
    ("n",),
    ("k",),
)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_c_program_calls_the_model_by_its_tensors(tmp_path: Path):
    model = weft.compile(dense_model("rows"), prefix="dense", threads=1, cache=False)
    model.export(tmp_path / "libdense.so")
    (tmp_path / "host.c").write_text(HOST)
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-Wl,-rpath,{tmp_path}"]
    command = ["cc", "host.c", "libdense.so", "-o", "host", *flags]
    subprocess.run(command, cwd=tmp_path, check=True)
    x = rows_of(ROWS)
    done = subprocess.run(tmp_path / "host", input=x.tobytes(), check=True, capture_output=True)
    assert done.stdout == model(x)[0].tobytes()


@pytest.mark.parametrize(("language", "standard"), [("c", "c99"), ("c++", "c++11")])
@pytest.mark.parametrize("signature", [ODD, Signature((), ())], ids=["odd", "empty"])
def test_any_names_and_sizes_give_a_header(
    tmp_path: Path, language: str, standard: str, signature: Signature
):
    if shutil.which("cc") is None or (language == "c++" and shutil.which("c++") is None):
        pytest.skip("needs a compiler")
    (tmp_path / "m.h").write_text(header("m", signature))
    flags = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]
    command = ["cc", "-x", language, f"-std={standard}", *flags, "-include", "m.h", "/dev/null"]
    subprocess.run(command, cwd=tmp_path, check=True)


def test_parameters_are_told_apart():
    text = header("m", ODD)
    parameters = (
        "weft_context *context, int64_t dim_n, const uint16_t *in_int, const int64_t *in_a_0, "
        "uint8_t *out_a_0, float **out_a_0_2, int64_t *found_k, void *workspace, "
        "uint64_t workspace_size"
    )
    assert f"int32_t m_infer({parameters})" in text
    assert "*out_a_0_2 = (float *)outputs[1];" in text
    assert "*found_k = dims[1];" in text
