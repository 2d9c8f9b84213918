"""Batches of data, made ready by another thread while a step runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from queue import Full, Queue
from threading import Event, Thread
from typing import Any

import numpy as np

from weft.dialects.weights import Array
from weft.trees import leaves_of, tree_map

_POLL = 0.1
"""Seconds after which a thread looks whether it is still wanted."""


class DataLoader:
    """Batches of an array, or a tuple or dict of arrays, whose first axis counts examples; or of a
    list, or another sequence, of such trees, an example each. A further walk through a loader with
    `shuffle` has another order, which the seed decides. `transform` is applied to each batch, by
    the thread that makes up to `prefetch` batches ready; with 0 there is none.
    """

    def __init__(
        self,
        data: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        transform: Callable[[Any], Any] | None = None,
        prefetch: int = 2,
    ):
        self.data, self.batch_size, self.shuffle = data, batch_size, shuffle
        self.seed, self.drop_last, self.transform = seed, drop_last, transform
        self.prefetch, self.epoch = prefetch, 0
        self._of_arrays = isinstance(data, np.ndarray | tuple | dict)

    @property
    def examples(self) -> int:
        """How many there are."""
        return len(leaves_of(self.data)[0]) if self._of_arrays else len(self.data)

    def __len__(self) -> int:
        count, rest = divmod(self.examples, self.batch_size)
        return count + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[Any]:
        order: Array = np.arange(self.examples)
        if self.shuffle:
            order = np.random.default_rng((self.seed, self.epoch)).permutation(order)
        self.epoch += 1
        starts = range(0, len(self) * self.batch_size, self.batch_size)
        rows = [order[start : start + self.batch_size] for start in starts]
        if not self.prefetch:
            return map(self._batch, rows)
        return _prefetched(self._batch, rows, self.prefetch)

    def _batch(self, rows: Array) -> Any:
        if self._of_arrays:
            batch = tree_map(lambda each: each[rows], self.data)
        else:
            first, *others = [self.data[int(row)] for row in rows]
            columns = [leaves_of(each) for each in others]
            counted = iter(range(len(leaves_of(first))))

            def stacked(leaf: Any) -> Array:
                position = next(counted)
                return np.stack([leaf, *(each[position] for each in columns)])

            batch = tree_map(stacked, first)
        return batch if self.transform is None else self.transform(batch)


def _prefetched(make: Callable[[Any], Any], rows: Sequence[Any], count: int) -> Iterator[Any]:
    """What is made of each, up to so many of them ahead, by a thread. Its errors are raised here;
    it ends when nobody asks any more.
    """
    ready: Queue[tuple[Any, BaseException | None]] = Queue(count)
    ended = Event()

    def work() -> None:
        for each in rows:
            try:
                item = make(each), None
            except BaseException as error:
                item = None, error
            while not ended.is_set():
                try:
                    ready.put(item, timeout=_POLL)
                    break
                except Full:
                    continue
            if ended.is_set() or item[1] is not None:
                return

    thread = Thread(target=work, name="weft-data", daemon=True)
    thread.start()
    try:
        for _ in rows:
            batch, error = ready.get()
            if error is not None:
                raise error
            yield batch
    finally:
        ended.set()
        thread.join()
