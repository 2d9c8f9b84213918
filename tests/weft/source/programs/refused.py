"""Programs that cannot be compiled: the line that is refused says why, and the next way out.

`#: rule | advice` marks the line, with parts of the message.
"""

# ruff: noqa: SIM108, RET503  what users write
import random
import sys
import time

import numpy as np

from weft import Spec

TABLE = [1.0, 2.0]
CALLS = {"count": 0}


class Model:
    def __init__(self):
        self.steps = 0

    def forward(self, x):
        self.steps += 1  #: an object that this call has made | return the new value
        return x


MODEL = Model()


def one_way_defines(x):
    if x.sum() > 0:
        y = x
    return y  #: a value on every way | give y a value before


def ranks_differ(x):
    if x.sum() > 0:  #: one dtype and rank | same axes
        y = x
    else:
        y = x.sum()
    return y


def dtypes_differ(x):
    if x.sum() > 0:  #: one dtype and rank | astype
        y = x
    else:
        y = x.astype(np.float32)
    return y


def number_or_array(x):
    if x.sum() > 0:  #: one dtype and rank | np.full
        y = x
    else:
        y = 0.0
    return y


def text_differs(x):
    return "up" if x.sum() > 0 else "down"  #: a tensor or number | known while compiling


def nothing_or_tensor(x):
    y = None
    for i in range(len(x)):  #: a tensor or number | before the loop
        y = x[i]
        if y > 3:
            break
    return y


def returns_on_one_way(x):  #: a value on every way | end with a return
    if x.sum() > 0:
        return x


def raises_within_try(x):
    try:
        if x.sum() < 0:
            raise ValueError("negative")  #: known while compiling | check the arguments
    except ValueError:
        return -x
    return x


def _failing(text):
    raise ValueError(text)


def raises_on_both_ways(x):
    return _failing("up") if x.sum() < 0 else _failing("down")  #: a way that ends without an error


def raises_in_every_iteration(x):
    for i in range(int(x.sum())):  #: raise in a loop requires a condition
        x = x + 1
        raise ValueError(i)
    return x


def looks_for_errors(x):
    with np.errstate(divide="raise"):  #: raise nothing | trap_nan
        return 1 / x


def shows_tensor_in_assert(x):
    assert x.sum() > 0, f"{x} is small"  #: an assert requires numbers | print the tensor
    return x


def prints_elsewhere(x):
    print(x, file=sys.stderr)  #: the standard output | leave file out
    return x


def prints_filled_list(x):
    found = []
    for i in range(len(x)):
        found.append(x[i])
    print(found)  #: whose form is known while compiling | np.stack
    return np.stack(found)


def lengths_differ(x):
    found = []
    if x.sum() > 0:  #: one length | an array of the greatest length
        found.append(x)
    return np.stack(found)


def filters_elements(x):
    return [value for value in x if value > 0]  #: known while compiling | x[mask]


def loops_without_end(x):
    n = 0
    while n >= 0:
        n += 1  #: at most | loops of the graph
    return x


def recursion_on_tensor(n):
    return 1 if n <= 1 else n * recursion_on_tensor(n - 1)  #: a depth | max_recursion


def changes_argument(x):
    x[0] = 0.0  #: one that this call has made | x.copy()
    return x


def changes_argument_in_place(x):
    x += 1  #: one that this call has made | x.copy()
    return x


def changes_global_list(x):
    TABLE.append(x)  #: one that this call has made | list(x)
    return x


def changes_global_dict(x):
    CALLS["count"] += 1  #: one that this call has made | dict(x)
    return x


def assigns_global(x):
    global CALLS  #: statements that it knows | return the value
    CALLS = {}
    return x


def assigns_attribute(x):
    return MODEL.forward(x)


def stale_view(x):
    x = x.copy()
    rows = np.broadcast_to(x, (2, 4))
    x[2] = 5.0
    return rows * 2  #: the array stays as it is | .copy()


def changes_transposed(x):
    x = x.copy()
    turned = x.reshape(2, -1)[::-1].reshape(-1)
    turned[0] = 1.0  #: which part of the array it is | x.copy()
    return x


def yields(x):  #: results require values | list(...) of it?
    yield x


def uses_with(x):
    with memoryview(b"1"):  #: whose source can be read | around the call
        return x


def defines_class(x):
    class Pair:  #: statements that it knows | outside of the compiled function
        pass

    return Pair()


def draws_numbers(x):
    return x * random.random()  #: same answer every time | hand in


def draws_arrays(x):
    return x + np.random.normal(size=3)  #: same answer every time | hand in


def looks_at_clock(x):
    start = time.time()  #: same answer every time | hand in
    return x + start


def indexes_objects(x):
    names = ["a", "b", "c"]
    return names[x.argmax()]  #: a tensor, or a list of them | stack the elements


def keys_of_tensors(x):
    return {x.sum(): 1.0}  #: a key requires to be known


def sorts_list(x):
    values = [x[0], x[1]]
    values.sort()  #: elements that are known | np.sort
    return values[0]


def compares_arrays(x):
    if x > 0:  #: one element | np.any
        return x
    return -x


def unknown_function(x):
    return np.require(x)  #: functions of NumPy that it knows


def unknown_method(x):
    return x.byteswap()  #: an attribute that source mode knows


def formats_tensor(x):
    return f"{x.sum():.3f}".rjust(9)  #: to be printed as it is | one f-string


def returns_text(x):  #: a result requires tensors | print it
    return f"{x.sum():.3f}"


def formats_array(x):
    print(f"{x:.3f}")  #: a format requires one number | without one
    return x


def looks_into_filled_list(x):
    found = [x[0]]
    for i in range(1, len(x)):
        found.append(found[-1] + x[i])  #: to append to a list alone | a variable of its own
    return np.stack(found)


def two_in_a_round(x):
    found = []
    for i in range(len(x)):  #: one new element | a list each
        found.append(x[i])
        found.append(-x[i])
    return np.stack(found)


def comprehends_rows(x):
    return [value * 2 for value in x]  #: how many elements there are | for statement


def changes_rows(x):
    y = x[:1]
    for i in range(len(x)):  #: one dtype and rank
        y = y[None] + x[i]
    return y


def wrong_arguments(x):
    def add(a, b):
        return a + b

    return add(x)  #: add requires arguments (a, b)


def mismatched(x):
    return x @ np.ones((7, 2))  #: matmul


def compares_text(x):
    return x if str(x[0]) == "1.0" else -x  #: printed as it is | f-string


def looks_for_text(x):
    return x if "1" in f"{x[0]}" else -x  #: printed as it is | f-string


def reads_text(x):
    return x * float(f"{x[0]}")  #: printed as it is | f-string


def looks_up_text(x):
    return x * {"1.0": 2.0}.get(str(x[0]), 3.0) * {str(x[0]): 1.0}["1.0"]  #: printed as it is


_x = np.arange(1.0, 5.0)

PROGRAMS = [
    (each, _x)
    for each in (
        one_way_defines, ranks_differ, dtypes_differ, number_or_array, text_differs,
        returns_on_one_way, raises_within_try, raises_on_both_ways, raises_in_every_iteration,
        looks_for_errors, shows_tensor_in_assert, prints_elsewhere,
        lengths_differ, filters_elements, loops_without_end, changes_argument,
        changes_argument_in_place, changes_global_list, changes_global_dict, assigns_global,
        assigns_attribute, stale_view, changes_transposed, yields, uses_with, defines_class,
        draws_numbers, draws_arrays, looks_at_clock, indexes_objects, keys_of_tensors, sorts_list,
        compares_arrays, unknown_function, unknown_method, formats_tensor, returns_text,
        formats_array,        wrong_arguments, mismatched, compares_text,
        looks_for_text, reads_text, looks_up_text,
    )
]  # fmt: skip
_rows = Spec("float64", ("rows",))

PROGRAMS += [
    (recursion_on_tensor, np.int64(5)),
    (nothing_or_tensor, _rows),
    (looks_into_filled_list, _rows),
    (two_in_a_round, _rows),
    (prints_filled_list, _rows),
    (comprehends_rows, _rows),
    (changes_rows, _rows),
]
