"""Functions of the array API standard of each element: graph operators on weft's tensors, NumPy's
own on arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from weft.array.composites import composite, leader
from weft.array.operators import ArrayOperators, common_dtype, is_number

_python: Any = operator  # whose functions have no types


def lifted(first: Any, operand: Any, like: Any = None) -> Any:
    """The operand as a tensor of the kind of `first`; a number takes the dtype of `like`."""
    if not is_number(operand):
        return first.lifted(operand)
    return (first if like is None else like).number(operand)


def alike(first: Any, *others: Any) -> bool:
    """Whether all are tensors of one type and dtype."""
    if not isinstance(first, ArrayOperators):
        return False
    array_type, dtype = type(first), first.dtype
    for each in others:  # noqa: SIM110  a generator takes as long as the operator
        if type(each) is not array_type or each.dtype != dtype:
            return False
    return True


def _unary(name: str, of_numpy: Callable[[Any], Any], floats: bool = False) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        if not isinstance(x, ArrayOperators):
            return of_numpy(x)
        return x.as_float().apply(name) if floats else x.apply(name)

    function.__name__ = name
    function.__doc__ = f"`{name}` of each element."
    return function


def _binary(name: str, of_numpy: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def function(x: Any, y: Any) -> Any:
        if (type(y) is type(x) or type(y) in (float, int)) and isinstance(x, ArrayOperators):
            return x.apply(name, y)
        first = leader(x, y)
        if first is None:
            return of_numpy(x, y)
        like = y if isinstance(y, ArrayOperators) else None
        return lifted(first, x, like).apply(name, y)

    function.__name__ = name
    function.__doc__ = f"`{name}` of the elements of two arrays, broadcast to each other."
    return function


def _whole(name: str, of_numpy: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        if not isinstance(x, ArrayOperators):
            return of_numpy(x)
        return x if x.dtype.kind in "biu" else x.apply(name)

    function.__name__ = name
    function.__doc__ = f"`{name}` of each element; integers stay as they are."
    return function


def _logical(name: str, of_numpy: Callable[..., Any]) -> Callable[..., Any]:
    def function(*operands: Any) -> Any:
        first = leader(*operands)
        if first is None:
            return of_numpy(*operands)
        bools = [first.lifted(each).astype(np.bool_) for each in operands]
        return leader(*bools).op(name, *bools)

    function.__name__ = name
    function.__doc__ = f"`{name}` of elements, of which all but zeros are true."
    return function


def _operator_of_one(apply: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        return apply(x)

    function.__name__ = name
    function.__doc__ = f"`{name}` of each element."
    return function


def _number(name: str) -> Callable[[Any], Any]:
    return lambda x: getattr(np, name)(x)


exp, log, sqrt, sin, cos, tan = (
    _unary(name, _number(name), True) for name in ("exp", "log", "sqrt", "sin", "cos", "tan")
)
sinh, cosh, tanh, expm1, log1p = (
    _unary(name, _number(name), True) for name in ("sinh", "cosh", "tanh", "expm1", "log1p")
)
asin, acos, atan, asinh, acosh, atanh = (
    _unary(name, _number(f"arc{name[1:]}"), True)
    for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")
)
floor, ceil, round = (_whole(name, _number(name)) for name in ("floor", "ceil", "round"))
sign = _unary("sign", np.sign)
abs, negative = _operator_of_one(_python.abs, "abs"), _unary("neg", np.negative)
bitwise_invert = _operator_of_one(_python.invert, "bitwise_invert")
positive = _operator_of_one(_python.pos, "positive")
_inverse = _unary("reciprocal", np.reciprocal)
isnan = _unary("is_nan", np.isnan, True)
add, subtract = _binary("add", np.add), _binary("sub", np.subtract)
multiply = _binary("mul", np.multiply)
maximum, minimum = _binary("max", np.maximum), _binary("min", np.minimum)
pow = _binary("pow", np.power)
matmul = _binary("matmul", np.matmul)
matmul.__doc__ = "Products of matrices, of stacks of them, broadcast to each other, and of vectors."
equal, less, greater = (
    _binary(name, _numpy) for name, _numpy in
    (("equal", np.equal), ("less", np.less), ("greater", np.greater))
)  # fmt: skip
less_equal, greater_equal = (
    _binary(name, _numpy) for name, _numpy in
    (("less_equal", np.less_equal), ("greater_equal", np.greater_equal))
)  # fmt: skip
logical_not = _logical("logical_not", np.logical_not)
logical_and, logical_or = (_logical(f"logical_{name}", getattr(np, f"logical_{name}"))
                           for name in ("and", "or"))  # fmt: skip
logical_xor = _logical("logical_xor", np.logical_xor)


def _operator(apply: Callable[[Any, Any], Any], name: str) -> Callable[[Any, Any], Any]:
    def function(x: Any, y: Any) -> Any:
        return apply(x, y)

    function.__name__ = name
    function.__doc__ = f"`{name}` of the elements of two arrays, broadcast to each other."
    return function


divide = _operator(_python.truediv, "divide")
floor_divide = _operator(_python.floordiv, "floor_divide")
remainder = _operator(_python.mod, "remainder")
not_equal = _operator(_python.ne, "not_equal")
bitwise_and = _operator(_python.and_, "bitwise_and")
bitwise_or = _operator(_python.or_, "bitwise_or")
bitwise_xor = _operator(_python.xor, "bitwise_xor")
bitwise_left_shift = _operator(_python.lshift, "bitwise_left_shift")
bitwise_right_shift = _operator(_python.rshift, "bitwise_right_shift")


def reciprocal(x: Any) -> Any:
    """One over each element; of integers rounded towards zero, as NumPy has it."""
    if isinstance(x, ArrayOperators) and x.dtype.kind in "iu":
        found = (x == 1).astype(x.dtype)
        return found - (x == -1).astype(x.dtype) if x.dtype.kind == "i" else found
    return _inverse(x)


def square(x: Any) -> Any:
    """Each element times itself; bools count as int8."""
    return x * (x.astype(np.int8) if isinstance(x, ArrayOperators) and x.dtype == np.bool_ else x)


def isinf(x: Any) -> Any:
    """Whether each element is infinite."""
    if not isinstance(x, ArrayOperators):
        return np.isinf(x)
    return x.as_float().apply("is_inf", negative=True, positive=True)


def isfinite(x: Any) -> Any:
    """Whether each element is neither infinite nor NaN."""
    if not isinstance(x, ArrayOperators):
        return np.isfinite(x)
    return composite(_isfinite, x)


def _isfinite(x: Any) -> Any:
    return logical_not(logical_or(isnan(x), isinf(x)))


_choose: Any = np.where
_BOOL: Final = np.dtype(np.bool_)


def root_of_sums(total: Any, order: float = 2) -> Any:
    """`total ** (1 / order)` of sums of powers of distances. Where all distances are 0 it is least,
    and its derivative 0, as that of `graph.reduce_l2`: the chain rule alone gives `inf * 0` there.
    """
    if not isinstance(total, ArrayOperators):
        return total ** (1.0 / order)
    flat = total == 0
    above = where(flat, 1.0, total)
    return where(flat, total, sqrt(above) if order == 2 else above ** (1.0 / order))


def where(condition: Any, x: Any, y: Any) -> Any:
    """Elements of `x` where the condition holds, else of `y`."""
    if isinstance(condition, ArrayOperators):
        array_type = type(condition)
        if type(x) is not type(y):
            if type(y) is array_type and is_number(x):
                x = y.number(x)
            elif type(x) is array_type and is_number(y):
                y = x.number(y)
        if type(x) is type(y) is array_type and x.dtype == y.dtype and condition.dtype == _BOOL:
            return condition.op("where", condition, x, y)
    first = leader(condition, x, y)
    if first is None:
        return _choose(condition, x, y)
    like = next((each for each in (x, y) if isinstance(each, ArrayOperators)), None)
    if like is None:
        then, otherwise = first.constant(x), first.constant(y)
    else:
        then, otherwise = (lifted(first, each, first.lifted(like)) for each in (x, y))
    common = common_dtype(then.promoting, otherwise.promoting)
    held = first.lifted(condition).astype(np.bool_)
    return first.op("where", held, then.astype(common), otherwise.astype(common))


def clip(x: Any, min: Any = None, max: Any = None) -> Any:
    """The elements brought between two bounds."""
    if min is None or max is None:
        bounded = x if min is None else maximum(x, min)
        return bounded if max is None else minimum(bounded, max)
    if isinstance(x, ArrayOperators):
        numbers = x.numbers
        if type(min) in numbers and type(max) in numbers:
            return x.composed(_between, (x, x.number(min), x.number(max)), {})
    return _between(x, min, max)


def _between(x: Any, low: Any, high: Any) -> Any:
    return minimum(maximum(x, low), high)
