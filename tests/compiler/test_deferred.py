"""Dataclasses whose methods are made when they are first called are like any others."""

import dataclasses
import inspect
import sys
from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any

import pytest

from weft.compiler.deferred import quicker_dataclasses

pytestmark = pytest.mark.skipif(
    sys.version_info >= (3, 13), reason="all methods of a class are compiled at once"
)


def definitions() -> list[Any]:
    """Classes of several kinds, some derived from others."""

    @dataclass(frozen=True)
    class Point:
        x: int
        y: int = 0
        names: list[str] = field(default_factory=list[str], compare=False)

    @dataclass(frozen=True)
    class Solid(Point):
        z: int = 7

    @dataclass(order=True, slots=True)
    class Counted:
        count: int
        text: str = field(default="", repr=False)

    @dataclass(unsafe_hash=True)
    class Changeable:
        value: object

    return [Point, Solid, Counted, Changeable]


def seen(classes: list[Any]) -> list[Any]:
    """What can be seen of instances."""
    found: list[Any] = []
    for each in classes:
        one, same, other = each(1), each(1), each(2)
        found += [one == same, one == other, one == 1, one != other, repr(one)]
        found += [hash(one) == hash(same)] if each.__hash__ else [each.__hash__]
        found += [each.__eq__.__qualname__, each.__eq__.__name__, each.__match_args__]
        found += [[(f.name, f.default is dataclasses.MISSING) for f in dataclasses.fields(one)]]
    point, solid, counted, changeable = classes
    found += [point(1) == solid(1), solid(1) == solid(1, 0), solid(1) == solid(1, 0, z=8)]
    found += [counted(1) < counted(2), sorted([counted(3), counted(2)])[0].count]
    found += [{point(1): "a"}[point(1)], dataclasses.replace(solid(1), y=3).y]
    both = changeable(None)
    both.value = both
    return [*found, repr(both)]


def is_deferring() -> bool:
    """Whether a class that is defined now has a method that is made later."""
    return file_of_eq(definitions()[0]) != "<string>"


def file_of_eq(each: Any) -> str:
    return each.__eq__.__code__.co_filename


def test_methods_that_are_made_later_do_the_same():
    plain = seen(definitions())
    with quicker_dataclasses():
        classes = definitions()
    assert not is_deferring()
    assert file_of_eq(classes[0]) != "<string>"  # it is not made yet
    assert seen(classes) == plain
    assert file_of_eq(classes[0]) == "<string>"
    assert seen(classes) == plain


def test_frozen_classes_refuse_changes():
    with quicker_dataclasses():
        point, solid, *_ = definitions()
    for _ in range(2):
        for made in (point(1), solid(1)):
            with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
                made.x = 2
            with pytest.raises(FrozenInstanceError, match="cannot delete field 'y'"):
                del made.y
            assert (made.x, made.y) == (1, 0)


def test_within_another_the_outer_one_ends():
    with quicker_dataclasses():
        with quicker_dataclasses():
            pass
        assert is_deferring()
    assert not is_deferring()


def test_all_else_of_inspect_is_there():
    with quicker_dataclasses():
        seen_by_dataclasses = vars(dataclasses)["inspect"]
        assert seen_by_dataclasses is not inspect
        assert seen_by_dataclasses.get_annotations is inspect.get_annotations
    assert vars(dataclasses)["inspect"] is inspect
