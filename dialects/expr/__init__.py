"""Integer expressions: the dims of tensors, the sizes of buffers,
the bounds of loops and the subscripts of accesses.

An `Expr` is a polynomial with integer coefficients over atoms. Atoms are named sizes (`Symbol`),
the n-th index operand of the operation that carries the expression (`Operand`), floor quotients,
remainders, maxima and minima of expressions, and, while a pass works on them, SSA values of index
type. Sums and products are kept in one canonical form, so that `batch*seq + seq*batch` is
`2*batch*seq` and equality is structural.

Symbols stand for sizes: they are never negative.
"""

from weft.dialects.expr.atoms import Extremum, Operand, Quotient, Remainder, Symbol
from weft.dialects.expr.equalities import Equalities
from weft.dialects.expr.functions import (
    maximum,
    minimum,
    product,
    row_major_strides,
    sum_of,
    sum_of_products,
)
from weft.dialects.expr.polynomial import Expr, ExprLike, forget_expressions
from weft.dialects.expr.terms import Atom, Monomial

__all__ = [
    "Atom", "Equalities", "Expr", "ExprLike", "Extremum", "Monomial", "Operand", "Quotient",
    "Remainder", "Symbol", "forget_expressions", "maximum", "minimum", "product",
    "row_major_strides", "sum_of", "sum_of_products",
]  # fmt: skip
