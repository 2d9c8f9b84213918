"""Calls that are told to end: by `m_cancel` and a host's poll from C, by signals in Python."""

import ctypes
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from tests.compiler.loop_to_llvm.runtime.runtime_library import Call, Library, pointer
from weft.compiler.abi.constants import Status

POLL = ctypes.CFUNCTYPE(ctypes.c_int32, pointer)


def count_to_ten(x, step):
    """A loop without end where the step is 0."""
    while x < 10.0:
        x = x + step
    return x


def collect_to_ten(x, step):
    """The same; a call makes the result, whose memory grows."""
    rows = []
    while x < 10.0:
        rows.append(x)
        x = x + step
    return wnp.stack(rows)


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("counting") / "counting.so"
    scalar = weft.Spec("float64")
    weft.compile(count_to_ten, [scalar, scalar], prefix="m", cache=False).export(path)
    return path


@pytest.fixture
def library(counting: Path) -> Library:
    return loaded(counting)


def loaded(path: Path) -> Library:
    code = ctypes.CDLL(str(path))

    def function(name: str, result: object, operands: list[object]):
        found = code[name]
        found.restype, found.argtypes = result, operands
        return found

    return Library(function)


@pytest.fixture
def context(library: Library) -> Iterator[int]:
    with library.context(threads=2) as context:
        yield context


def cancel(library: Library, context: int | None) -> None:
    library.host("m_cancel", None, [pointer])(context)


def set_poll(library: Library, context: int, poll: object) -> None:
    library.host("m_set_poll", None, [pointer] * 3)(context, ctypes.cast(poll, pointer), None)


def run(library: Library, context: int, step: float) -> tuple[int, float]:
    """The status, and the result."""
    values = [np.array(value, np.float64) for value in (0.0, step, -1.0)]
    places = [value.ctypes.data for value in values]
    workspace = np.zeros(library.workspace_size(None) + 64, np.uint8)
    found = np.zeros(1, np.int64)
    call = Call(
        size=ctypes.sizeof(Call),
        inputs=ctypes.cast((pointer * 2)(*places[:2]), pointer),
        outputs=ctypes.cast((pointer * 1)(places[2]), pointer),
        dims=found.ctypes.data,
        workspace=-(-workspace.ctypes.data // 64) * 64,
        workspace_size=len(workspace) - 64,
    )
    return library.run(context, ctypes.byref(call)), float(values[2])


def endless_calls(
    library: Library, context: int, count: int
) -> tuple[list[threading.Thread], list[int]]:
    """Threads that are in a call without end, and the statuses that they will have ended with."""
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda: statuses.append(run(library, context, 0.0)[0]))
        for _ in range(count)
    ]
    inside = threading.Semaphore(0)
    entered: set[int] = set()

    def note(_: object) -> int:
        me = threading.get_ident()
        if me not in entered:
            entered.add(me)
            inside.release()
        return 0

    poll = POLL(note)
    set_poll(library, context, poll)
    for thread in threads:
        thread.start()
        thread.poll = poll  # which the context calls as long as the thread runs
    for _ in threads:
        assert inside.acquire(timeout=60)
    return threads, statuses


def test_cancel_ends_the_running_calls_of_a_context(library: Library, context: int):
    """C side: a cancel flag in the context ends an endless loop, and the context stays usable."""
    threads, statuses = endless_calls(library, context, 2)
    cancel(library, context)
    for thread in threads:
        thread.join(60)
    assert statuses == [Status.CANCELLED] * 2 == [10, 10]
    assert library.last_error(context) == b"run requires time to end, got m_cancel"
    set_poll(library, context, None)
    assert run(library, context, 1.0) == (Status.OK, 10.0)


def test_cancel_leaves_later_calls_and_other_contexts_alone(library: Library, context: int):
    cancel(library, None)
    cancel(library, context)
    assert run(library, context, 1.0) == (Status.OK, 10.0)
    with library.context(threads=1) as other:
        threads, statuses = endless_calls(library, context, 1)
        cancel(library, other)
        threads[0].join(0.05)
        assert not statuses
        cancel(library, context)
        threads[0].join(60)
        assert statuses == [Status.CANCELLED]


def test_a_poll_of_the_host_ends_a_call(library: Library, context: int):
    asked = 0

    def enough(_: object) -> int:
        nonlocal asked
        asked += 1
        return int(asked == 3)

    poll = POLL(enough)
    set_poll(library, context, poll)
    assert run(library, context, 0.0)[0] == Status.CANCELLED
    assert asked == 3
    assert library.last_error(context) == b"run requires time to end, got a poll that is not 0"
    assert run(library, context, 1.0) == (Status.OK, 10.0)


def test_a_cancelled_call_gives_back_its_memory(tmp_path: Path):
    scalar = weft.Spec("float64")
    path = tmp_path / "collecting.so"
    weft.compile(collect_to_ten, [scalar, scalar], prefix="m", cache=False).export(path)
    library, held, sizes = loaded(path), dict[int, object](), list[int]()

    @ctypes.CFUNCTYPE(pointer, pointer, ctypes.c_uint64, ctypes.c_uint64)
    def allocate(_: object, size: int, alignment: int) -> int:
        memory = ctypes.create_string_buffer(size + alignment)
        address = -(-ctypes.addressof(memory) // alignment) * alignment
        held[address] = memory
        sizes.append(size)
        return address

    @ctypes.CFUNCTYPE(None, pointer, pointer)
    def release(_: object, address: int) -> None:
        del held[address]

    ends = POLL(lambda _: 1)
    options = {"allocate": allocate, "release": release}
    pointers = {name: ctypes.cast(each, pointer).value for name, each in options.items()}
    with library.context(threads=1, **pointers) as context:
        before = len(held)
        set_poll(library, context, ends)
        assert run(library, context, 0.0)[0] == Status.CANCELLED
        assert len(held) == before
    assert not held
    assert len(sizes) > 3  # those of the context, and of what grew


PYTHON = """
import ctypes, os, signal, sys, threading, time
import numpy as np
import weft

sys.path.insert(0, {root!r})
from tests.compiler.machine.python.test_cancel import count_to_ten

# Whoever runs the tests in the background has them ignore interrupts, and would this program.
signal.signal(signal.SIGINT, signal.default_int_handler)

model = weft.load({path!r})
fast = weft.jit(count_to_ten)
assert float(fast(0.0, 1.0)) == 10.0
zero, one = np.float64(0), np.float64(1)

class Alarm(Exception):
    pass

def alarm(number, frame):
    raise Alarm

SOON = 0.3  # seconds after which the main thread is in its loop, which it runs until then

def after(seconds, act):
    timer = threading.Timer(seconds, act)
    timer.start()
    return timer

def check_usable(call):
    assert float(np.ravel(call(zero, one))[0]) == 10.0

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

# Ctrl-C, in calls that take arrays as they are, in those that Python makes of others, and of a jit.
for call in (lambda x, step: model(np.array(x), np.array(step)), model, fast):
    timer = after(SOON, interrupt)
    try:
        call(zero, zero)
    except KeyboardInterrupt:
        print("interrupted")
    timer.join()
    check_usable(call)

# Other signals have their own handlers, which need not raise.
counted = []
signal.signal(signal.SIGUSR1, lambda number, frame: counted.append(number))
signal.signal(signal.SIGALRM, alarm)
timer = after(SOON, lambda: os.kill(os.getpid(), signal.SIGUSR1))
signal.setitimer(signal.ITIMER_REAL, 3 * SOON)
try:
    model(zero, zero)
except Alarm:
    print("alarm", len(counted))
check_usable(model)

# In another thread, which signals leave alone until the main thread cancels it.
ended = []
def background():
    try:
        model(zero, zero)
    except weft.CancelledError as error:
        ended.append(str(error))
    over.set()
over = threading.Event()
threading.Thread(target=background).start()
timer = after(SOON, interrupt)
try:
    over.wait()
except KeyboardInterrupt:
    assert not ended
    model.cancel()
over.wait()
print(*ended)
check_usable(model)

# A child whose main thread is another one.
def fork():
    child = os.fork()
    if not child:
        after(SOON, interrupt)
        try:
            model(zero, zero)
        except KeyboardInterrupt:
            os._exit(7)
        os._exit(1)
    print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
thread = threading.Thread(target=fork)
thread.start()
thread.join()
"""


def test_signals_end_a_loop_without_end_in_python(counting: Path):
    """C side: SIGINT ends an endless compiled loop that is called from Python."""
    program = PYTHON.format(root=str(Path(__file__).parents[4]), path=str(counting))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        *["interrupted"] * 3,
        "alarm 1",
        "m run requires time to end, got m_cancel",
        "child 7",
    ]


def test_programs_without_long_loops_do_not_poll(counting: Path, tmp_path: Path):
    """C side: a call without long loops pays nothing."""
    plain = tmp_path / "plain.so"

    def ten_times(x):
        for _ in range(10):
            x = x * 1.5
        return x

    weft.compile(ten_times, [weft.Spec("float32", (8,))], cache=False).export(plain)
    assert b"weft.ask_to_go_on" in counting.read_bytes()
    assert b"weft.ask_to_go_on" not in plain.read_bytes()
