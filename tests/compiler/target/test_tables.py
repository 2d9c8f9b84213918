"""Tables of CPUs: LLVM knows what they name, guards ask for what code may use, texts hold them."""

import re

import pytest
from msgspec.structs import asdict, replace
from xdsl.dialects.builtin import ModuleOp

from weft.compiler.driver.read_options import read_target
from weft.compiler.machine.codegen.object_code import compile_assembly
from weft.compiler.target import TARGETS
from weft.compiler.target.arm import ARM_TARGETS
from weft.compiler.target.cost import GENERIC
from weft.compiler.target.cpuid import FEATURES
from weft.compiler.target.features import feature_groups
from weft.compiler.target.module_target import set_target, target_of
from weft.compiler.target.x86_cpus import HASWELL, X86_CPUS, ZEN_4, ZEN_5
from weft.dialects.context import parse_module
from weft.dialects.errors import OptionError

TEXT = "define float @f(float %x) {\n  %y = fadd float %x, %x\n  ret float %y\n}\n"
CPUS = [target for target in TARGETS if target.cost.source != GENERIC]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_llvm_knows_the_cpu_and_its_features(target, capfd: pytest.CaptureFixture[str]):
    compile_assembly(TEXT, target)
    assert capfd.readouterr().err == "", "LLVM says there what it does not know"


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_numbers_are_those_of_a_cpu(target):
    numbers = asdict(target.cost)
    numbers.pop("source")
    assert all(number > 0 for number in numbers.values())
    assert 4096 <= target.l1_bytes < target.l2_bytes < target.l3_bytes
    sets = target.l1_bytes / target.cost.l1_associativity / target.cost.line
    assert sets == int(sets)
    assert target.cost.l2_bandwidth >= target.cost.l3_bandwidth
    assert target.cost.memory_gbs <= target.cost.total_memory_gbs


@pytest.mark.parametrize("target", CPUS, ids=lambda target: target.name)
def test_a_table_has_the_name_that_llvm_has(target):
    assert target.name == target.cpu == target.cost.source
    assert read_target(target.name) is target


@pytest.mark.parametrize("target", X86_CPUS, ids=lambda target: target.name)
def test_code_needs_nothing_that_an_artifact_does_not_ask_for(target):
    (*groups,) = feature_groups(target)
    asked = {name for group in groups for name in group}
    assert {f"+{name}" for name in asked} == {name for name in target.features if name[0] == "+"}
    assert {name[1:] for name in target.features} >= set(FEATURES)


def test_later_cpus_have_what_earlier_ones_have():
    ons = [{name for name in each.features if name[0] == "+"} for each in (HASWELL, ZEN_4, ZEN_5)]
    assert ons[0] < ons[1] < ons[2]


def test_arm_code_has_vectors_of_neon():
    assert {each.vector_bytes for each in ARM_TARGETS} == {16}


def test_an_unknown_name_lists_the_names():
    names = ", ".join(target.name for target in TARGETS)
    with pytest.raises(OptionError, match=re.escape(f"one of native, {names}, got znver99")):
        read_target("znver99")


def test_costs_are_part_of_a_modules_text():
    measured = replace(ZEN_4, name="native", cost=replace(ZEN_4.cost, ghz=3.25, fma_ports=3))
    module = ModuleOp([])
    set_target(module, measured)
    assert target_of(parse_module(str(module), "text")) == measured
    wrong = str(module).replace("fma_ports = 3", "fma_prots = 3")
    with pytest.raises(OptionError, match=r"weft\.target\.cost requires a dictionary of source: "):
        target_of(parse_module(wrong, "text"))
