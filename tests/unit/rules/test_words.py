"""Rules in words: there is a table for each rule and no other, and a rule's own condition is true to its code."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tables import each_row

import rltop.rules
from rltop.model import RECENT_LINES
from rltop.rules.profiles import PROFILES
from rltop.rules.registry import ALL_SPECS, FORMER, HOMES, NAMED
from rltop.rules.words import Words, public_logs, words_of

FOLDER = Path(rltop.rules.__file__).parent
OWN, SHARED, RARE = {"condition", "why"}, {"causes", "next", "sources"}, {"crit", "stays"}


@each_row("family", sorted(set(HOMES.values())))
def test_every_rule_of_a_family_has_a_table_and_nothing_else_has_one(family: str) -> None:
    written = tomllib.loads((FOLDER / f"{family}.toml").read_text())
    tables = {rule: fields for rule, fields in written.items() if isinstance(fields, dict)}
    assert list(tables) == [rule for rule, home in HOMES.items() if home == family]
    assert set(written) - set(tables) <= SHARED
    for rule, fields in tables.items():
        # A forgotten condition must not be that of the neighbours.
        assert OWN <= set(fields) <= OWN | SHARED | RARE == set(Words._fields), rule


def test_every_file_of_words_is_that_of_a_family() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} - {"chains", "diagnosis"} == set(HOMES.values())


def test_no_rule_has_the_id_that_another_had_once() -> None:
    taken = [rule for rule in NAMED if rule in FORMER]
    assert not taken, "its settings would go to the heir: take another number"


def test_words_are_texts_without_the_line_breaks_of_their_file() -> None:
    for spec in ALL_SPECS:
        words = words_of(spec.id)
        assert isinstance(words.condition, tuple), f"{spec.id}: condition is a list of clauses, not a text"
        for text in (*words.condition, words.why, words.sources, *words.causes, *words.next):
            assert text, spec.id
            assert text == " ".join(text.split()), spec.id


def test_what_is_no_rule_has_no_words() -> None:
    assert words_of("Z1") == Words()


def test_numbers_and_names_that_a_condition_repeats_are_those_of_the_code() -> None:
    assert f"last {RECENT_LINES} lines" in "".join(words_of("L7").condition)
    for profile in PROFILES.values():
        assert f"{profile.name}: {profile.about}" in words_of("F5").condition


def test_what_public_logs_have_shown_is_told_of_rules_that_there_are() -> None:
    found = public_logs()
    assert set(found) <= {spec.id for spec in ALL_SPECS}
    assert found["T1"].startswith("language models ")
    assert all(text.endswith("(repositories)") for text in found.values())
