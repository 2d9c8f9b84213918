"""Kernels compiled by several processes: the same code in the same order; errors arrive."""

import gc
import inspect
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from onnx import ModelProto

from tests.models.graph_writer import GraphWriter
from tests.support.small_models import add_model
from weft.compilation import options_of
from weft.compiler.deferred import COLLECTION_THRESHOLDS
from weft.compiler.driver import compile_kernels, pipeline, workers
from weft.compiler.driver.compile_kernels import (
    KernelCompiler,
    KernelTask,
    infrequent_collections,
    kernel_compiler,
    options_of_kernel,
    parse_kernel,
)
from weft.compiler.driver.session import Session
from weft.compiler.driver.workers import (
    KernelCode,
    Worker,
    ask,
)
from weft.compiler.loop.schedules import SCHEDULES, Later, Schedule
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.program.memory.hoist_workspace import hoist_kernel
from weft.compiler.program.memory.in_place import InPlace, in_place_arguments
from weft.dialects.errors import OptionError, UnsupportedError
from weft.dialects.loop.types import buffer_type_of
from weft.dialects.module_attributes import CodeOptions

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

ENOUGH = (CORES - 1) * compile_kernels.KERNELS_PER_NEW
"""Kernels for a worker on every other core."""
OPTIONS = CodeOptions()
VAX = replace(host_target(), triple="vax-dec-ultrix")
TASKS = [
    KernelTask(f"scale{number}", KERNEL.format(number=number), host_target(), OPTIONS)
    for number in range(13)
]


class Store(dict[str, bytes]):
    """A store in memory."""

    def find_kernel(self, key: str) -> bytes | None:
        return self.get(key)

    def keep_kernel(self, key: str, data: bytes) -> None:
        self[key] = data


def test_workers_give_the_code_that_this_process_gives():
    progress: list[int] = []
    with kernel_compiler(ENOUGH, CORES) as compiler:
        codes = compiler.compile(TASKS, progress.append)
    assert [code.code for code in codes] == [task.compile().code for task in TASKS]
    assert progress == sorted(progress)


def test_two_workers_compile_without_this_process():
    with kernel_compiler(ENOUGH, CORES) as compiler:
        started = compiler.workers
        assert len(started) == 2
        answers = [ask(worker, TASKS[0]) for worker in started]
    assert {answer.code for answer in answers} == {TASKS[0].compile().code}


@pytest.fixture
def interpreters(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Workers are interpreters, of which none waits before or after the test."""
    monkeypatch.setattr(compile_kernels, "can_fork", lambda: False)
    workers.close_idle_workers()
    yield
    workers.close_idle_workers()


@pytest.mark.usefixtures("interpreters")
def test_the_next_compilation_has_the_same_workers():
    started: list[Sequence[Worker]] = []
    for _ in range(2):
        with kernel_compiler(ENOUGH, CORES) as compiler:
            started.append(compiler.workers)
            assert ask(compiler.workers[0], TASKS[0]).code
    assert {*started[0]} == {*started[1]}
    with kernel_compiler(compile_kernels.KERNELS_PER_WORKER, CORES) as compiler:
        (waiting,) = compiler.workers  # few kernels are worth it where nothing has to start
        assert waiting in started[0]
    workers.close_idle_workers()
    assert all(worker.poll() is not None for worker in started[0])


@pytest.mark.usefixtures("interpreters")
def test_workers_of_a_compilation_that_failed_end_with_it():
    with pytest.raises(KeyError), kernel_compiler(ENOUGH, CORES) as compiler:
        raise KeyError
    assert [worker.poll() for worker in compiler.workers] == [-9, -9]


@pytest.mark.usefixtures("interpreters")
def test_a_worker_that_ended_while_it_waited_is_not_used():
    with kernel_compiler(ENOUGH, CORES) as compiler:
        first = compiler.workers
    for worker in first:
        worker.kill()
        worker.wait()
    with kernel_compiler(ENOUGH, CORES) as compiler:
        assert not {*first} & {*compiler.workers}
        assert ask(compiler.workers[0], TASKS[0]).code


@pytest.mark.usefixtures("interpreters")
def test_workers_that_wait_too_long_are_not_used(monkeypatch: pytest.MonkeyPatch):
    with kernel_compiler(ENOUGH, CORES) as compiler:
        first = compiler.workers
    monkeypatch.setattr(workers, "_IDLE_SECONDS", 0)
    with kernel_compiler(ENOUGH, CORES) as compiler:
        assert not {*first} & {*compiler.workers}
    assert all(worker.poll() is not None for worker in first)


WAITING = """
import sys
import threading
from weft.compiler.driver import workers
workers._IDLE_SECONDS = 0.01
workers.serve()
"""


@pytest.mark.usefixtures("interpreters")
def test_a_worker_that_was_taken_waits_for_its_first_task_as_long_as_that_takes():
    command = [sys.executable, "-c", WAITING.replace("0.01", "5")]
    waiting = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert ask(waiting, TASKS[0]).code
    workers.release(waiting)
    assert workers.take_workers(1, 1) == [waiting]
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(6)
    assert ask(waiting, TASKS[0]).code
    workers.close(waiting)


def test_a_worker_ends_when_no_compilation_follows():
    waiting = subprocess.Popen(
        [sys.executable, "-c", WAITING], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert ask(waiting, TASKS[0]).code
    workers.release(waiting)
    assert waiting.wait(60) == -signal.SIGALRM


@pytest.mark.usefixtures("interpreters")
def test_a_copy_of_the_process_has_no_workers_of_it():
    with kernel_compiler(ENOUGH, CORES):
        pass
    child = os.fork()
    if child == 0:
        os._exit(len(workers._idle))
    assert os.waitpid(child, 0)[1] == 0
    assert len(workers._idle) == CORES - 1


COPIES = """
import numpy as np
square = np.ones((400, 400))
assert (square @ square == 400).all()
from tests.compiler.driver.test_compile_kernels import TASKS, CORES
from weft.compiler.driver.compile_kernels import kernel_compiler
from weft.compiler.driver.workers import ForkedWorker, ask
with kernel_compiler(4, CORES) as compiler:
    workers = compiler.workers
    assert [type(worker) for worker in workers] == [ForkedWorker, ForkedWorker]
    print("before", end="")
    answers = [ask(worker, TASKS[0]).code for worker in workers]
    codes = compiler.compile(TASKS[:3], lambda done: None)
assert answers == [TASKS[0].compile().code] * 2
assert [each.code for each in codes] == [task.compile().code for task in TASKS[:3]]
assert [worker.returncode for worker in workers] == [-9, -9]
assert (square @ square == 400).all()
"""


@pytest.mark.parametrize("threads", [1, 3])
def test_a_process_with_no_threads_but_those_of_numpys_products_is_copied(threads: int):
    env = os.environ | {"OPENBLAS_NUM_THREADS": str(threads)}
    ran = subprocess.run([sys.executable, "-c", COPIES], env=env, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "before", "")


def test_a_process_with_another_thread_is_not_copied():
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        assert not workers.can_fork()
    finally:
        done.set()
        other.join()


def test_a_few_kernels_need_no_worker(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compile_kernels, "can_fork", lambda: False)
    with kernel_compiler(compile_kernels.KERNELS_PER_NEW - 1, CORES) as compiler:
        assert compiler.workers == ()


def test_a_program_that_embeds_python_is_not_started_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compile_kernels, "can_fork", lambda: False)
    monkeypatch.setattr(sys, "executable", "/usr/bin/editor")
    with kernel_compiler(ENOUGH, CORES) as compiler:
        assert compiler.workers == ()


def test_the_error_of_a_worker_is_raised_here():
    unknown = replace(TASKS[0], target=VAX, options=CodeOptions(naive=True))
    with kernel_compiler(ENOUGH, CORES) as compiler, pytest.raises(OptionError, match="vax"):
        ask(compiler.workers[0], unknown)


def test_the_error_of_any_kernel_is_raised():
    unknown = replace(TASKS[0], target=VAX, options=CodeOptions(naive=True))
    with kernel_compiler(ENOUGH, CORES) as compiler, pytest.raises(OptionError, match="vax"):
        compiler.compile([*TASKS, unknown], lambda done: None)


def test_a_mistake_of_ours_shows_its_traceback():
    wrong = replace(TASKS[0], text="builtin.module {}")
    with (
        kernel_compiler(ENOUGH, CORES) as compiler,
        pytest.raises(AssertionError, match="Traceback"),
    ):
        ask(compiler.workers[0], wrong)


def test_a_worker_that_was_killed_is_reported():
    with kernel_compiler(ENOUGH, CORES) as compiler:
        compiler.workers[0].kill()
        compiler.workers[0].wait()
        with pytest.raises(OSError, match="compiling requires workers that the system lets live"):
            ask(compiler.workers[0], TASKS[0])


def test_keeps_the_texts_where_they_are_asked_for():
    plain, kept = TASKS[0].compile(), replace(TASKS[0], keep_texts=True).compile()
    assert plain.ir is None
    assert "loop.for" not in plain.kernel
    assert "define hidden" in (kept.ir or "")
    assert "loop.for" in kept.kernel
    assert kept.code == plain.code


def test_a_store_gives_what_it_was_given():
    store = Store()
    for tasks in (TASKS[:5], TASKS[:7]):
        with kernel_compiler(1, CORES, store) as compiler:
            codes = compiler.compile(tasks, lambda done: None)
        fresh = [task.compile() for task in tasks]
        assert [replace(code, seconds={}) for code in codes] == [
            replace(code, seconds={}) for code in fresh
        ]
        assert {*store} == {task.keys[0] for task in tasks}


def test_a_brief_kernel_is_in_no_store():
    store, task = Store(), replace(TASKS[0], brief=True)
    (code,) = KernelCompiler((), store).compile([task], lambda done: None)
    assert code.code == TASKS[0].compile().code
    assert not store


def test_what_is_in_the_store_is_not_compiled(monkeypatch: pytest.MonkeyPatch):
    store = Store({TASKS[0].keys[0]: TASKS[0].compile().to_bytes()})
    monkeypatch.setattr(KernelTask, "compile", None)
    (code,) = KernelCompiler((), store).compile(TASKS[:1], lambda done: None)
    assert code.code


def test_what_is_done_is_kept_though_a_later_kernel_fails():
    store, wrong = Store(), replace(TASKS[1], target=VAX)
    with pytest.raises(UnsupportedError, match="vax"):
        KernelCompiler((), store).compile([TASKS[0], wrong], lambda done: None)
    assert [*store] == [TASKS[0].keys[0]]


def test_what_another_process_has_done_meanwhile_is_not_compiled():
    store = Store()

    def other_process() -> KernelCode:
        codes = [task.compile() for task in TASKS[:3]]
        for task, code in zip(TASKS, codes, strict=False):
            store.keep_kernel(task.key_of(code), code.to_bytes())
        return codes[0]

    refused = [other_process, *[lambda: pytest.fail("it was done already")] * 2]
    codes = KernelCompiler((), store).compile(TASKS[:3], lambda done: None, refused)
    assert [code.code for code in codes] == [task.compile().code for task in TASKS[:3]]


def test_kernels_are_shared_whatever_the_number_of_cores():
    few, many = (replace(TASKS[0], target=replace(host_target(), cores=n)) for n in (1, 64))
    code = few.compile()
    assert few.keys[0] == many.keys[0]
    assert few.key_of(code) == few.keys[0]
    for_cores = replace(code, used=["leading-reduction"])
    assert few.key_of(for_cores) == few.keys[1] != many.key_of(for_cores)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda each: each.name)
def test_schedules_say_whether_they_read_the_number_of_cores(schedule: Schedule):
    apply = schedule.apply_all
    name = apply.module.__name__ if isinstance(apply, Later) else apply.__module__
    source = inspect.getsource(sys.modules[name])
    assert (".cores" in source) == schedule.reads_cores


def test_keys_tell_apart_what_gives_other_code():
    forced = {"scale0": ()}
    keys = [
        task.keys[0]
        for task in (
            *TASKS,
            replace(TASKS[0], options=replace(OPTIONS, prefix="other")),
            replace(TASKS[0], options=replace(OPTIONS, strict_fp=True)),
            replace(TASKS[0], options=replace(OPTIONS, naive=True)),
            replace(TASKS[0], options=replace(OPTIONS, schedules=forced)),
            replace(TASKS[0], target=VAX),
        )
    ]
    assert len(set(keys)) == len(keys)
    others = replace(OPTIONS, schedules={"scale1": ()}, timed=True)
    assert options_of_kernel(others, "scale0") == OPTIONS


def test_declarations_say_what_programs_need():
    text = """
      loop.kernel @both(%x: !loop.buffer<[8], f32>, %y: !loop.buffer<[8], f32>,
                        %z: !loop.buffer<[8], f32>) {
        %t = loop.alloc workspace : !loop.buffer<[8], f32>
        loop.for %i = 0 to 8 {
          %a = loop.load %x[%i] : !loop.buffer<[8], f32>
          loop.store %a, %t[%i] : !loop.buffer<[8], f32>
          loop.store %a, %z[%i] : !loop.buffer<[8], f32>
        }
        loop.for %i = 0 to 8 {
          %b = loop.load %t[7 - %i] : !loop.buffer<[8], f32>
          loop.store %b, %y[%i] : !loop.buffer<[8], f32>
        }
      }"""
    naive = replace(OPTIONS, naive=True)
    declared = parse_kernel(KernelTask("k", text, host_target(), naive).compile().kernel)
    assert len(declared.body.block.args) == 4
    assert not declared.body.block.ops
    assert hoist_kernel(declared) == [buffer_type_of(declared.body.block.args[3])]
    assert in_place_arguments(declared) == [InPlace(0, 2)]


class Memory(dict[str, bytes]):
    """A store in this process."""

    find_kernel = dict[str, bytes].get
    keep_kernel = dict[str, bytes].__setitem__


def test_workers_start_for_groups_that_no_compilation_has_had(monkeypatch: pytest.MonkeyPatch):
    expected: list[int] = []

    def noted(kernels: int, *others: Any):
        expected.append(kernels)
        return kernel_compiler(kernels, *others)

    monkeypatch.setattr(pipeline, "kernel_compiler", noted)
    store = Memory()
    for model in (two_layers(8), two_layers(8, scale=2.0), two_layers(9), add_model()):
        options = options_of(model)
        pipeline.compile_model(model, options, Session(options, cores=1, store=store))
    first, other_weights, other_sizes, alone = expected
    assert first == other_sizes == 2
    assert other_weights == alone == 0


def two_layers(rows: int, scale: float = 1.0) -> ModelProto:
    """y = relu(relu(x W + b) V)."""
    net = GraphWriter("layers", seed=1)
    x = net.input("x", (rows, 80))
    product = net.op("MatMul", x, net.weight("first", (80, 80), 0.1))
    added = net.op("Add", product, net.weight("bias", (80,), scale))
    hidden = net.op("Relu", added)
    product = net.op("MatMul", hidden, net.weight("second", (80, 80), 0.1))
    net.output(net.op("Relu", product), "y", (rows, 80))
    return net.model


@pytest.mark.parametrize("before", [(700, 10, 10), (10_000_000, 10, 10)])
def test_collections_are_rare_and_as_frequent_as_before_afterwards(before: tuple[int, int, int]):
    of_tests = gc.get_threshold()
    gc.set_threshold(*before)
    try:
        with infrequent_collections():
            assert gc.get_threshold() == max(before, COLLECTION_THRESHOLDS)
        assert gc.get_threshold() == before
    finally:
        gc.set_threshold(*of_tests)


ENDING = """
import atexit, gc, sys
from weft.compiler.driver.compile_kernels import infrequent_collections

cycle = []
cycle.append(cycle)
atexit.register(lambda: print(gc.get_freeze_count() > 0))  # called behind what comes later
if sys.argv[1:]:
    with infrequent_collections():
        assert gc.get_freeze_count() == 0
"""


@pytest.mark.parametrize("compiles", [False, True])
def test_a_process_that_has_compiled_looks_for_no_cycles_as_it_ends(compiles: bool):
    command = [sys.executable, "-c", ENDING, *(["compiles"] if compiles else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"{compiles}\n"


ASIDE = """
import gc
from weft.compiler import deferred

def look(phase, info):
    if phase == "start":
        looks.append(info["generation"])

def compile_something():
    with deferred.fewer_collections():
        for _ in range(10_000):
            cycle = []
            cycle.append(cycle)

gc.collect()
looks = []
gc.callbacks.append(look)
deferred.MOST_ASIDE = 15_000
before = len(gc.get_objects())
compile_something()
print(looks, gc.get_freeze_count(), len(gc.get_objects()) - before > 9_000)
compile_something()
print(looks, gc.get_freeze_count(), len(gc.get_objects()) - before > 9_000)
gc.freeze()
frozen = gc.get_freeze_count()
compile_something()
print(gc.get_freeze_count() == frozen)
"""


def test_what_compiling_leaves_is_looked_through_once_there_is_much_of_it():
    command = [sys.executable, "-c", ASIDE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[] 0 True", "[2] 0 False", "True"]
