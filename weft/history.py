"""The numbers of a training run, which notebooks show as curves."""

from __future__ import annotations

from collections.abc import Mapping

from weft.compiler import html


class History:
    """Numbers by name, one for each step.

    history = weft.History()
    for x, y in batches:
        history.add(loss=step(x, y))
    """

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {}

    def add(self, **numbers: float) -> None:
        """Adds a step. Tensors and arrays of one element are numbers, too; a name that comes later
        than others has NaN for the steps before, as has one that is left out.
        """
        steps = len(self)
        for name in (*self.values, *numbers):
            row = self.values.setdefault(name, [float("nan")] * steps)
            if len(row) == steps:
                row.append(float(numbers.get(name, float("nan"))))

    def __len__(self) -> int:
        return max(map(len, self.values.values()), default=0)

    def __repr__(self) -> str:
        last = ", ".join(f"{name}={row[-1]:.4g}" for name, row in self.values.items())
        return f"<weft.History of {len(self)} steps: {last}>" if last else "<weft.History, empty>"

    def _repr_html_(self) -> str:
        return _shown(self.values)


def _shown(values: Mapping[str, list[float]]) -> str:
    """A drawing for each name, whose numbers have scales of their own."""
    drawings = [html.curves({name: row}, "step") for name, row in values.items()]
    return f"<div>{''.join(drawings) or 'no steps'}</div>"
