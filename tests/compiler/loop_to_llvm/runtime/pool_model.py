"""The protocol of the thread pool (compiler/loop_to_llvm/runtime/pool.py) as a machine of states,
explored in every order in which its threads can take their steps.

A step is one atomic operation; memory is sequentially consistent here, which the orderings in the
code have to provide for. Spinning is one look. A futex wakes whom it likes of those that sleep. A
chunk runs at the last moment, when it is reported. States that differ in nothing that any step will
ask for are one.
`FLAWS` are changes that make the protocol wrong, to see that the exploration would notice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

FLAWS = (
    "ticket first",
    "ticket without number",
    "claim without look",
    "epoch after work",
    "stop unannounced",
    "no mark",
    "sleep without check",
    "leave early",
    "one side",
)


class ProtocolError(AssertionError):
    """Something that must not happen, happens in some order of steps."""


class Thread(NamedTuple):
    """Where a thread is, and what it has read."""

    at: str
    seen: int = 0
    ticket: tuple[int, int, int] = (0, 0, 0)
    body: int = -1
    chunks: int = 0


class State(NamedTuple):
    """The context's words, the loop that the caller is in, the chunks that ran, and the threads, of
    which the first is the caller.
    """

    threads: tuple[Thread, ...]
    loop: int = 0
    body: int = -1
    chunks: int = 0
    ticket: tuple[int, int, int] = (0, 0, 0)
    epoch: int = 0
    sleepers: int = 0
    finished: int = 0
    asleep: bool = False
    stop: bool = False
    ran: frozenset[int] = frozenset()

    def move(self, who: int, at: str, /, **changes: object) -> State:
        """The state after the thread went on to another place; changes of its own start with `my_`,
        others are of the context.
        """
        own = {name[3:]: value for name, value in changes.items() if name.startswith("my_")}
        shared = {name: value for name, value in changes.items() if not name.startswith("my_")}
        thread = self.threads[who]._replace(at=at, **own)
        threads = (*self.threads[:who], thread, *self.threads[who + 1 :])
        return self._replace(threads=threads, **shared)


@dataclass(frozen=True)
class Protocol:
    """Loops of so many chunks each, run by a caller and workers."""

    loops: Sequence[int]
    workers: int
    flaw: str | None = None

    def explore(self) -> int:
        """Goes through all states that can be reached; returns their number.

        Raises ProtocolError where a chunk does not run exactly once and within its loop, or where
        all wait for each other.
        """
        start = State((Thread("publish"), *[Thread("look")] * self.workers))
        reached, left = {start}, [start]
        while left:
            state = left.pop()
            following = [self._ordered(each) for each in self._steps(state)]
            if not following and any(thread.at != "end" for thread in state.threads):
                raise ProtocolError(f"all wait for each other: {state}")
            for each in following:
                if each not in reached:
                    reached.add(each)
                    left.append(each)
        return len(reached)

    def _ordered(self, state: State) -> State:
        """The one state that stands for all that are like it: workers that have changed places,
        and what was read for a claim that has to fail, since no ticket comes back.
        """
        caller, *workers = state.threads
        if self.flaw not in ("ticket without number", "claim without look"):
            caller, *workers = (_forget(each, state.ticket) for each in state.threads)
        return state._replace(threads=(caller, *sorted(workers)))

    def _steps(self, state: State) -> Iterator[State]:
        for who, thread in enumerate(state.threads):
            step = getattr(self, f"_{thread.at}", None)
            if step is not None:
                yield from step(state, who)

    # The caller

    def _publish(self, state: State, who: int) -> Iterator[State]:
        first = "open" if self.flaw == "ticket first" else "describe"
        yield state.move(who, first, finished=0, asleep=False)

    def _describe(self, state: State, who: int) -> Iterator[State]:
        yield state.move(who, "describe_size", body=state.loop)

    def _describe_size(self, state: State, who: int) -> Iterator[State]:
        then = "announce" if self.flaw == "ticket first" else "open"
        yield state.move(who, then, chunks=self.loops[state.loop])

    def _open(self, state: State, who: int) -> Iterator[State]:
        number = 0 if self.flaw == "ticket without number" else state.ticket[0] + 1
        then = "describe" if self.flaw == "ticket first" else "announce"
        yield state.move(who, then, ticket=(number, self.loops[state.loop], 0))

    def _announce(self, state: State, who: int) -> Iterator[State]:
        yield state.move(who, "look_for_sleepers", epoch=state.epoch + 1)

    def _look_for_sleepers(self, state: State, who: int) -> Iterator[State]:
        yield state.move(who, "wake_workers" if state.sleepers else "claim")

    def _wake_workers(self, state: State, who: int) -> Iterator[State]:
        yield from self._wake(state.move(who, "claim"), "asleep", self.loops[state.loop] - 1)

    def _wait(self, state: State, who: int) -> Iterator[State]:
        """Looks whether all chunks are finished, as spinning does."""
        done = state.finished == self.loops[state.loop] or self.flaw == "leave early"
        yield self._leave(state, who) if done else state.move(who, "mark")

    def _mark(self, state: State, who: int) -> Iterator[State]:
        if state.finished == self.loops[state.loop]:
            yield self._leave(state, who)
        else:
            marks = self.flaw != "no mark"
            yield state.move(who, "fall_asleep", asleep=marks, my_seen=state.finished)

    def _fall_asleep(self, state: State, who: int) -> Iterator[State]:
        """The futex compares before it puts the caller to sleep."""
        same = state.finished == state.threads[who].seen or self.flaw == "sleep without check"
        yield state.move(who, "asleep_for_chunks" if same else "mark")

    def _leave(self, state: State, who: int) -> State:
        if len(state.ran) < self.loops[state.loop]:
            raise ProtocolError(f"a loop is left before its chunks have run: {state}")
        last = state.loop + 1 == len(self.loops)
        then = "stop" if last else "publish"
        return state.move(who, then, loop=state.loop + 1, ran=frozenset[int](), my_seen=0)

    def _stop(self, state: State, who: int) -> Iterator[State]:
        yield state.move(who, "announce_stop", stop=True)

    def _announce_stop(self, state: State, who: int) -> Iterator[State]:
        announced = 0 if self.flaw == "stop unannounced" else 1
        yield state.move(who, "wake_all", epoch=state.epoch + announced)

    def _wake_all(self, state: State, who: int) -> Iterator[State]:
        yield from self._wake(state.move(who, "end"), "asleep", self.workers)

    # Caller and workers

    def _claim(self, state: State, who: int) -> Iterator[State]:
        if state.ticket[1]:
            yield state.move(who, "read", my_ticket=state.ticket)
        else:
            yield state.move(who, "rest" if who else "wait")

    def _read(self, state: State, who: int) -> Iterator[State]:
        yield state.move(who, "read_size", my_body=state.body)

    def _read_size(self, state: State, who: int) -> Iterator[State]:
        yield state.move(who, "take", my_chunks=state.chunks)

    def _take(self, state: State, who: int) -> Iterator[State]:
        """Compare and swap: nothing where the ticket has changed."""
        ticket = state.threads[who].ticket
        if state.ticket == ticket or self.flaw == "claim without look":
            number, left, taken = state.ticket
            taken += who == 0
            yield state.move(who, "report", ticket=(number, max(left - 1, 0), taken))
        else:
            yield state.move(who, "claim", **_NOTHING_READ)

    def _report(self, state: State, who: int) -> Iterator[State]:
        """Has run the chunk, and says so."""
        thread = state.threads[who]
        chunk = self._chunk(thread, who)
        if thread.body != state.loop or not 0 <= chunk < self.loops[state.loop]:
            raise ProtocolError(f"a chunk of another loop runs: {state}")
        if chunk in state.ran:
            raise ProtocolError(f"a chunk runs twice: {state}")
        last = state.asleep and state.finished == thread.chunks - 1
        yield state.move(
            who, "wake_caller" if last else "claim",
            finished=state.finished + 1, ran=state.ran | {chunk}, **_NOTHING_READ,
        )  # fmt: skip

    def _chunk(self, thread: Thread, who: int) -> int:
        """The one that a ticket gives: the caller goes up from the first, workers from behind its
        share, and both go on from the other's end.
        """
        _, left, taken = thread.ticket
        chunks, others = thread.chunks, thread.chunks - left - taken
        if self.flaw == "one side":
            return others if who else taken
        share = -(-chunks // (self.workers + 1))
        if who == 0:
            return taken if taken < share else chunks - 1 - (taken - share)
        return share + others if share + others < chunks else chunks - 1 - others

    def _wake_caller(self, state: State, who: int) -> Iterator[State]:
        yield from self._wake(state.move(who, "claim"), "asleep_for_chunks", 1)

    # The workers

    def _look(self, state: State, who: int) -> Iterator[State]:
        yield state.move(who, "look_for_end", my_seen=state.epoch)

    def _look_for_end(self, state: State, who: int) -> Iterator[State]:
        yield state.move(who, "end" if state.stop else "claim")

    def _rest(self, state: State, who: int) -> Iterator[State]:
        """Looks for a new epoch, as spinning does."""
        if self.flaw == "epoch after work":
            yield state.move(who, "register", my_seen=state.epoch)
        elif state.epoch != state.threads[who].seen:
            yield state.move(who, "look", my_seen=0)
        else:
            yield state.move(who, "register")

    def _register(self, state: State, who: int) -> Iterator[State]:
        yield state.move(who, "fall_asleep_for_work", sleepers=state.sleepers + 1)

    def _fall_asleep_for_work(self, state: State, who: int) -> Iterator[State]:
        same = state.epoch == state.threads[who].seen
        yield state.move(who, "asleep" if same else "get_up")

    def _get_up(self, state: State, who: int) -> Iterator[State]:
        yield state.move(who, "look", sleepers=state.sleepers - 1, my_seen=0)

    def _wake(self, state: State, place: str, most: int) -> Iterator[State]:
        """Wakes as many sleepers as there are, at most so many, whichever."""
        there = [who for who, thread in enumerate(state.threads) if thread.at == place]
        then = "get_up" if place == "asleep" else "mark"
        for chosen in combinations(there, min(most, len(there))):
            after = state
            for who in chosen:
                after = after.move(who, then)
            yield after


_NOTHING_READ: dict[str, object] = {"my_ticket": (0, 0, 0), "my_body": -1, "my_chunks": 0}


def _forget(thread: Thread, ticket: tuple[int, int]) -> Thread:
    if thread.at in ("read", "read_size", "take") and thread.ticket != ticket:
        return thread._replace(ticket=(0, 0, 0), body=-1, chunks=0)
    return thread
