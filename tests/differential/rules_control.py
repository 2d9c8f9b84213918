"""Rules: loops and branches, as functions and as statements, and stores to parts of arrays."""
# ruff: noqa: E501  (a template or a table row is one line)

from __future__ import annotations

from collections.abc import Sequence

from tests.differential.writer import Rule, Unfit, Value, Writer

DEEPEST = 2


MOST_INNER = 9
"""Rounds of a loop in a loop: references go through them one by one."""


def _begin(w: Writer) -> None:
    if w.nesting >= DEEPEST:
        raise Unfit


def _end_of(w: Writer, state: Value) -> str:
    """A text of the state's type which the values inside decide, and which stays bounded."""
    inside = [each for each in w.values if each.name[0] == "v"][-4:]
    found = [each for each in inside if each.dtype == state.dtype and each.dims == state.dims]
    other = w.random.choice(found) if found else state
    text = w.random.choice(["{s} * 0.5 + wnp.tanh({o})", "wnp.sin({s} + {o})", "{s} - wnp.tanh({o}) * {s} * 0.3",
                            "wnp.tanh({s} * {o})", "{o} * 0.7", "wnp.where({o} > 0.0, {s} * 0.5, wnp.sin({o}))"])  # fmt: skip
    text = text.format(s=state, o=other)
    floats = [each for each in inside if each.dtype == state.dtype]
    if not floats or floats[-1] is other:
        return text
    fits = floats[-1].dims in (state.dims, state.dims[1:])
    return f"{text} + wnp.sin({floats[-1]}{'' if fits else '.sum()'}) * 0.5"


def _body(w: Writer, most: int = 2) -> None:
    for _ in range(w.random.randint(0, most)):
        w.grow()


def counted(w: Writer) -> Value:
    """`fori_loop` over one state."""
    _begin(w)
    state, name = w.floats(), w.name("body")
    inner, index = Value(w.name("s"), state.dtype, state.dims), Value(w.name("i"), "int64", ())
    w.line(f"def {name}({index}, {inner}):")
    with w.inner(inner):
        _body(w)
        w.line(f"return {_end_of(w, inner)}")
    low, high = w.random.choice([(0, 1), (0, 2), (0, 3), (1, 4), (0, 6), (0, 0)])
    return w.like(f"weft.fori_loop({low}, {high}, {name}, {state})", state)


def counted_pair(w: Writer) -> Value:
    """`fori_loop` over two states, which may change places."""
    _begin(w)
    state, name = w.floats(), w.name("body")
    other = w.beside(state, same=True)
    one, two = (Value(w.name("s"), state.dtype, state.dims) for _ in range(2))
    w.line(f"def {name}(i, pair):")
    with w.inner(one, two):
        w.line(f"{one}, {two} = pair")
        _body(w)
        ends = [
            _end_of(w, one),
            w.random.choice([str(one), _end_of(w, two), f"{two} * 0.5 + {one}"]),
        ]
        w.line(f"return {', '.join(w.random.sample(ends, 2))}")
    first, second = w.name("v"), w.name("v")
    w.line(
        f"{first}, {second} = weft.fori_loop(0, {w.random.choice([2, 3, 5])}, {name}, ({state}, {other}))"
    )
    w.values += [Value(each, state.dtype, state.dims) for each in (first, second)]
    return w.values[-1]


def scanned(w: Writer) -> Value:
    """`scan` over rows, which stacks what rounds give."""
    _begin(w)
    rows = w.pick(lambda each: each.is_float and each.rank > 0 and w.least(each.dims[0]) > 0)
    if w.nesting and max(size[0] for size in w.extents(rows.dims)) > MOST_INNER:
        raise Unfit
    state = w.floats()
    name = w.name("body")
    inner = Value(w.name("s"), state.dtype, state.dims)
    row = Value(w.name("r"), rows.dtype, rows.dims[1:])
    w.line(f"def {name}({inner}, {row}):")
    with w.inner(inner, row):
        _body(w)
        given = w.random.choice([each for each in w.values if each.is_float][-3:])
        if rows.dtype == state.dtype and w.random.random() < 0.7:
            w.line(f"return wnp.tanh({inner} * 0.8 + {row}.sum() * 0.3), {given} * 1.5")
        else:
            w.line(f"return {_end_of(w, inner)}, {given} * {given}")
    end, stack = w.name("v"), w.name("v")
    w.line(f"{end}, {stack} = weft.scan({name}, {state}, {rows})")
    w.values.append(Value(stack, given.dtype, (rows.dims[0], *given.dims)))
    w.values.append(Value(end, state.dtype, state.dims))
    return w.values[-1]


def picked_rows(w: Writer) -> Value:
    """`scan` over numbers of rows of the state."""
    _begin(w)
    state = w.pick(lambda each: each.is_float and each.rank > 1 and w.least(each.dims[0]) > 0)
    name, least = w.name("body"), w.least(state.dims[0])
    inner = Value(w.name("s"), state.dtype, state.dims)
    taken = Value(w.name("v"), state.dtype, state.dims[1:])
    w.line(f"def {name}({inner}, k):")
    with w.inner(inner):
        w.line(f"{taken} = wnp.take({inner}, k, 0)")
        w.values.append(taken)
        _body(w, 1)
        text = w.random.choice(
            ["{s} - {t}[None] * {s} * 0.3", "wnp.tanh({s} + {t}[None])", "{s} * 0.5 + wnp.sin({t})"]
        )
        w.line(f"return {text.format(s=inner, t=taken)}, {taken}.sum()")
    end, stack = w.name("v"), w.name("v")
    numbers = [w.random.randrange(least) for _ in range(w.random.choice([1, 2, 3]))]
    w.line(f"{end}, {stack} = weft.scan({name}, {state}, wnp.asarray(np.array({numbers})))")
    w.values.append(Value(stack, state.dtype, (len(numbers),)))
    w.values.append(Value(end, state.dtype, state.dims))
    return w.values[-1]


def repeated(w: Writer) -> Value:
    """`while_loop` whose number of rounds hangs on values."""
    _begin(w)
    state, test, body = w.floats(), w.name("test"), w.name("body")
    inner = Value(w.name("s"), state.dtype, state.dims)
    w.line(f"def {test}(pair):")
    w.line(f"    return (pair[0] < {w.random.choice([1, 3, 5])}) & (pair[1].sum() < 50.0)")
    w.line(f"def {body}(pair):")
    with w.inner(inner):
        w.line(f"number, {inner} = pair")
        _body(w)
        w.line(f"return number + 1, {_end_of(w, inner)}")
    return w.like(f"weft.while_loop({test}, {body}, (wnp.asarray(0), {state}))[1]", state)


def branched(w: Writer) -> Value:
    """`cond` on values."""
    _begin(w)
    x = w.floats()
    chooser, names = w.floats(), [w.name("then"), w.name("other")]
    for name in names:
        inner = Value(w.name("s"), x.dtype, x.dims)
        w.line(f"def {name}({inner}):")
        with w.inner(inner):
            _body(w)
            w.line(f"return {_end_of(w, inner)}")
    return w.like(f"weft.cond({chooser}.sum() > 0.1, {names[0]}, {names[1]}, {x})", x)


def switched(w: Writer) -> Value:
    """`switch` on an integer."""
    _begin(w)
    x = w.floats()
    names = [w.name("way") for _ in range(3)]
    for name in names:
        inner = Value(w.name("s"), x.dtype, x.dims)
        w.line(f"def {name}({inner}):")
        with w.inner(inner):
            _body(w, 1)
            w.line(f"return {_end_of(w, inner)}")
    chooser = w.floats()
    number = f"wnp.floor(wnp.abs({chooser}.sum()) * 2.0).astype(np.int64)"
    return w.like(f"weft.switch({number}, [{', '.join(names)}], {x})", x)


FUNCTIONS: Sequence[Rule] = (
    counted, counted, counted_pair, scanned, scanned, picked_rows, picked_rows, repeated, branched, branched, switched,
)  # fmt: skip


# Statements ---------------------------------------------------------------------------------------


def copied(w: Writer) -> Value:
    """An array of its own, which is stored to."""
    x = w.floats(low=1)
    value = w.like(f"{x}.copy()", x)
    w.values.remove(value)
    changing = Value("y" + value.name[1:], x.dtype, x.dims)
    w.lines[-1] = w.lines[-1].replace(f"{value} =", f"{changing} =")
    if w.nesting:  # a name that one way through the program has is none of another
        del w.lines[-1]
        raise Unfit
    w.changing.append(changing)
    w.values.append(changing)
    return changing


def _changing(w: Writer) -> Value:
    if not w.changing:
        return copied(w)
    return w.random.choice(w.changing)


def _index(w: Writer, y: Value) -> tuple[str, tuple[int | str, ...]]:
    if w.least(y.dims[0]) < 2:
        return ":", y.dims
    dim = y.dims[0]
    one_less = dim - 1 if isinstance(dim, int) else f"({dim} - 1)"
    text, first = w.random.choice(
        [("0", None), ("-1", None), ("1", None), ("1:", one_less), (":-1", one_less)]
    )
    return text, y.dims[1:] if first is None else (first, *y.dims[1:])


def stored(w: Writer) -> None:
    """A part of an array gets new values."""
    y = _changing(w)
    index, dims = _index(w, y)
    fits = w.fits(lambda each: each.dtype == y.dtype and each.dims in (dims, dims[1:], ()))
    value = w.random.choice(fits) if fits and w.random.random() < 0.7 else f"{y}[{index}] * 0.5"
    sign = w.random.choice(["=", "=", "+=", "*=", "-="])
    value = f"wnp.tanh({value})" if sign == "*=" else f"wnp.sin({value})"
    w.line(f"{y}[{index}] {sign} {value}")


def stored_masked(w: Writer) -> None:
    """Elements of which a condition holds get a number."""
    y = _changing(w)
    w.line(f"{y}[{y} > {w.random.choice([0.5, 1.0])}] = 0.25")


def stored_whole(w: Writer) -> None:
    """All of an array changes."""
    y = _changing(w)
    w.line(
        w.random.choice(
            [f"{y} *= 0.5", f"{y} = wnp.tanh({y} + {w.beside(y)})", f"{y} += {w.beside(y)} * 0.3"]
        )
    )


def loop(w: Writer) -> None:
    """Rounds that store to a row each."""
    _begin(w)
    y, index = _changing(w), w.name("i")
    rows = w.least(y.dims[0])
    if rows < 1:
        raise Unfit
    bound = w.random.choice([str(min(rows, 3)), str(y.dims[0]), f"{y}.shape[0]"])
    w.line(f"for {index} in range({bound}):")
    with w.inner():
        row = w.put(f"wnp.sin({y}[{index}])", y.dtype, y.dims[1:])
        _body(w, 1)
        text = w.random.choice([
            "{y}[{i}] = {r} * 0.5 + wnp.tanh({y}[{i} - 1])", "{y}[{i}] += {r}", "{y}[{i}] *= wnp.tanh({r})",
            "{y}[0] = {y}[0] * 0.5 + {r}", "{y} = {y} * 0.9 + {r} * 0.1", "{y}[-1] = wnp.tanh({y}[-1] - {r})",
        ])  # fmt: skip
        w.line(text.format(y=y, i=index, r=row))


def long_loop(w: Writer) -> None:
    """Many rounds, each of which changes the array."""
    _begin(w)
    y, index = _changing(w), w.name("i")
    w.line(f"for {index} in range({w.random.choice([9, 17, 30])}):")
    with w.inner():
        _body(w, 1)
        w.line(f"{y} = {y} * 0.8 + wnp.sin({y} + {index} * 0.1) * 0.1")
        stored(w)


def conditional(w: Writer) -> None:
    """One way or the other."""
    _begin(w)
    y, test = _changing(w), w.floats()
    w.line(f"if {test}.sum() > {w.random.choice([0.0, 0.5])}:")
    with w.inner():
        _body(w, 1)
        stored(w)
    if w.random.random() < 0.6:
        w.line("else:")
        with w.inner():
            _body(w, 1)
            w.line(f"{y} = wnp.sin({y}) * 0.9")


def while_(w: Writer) -> None:
    """As long as values are large."""
    _begin(w)
    y, number = _changing(w), w.name("k")
    w.line(f"{number} = 0")
    w.line(f"while {number} < {w.random.choice([3, 12])} and ({y} * {y}).sum() > 0.5:")
    with w.inner():
        w.line(f"{number} += 1")
        _body(w, 1)
        stored(w)
        w.line(f"{y} *= 0.7")


STATEMENTS: Sequence[Rule] = (
    copied, stored, stored, stored, stored_masked, stored_whole, stored_whole, loop, loop, long_loop, conditional,
    conditional, while_,
)  # fmt: skip
