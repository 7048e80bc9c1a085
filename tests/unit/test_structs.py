"""What classes of `rltop.structs` do, held against the standard library's own."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from rltop.structs import Struct, field, replace


class Pace(Struct):
    shortest_s: float
    longest_s: float = 9.0
    names: list[str] = field(default_factory=list)
    about: str = field(default="", repr=False, compare=False)


class Louder(Pace):
    level: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class PaceOfTheLibrary:
    shortest_s: float
    longest_s: float = 9.0
    names: list[str] = dataclasses.field(default_factory=list)
    about: str = dataclasses.field(default="", repr=False, compare=False)


class Counter(Struct, frozen=False):
    count: int = 0

    def __post_init__(self) -> None:
        self.count += 1


class Thread(Struct, frozen=False, eq=False):
    name: str


CALLS: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    ((1.0,), {}),
    ((1.0, 2.0), {}),
    ((1.0,), {"names": ["a"], "about": "b"}),
    ((), {"longest_s": 4.0, "shortest_s": 3.0}),
    ((), {}),
    ((1, 2, 3, 4, 5), {}),
    ((1.0,), {"shortest_s": 2.0}),
    ((1.0,), {"unknown": 2.0}),
)


@pytest.mark.parametrize(("values", "named"), CALLS)
def test_struct_takes_what_a_dataclass_takes(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    try:
        theirs = PaceOfTheLibrary(*values, **named)
    except TypeError:
        with pytest.raises(TypeError):
            Pace(*values, **named)
        return
    ours = Pace(*values, **named)
    assert repr(ours) == repr(theirs).replace("PaceOfTheLibrary", "Pace")
    assert {f.name: getattr(ours, f.name) for f in dataclasses.fields(theirs)} == dataclasses.asdict(theirs)


def test_every_instance_has_a_list_of_its_own() -> None:
    first, second = Pace(1.0), Pace(1.0)
    first.names.append("x")
    assert second.names == []


def test_structs_are_equal_by_the_fields_that_are_compared() -> None:
    assert Pace(1.0, about="a") == Pace(1.0, about="b")
    assert Pace(1.0) != Pace(2.0)
    assert Pace(1.0) != Louder(1.0)
    assert Thread("a") != Thread("a")
    assert len({Thread("a"), Thread("a")}) == 2
    assert Counter() == Counter()
    with pytest.raises(TypeError, match="unhashable"):
        hash(Counter())


def test_a_subclass_adds_fields_and_has_a_constructor_of_its_own() -> None:
    assert Pace(1.0).longest_s == 9.0
    louder = Louder(1.0, 2.0, level=3)
    assert (louder.shortest_s, louder.longest_s, louder.names, louder.level) == (1.0, 2.0, [], 3)
    assert Pace(5.0).shortest_s == 5.0


def test_a_struct_has_no_place_for_what_it_does_not_declare() -> None:
    with pytest.raises(AttributeError):
        Counter().other = 1  # type: ignore[attr-defined]


def test_post_init_runs_once_for_every_instance() -> None:
    assert [Counter().count, Counter(5).count] == [1, 6]


def test_replace_changes_a_copy() -> None:
    pace = Pace(1.0, names=["a"])
    assert replace(pace, shortest_s=2.0) == Pace(2.0, names=["a"])
    assert pace.shortest_s == 1.0
    with pytest.raises(TypeError):
        replace(pace, unknown=1)


@pytest.mark.parametrize("made", [Pace(1.0, names=["a"]), Louder(2.0)])
def test_copies_are_equal(made: object) -> None:
    for again in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert again == made
        assert type(again) is type(made)


def test_a_class_is_made_without_a_constructor() -> None:
    class Silent(Struct):
        a: int

    assert (first := Silent.__init__) is Struct.__init__
    assert Silent(1).a == 1
    assert Silent.__init__ is not first


def test_a_field_without_a_default_may_not_follow_one_with() -> None:
    class Wrong(Struct):
        a: int = 1
        b: int  # type: ignore[misc]

    with pytest.raises(TypeError, match=r"Wrong\.b"):
        Wrong(1, 2)
