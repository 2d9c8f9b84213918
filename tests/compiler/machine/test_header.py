"""The C header: compiled by C and C++ compilers, which check what it says."""

import shutil
import subprocess
from pathlib import Path

import pytest

from weft.compiler.abi.constants import ABI_VERSION, WORKSPACE_ALIGNMENT, SpanNumber, Status
from weft.compiler.loop_to_llvm.runtime import exported_symbols
from weft.compiler.loop_to_llvm.runtime import table as table_reader
from weft.compiler.loop_to_llvm.runtime.layout import (
    CALL,
    DIM,
    LEVEL,
    OPTIONS,
    SPAN,
    STEP,
    SYMBOL,
    TABLE,
    TENSOR,
    Struct,
)
from weft.compiler.machine.artifact import model_table
from weft.compiler.machine.artifact.signature import Signature, TensorSpec
from weft.compiler.machine.bindings.header import header
from weft.compiler.machine.bindings.names import c_identifier
from weft.compiler.machine.weights.file import WEIGHT_LOCATIONS

LANGUAGES = {
    "c99": ("cc", ["-std=c99", "-x", "c"]),
    "c11": ("cc", ["-std=c11", "-x", "c"]),
    "c++": ("c++", ["-std=c++11", "-x", "c++"]),
}
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]

STATIC = Signature(
    (TensorSpec("image", "float32", (1, 3, 224, 224)), TensorSpec("scale", "bfloat16", ())),
    (TensorSpec("empty", "int64", (0, 4)),),
)
DYNAMIC = Signature(
    (TensorSpec("tokens", "int64", ("batch", "seq")),),
    (TensorSpec("scores", "float32", ("batch", "2*seq - 1", 8)),),
    ("batch", "seq"),
)

# `@` stands for the name.
FUNCTION_TYPES = {
    "abi_version": "uint32_t @(void)",
    "metadata": "const char *@(void)",
    "create": "weft_context *@(const weft_options *)",
    "destroy": "void @(weft_context *)",
    "workspace_size": "uint64_t @(const int64_t *)",
    "run": "int32_t @(weft_context *, const weft_call *)",
    "last_error": "const char *@(const weft_context *)",
    "release": "void @(weft_context *, void *)",
    "level": "int32_t @(const weft_context *)",
    "query": "const weft_table *@(void)",
    "run_dlpack": "int32_t @(weft_context *, const weft_call *)",
    "cancel": "void @(weft_context *)",
    "set_poll": "void @(weft_context *, int32_t (*)(void *), void *)",
    "set_profile": "void @(weft_context *, void (*)(void *, const weft_span *), void *)",
    "create_pool": "weft_context *@(const weft_options *)",
    "parallel_for": "void @(void *, int64_t, void (*)(void *, int64_t, int64_t), void *)",
}


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    driver, _ = LANGUAGES[request.param]
    if shutil.which(driver) is None:
        pytest.skip(f"needs a compiler as {driver}")
    return request.param


def compiles(folder: Path, language: str, headers: dict[str, str], checks: str) -> None:
    """Fails with the compiler's messages unless the checks hold after including the headers."""
    for name, text in headers.items():
        (folder / f"{name}.h").write_text(text)
    includes = "".join(f'#include "{name}.h"\n' for name in headers)
    source = folder / "source"
    source.write_text(f"{includes}#include <stddef.h>\n#include <stdio.h>\n{checks}\n")
    driver, flags = LANGUAGES[language]
    done = subprocess.run(
        [driver, *STRICT, *flags, str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def require(*conditions: str) -> str:
    """Declarations that are valid only where the constant conditions are."""
    return "\n".join(
        f"typedef char requirement_{number}[({condition}) ? 1 : -1];"
        for number, condition in enumerate(conditions)
    )


def layout_conditions(name: str, struct: Struct) -> list[str]:
    offsets = [f"offsetof({name}, {f}) == {field.offset}" for f, field in struct.fields.items()]
    return [f"sizeof({name}) == {struct.size}", *offsets]


def test_structs_have_the_layout_that_the_run_time_reads(tmp_path: Path, language: str):
    structs = {
        "options": OPTIONS, "call": CALL, "table": TABLE, "level": LEVEL, "symbol": SYMBOL,
        "tensor": TENSOR, "dim": DIM, "step": STEP, "span": SPAN,
    }  # fmt: skip
    conditions = [
        condition
        for name, struct in structs.items()
        for condition in layout_conditions(f"weft_{name}", struct)
    ]
    compiles(tmp_path, language, {"m": header("m", STATIC)}, require(*conditions))


def test_numbers_are_those_of_the_run_time(tmp_path: Path, language: str):
    conditions = [
        f"WEFT_ABI_VERSION == {ABI_VERSION}",
        f"WEFT_WORKSPACE_ALIGNMENT == {WORKSPACE_ALIGNMENT}",
        *(f"WEFT_{status.name} == {status.value}" for status in Status),
        *(f"WEFT_SPAN_{number.name} == {number.value}" for number in SpanNumber),
        *(f"WEFT_STEP_{step.name} == {step.value}" for step in table_reader.Step),
        f"WEFT_HAS_SELF_TEST == {model_table.HAS_SELF_TEST}",
        f"WEFT_IS_MADE == {model_table.IS_MADE}",
        *(f"WEFT_{place.upper()} == {n}" for n, place in enumerate(WEIGHT_LOCATIONS)),
    ]
    compiles(tmp_path, language, {"m": header("m", STATIC)}, require(*conditions))


def test_functions_have_the_types_of_the_abi(tmp_path: Path, language: str):
    assert set(exported_symbols("m")) == {f"m_{name}" for name in FUNCTION_TYPES}
    checks = "".join(
        f"  {kind.replace('@', f'(*const use_{name})')} = m_{name};\n"
        for name, kind in FUNCTION_TYPES.items()
    )
    uses = "".join(f"  (void)use_{name};\n" for name in FUNCTION_TYPES)
    body = f"void use(void);\nvoid use(void) {{\n{checks}{uses}}}"
    compiles(tmp_path, language, {"m": header("m", STATIC)}, body)


def test_static_model_has_its_sizes_as_macros(tmp_path: Path, language: str):
    conditions = [
        "m_INPUT_COUNT == 2",
        "m_OUTPUT_COUNT == 1",
        "m_DIM_COUNT == 0",
        "m_INPUT_0_RANK == 4",
        "m_INPUT_0_ELEMENTS == 150528",
        "m_INPUT_0_BYTES == 602112",
        "m_INPUT_1_RANK == 0",
        "m_INPUT_1_ELEMENTS == 1",
        "m_INPUT_1_BYTES == 2",
        "m_OUTPUT_0_ELEMENTS == 0",
        "m_WORKSPACE_SIZE == 4096",
        'sizeof(m_INPUT_0_NAME) == sizeof("image")',
        'sizeof(m_INPUT_1_DTYPE) == sizeof("bfloat16")',
    ]
    shape = "extern const int64_t shape[];\nconst int64_t shape[m_INPUT_0_RANK] = m_INPUT_0_SHAPE;"
    text = header("m", STATIC, workspace_size=4096)
    compiles(tmp_path, language, {"m": text}, f"{require(*conditions)}\n{shape}")


def test_symbolic_sizes_are_text_and_nothing_else():
    lines = header("m", DYNAMIC).splitlines()
    assert "#define m_DIM_COUNT 2" in lines
    assert '#define m_DIM_1_NAME "seq"' in lines
    assert '#define m_OUTPUT_0_DIMS "batch, 2*seq - 1, 8"' in lines
    sizes = ("_ELEMENTS", "_BYTES", "_SHAPE", "_WORKSPACE_SIZE")
    assert not any(name.endswith(sizes) for name in macro_names(lines))


def macro_names(lines: list[str]) -> list[str]:
    return [line.split()[1] for line in lines if line.startswith("#define m_")]


def test_headers_of_two_models_go_together(tmp_path: Path, language: str):
    headers = {"one": header("one", STATIC), "two": header("two", DYNAMIC)}
    checks = require("one_INPUT_COUNT == 2", "two_INPUT_COUNT == 1")
    compiles(tmp_path, language, headers, checks)


@pytest.mark.parametrize(
    "name",
    ['quote " and \\ slash', "line\nend", "what??/", "é日本", "*/ #error", "digits \x011", "%s"],
)
def test_any_tensor_name_is_a_string_literal(tmp_path: Path, language: str, name: str):
    signature = Signature((TensorSpec(name, "float32", (1,)),), ())
    size = len(name.encode()) + 1
    checks = f"""
int main(void) {{ return fwrite(m_INPUT_0_NAME, {size}, 1, stdout) != 1; }}
{require(f"sizeof(m_INPUT_0_NAME) == {size}")}"""
    compiles(tmp_path, language, {"m": header("m", signature)}, checks)
    if language == "c99":
        assert printed(tmp_path) == name.encode() + b"\0"


def printed(folder: Path) -> bytes:
    """What the program that `compiles` left in the folder prints."""
    _, flags = LANGUAGES["c99"]
    program = folder / "program"
    subprocess.run(["cc", *flags, str(folder / "source"), "-o", str(program)], check=True)
    return subprocess.run([str(program)], capture_output=True, check=True).stdout


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("model", "model"),
        ("ResNet-50 (v2)", "ResNet_50_v2"),
        ("2d", "model_2d"),
        ("_private", "private"),
        ("日本", "model"),
        ("", "model"),
        ("pthread", "model_pthread"),
    ],
)
def test_prefixes_are_c_identifiers(name: str, identifier: str):
    assert c_identifier(name) == identifier
    assert c_identifier(identifier) == identifier
