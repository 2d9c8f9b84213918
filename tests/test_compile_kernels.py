"""Kernels compiled by several processes: the same code in the same order; errors arrive."""

import sys
from dataclasses import replace

import pytest

from compiler import compile_kernels
from compiler.compile_kernels import KernelTask, compile_kernel, kernel_compiler
from compiler.machine.host import host_target
from dialects.errors import OptionError

KERNEL = """
loop.kernel @scale{number}[n](%x: !loop.buffer<[n], f32>, %y: !loop.buffer<[n], f32>) {{
  %factor = arith.constant {number}.5 : f32
  loop.for %i = 0 to n {{
    %element = loop.load %x[%i] : !loop.buffer<[n], f32>
    %product = arith.mulf %element, %factor : f32
    loop.store %product, %y[%i] : !loop.buffer<[n], f32>
  }}
}}
"""
CORES = 3
TASKS = [
    KernelTask(KERNEL.format(number=number), host_target(), "weft", strict_fp=False)
    for number in range(13)
]


def test_workers_give_the_code_that_this_process_gives():
    progress: list[int] = []
    with kernel_compiler(len(TASKS), CORES) as compiler:
        codes = compiler.compile(TASKS, progress.append)
    assert [code.code for code in codes] == [compile_kernel(task).code for task in TASKS]
    assert progress == sorted(progress)


def test_two_workers_compile_without_this_process():
    with kernel_compiler(len(TASKS), CORES) as compiler:
        workers = compiler.workers
        assert len(workers) == 2
        answers = [compile_kernels.ask(worker, TASKS[0]) for worker in workers]
    assert {answer.code for answer in answers} == {compile_kernel(TASKS[0]).code}
    assert all(worker.returncode is not None for worker in workers)


def test_a_few_kernels_need_no_worker():
    with kernel_compiler(compile_kernels.KERNELS_PER_WORKER - 1, CORES) as compiler:
        assert compiler.workers == ()


def test_a_program_that_embeds_python_is_not_started_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", "/usr/bin/editor")
    with kernel_compiler(len(TASKS), CORES) as compiler:
        assert compiler.workers == ()


def test_the_error_of_a_worker_is_raised_here():
    unknown = replace(TASKS[0], target=replace(host_target(), triple="vax-dec-ultrix"))
    with kernel_compiler(len(TASKS), CORES) as compiler, pytest.raises(OptionError, match="vax"):
        compile_kernels.ask(compiler.workers[0], unknown)


def test_the_error_of_any_kernel_is_raised():
    unknown = replace(TASKS[0], target=replace(host_target(), triple="vax-dec-ultrix"))
    with kernel_compiler(len(TASKS), CORES) as compiler, pytest.raises(OptionError, match="vax"):
        compiler.compile([*TASKS, unknown], lambda done: None)


def test_a_mistake_of_ours_shows_its_traceback():
    wrong = replace(TASKS[0], text="builtin.module {}")
    with (
        kernel_compiler(len(TASKS), CORES) as compiler,
        pytest.raises(AssertionError, match="Traceback"),
    ):
        compile_kernels.ask(compiler.workers[0], wrong)


def test_a_worker_that_was_killed_is_reported():
    with kernel_compiler(len(TASKS), CORES) as compiler:
        compiler.workers[0].kill()
        compiler.workers[0].wait()
        with pytest.raises(OSError, match="compiling requires workers that the system lets live"):
            compile_kernels.ask(compiler.workers[0], TASKS[0])


def test_keeps_the_ir_where_it_is_asked_for():
    assert compile_kernel(TASKS[0]).ir is None
    assert "define hidden" in (compile_kernel(replace(TASKS[0], keep_ir=True)).ir or "")
