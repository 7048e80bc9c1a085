"""What to say when no metrics are found."""

from __future__ import annotations

from rltop.trainers import SETUP_HINTS
from rltop.trainers.setup_hints import StreamKind


def test_every_trainer_is_named_once() -> None:
    names = [entry.trainer for entry in SETUP_HINTS]
    assert len(set(names)) == len(names)


def test_the_trainers_that_people_ask_for_are_there() -> None:
    names = {entry.trainer for entry in SETUP_HINTS}
    assert {"veRL", "OpenRLHF", "TRL", "Telescope", "Trinity-RFT", "RLinf", "tinker", "prime-rl"} <= names


def test_a_summary_is_one_printable_line() -> None:
    for entry in SETUP_HINTS:
        assert entry.summary
        assert entry.summary.isprintable()
        assert entry.summary.isascii()


def test_an_entry_says_where_its_file_appears() -> None:
    assert all(entry.writes or entry.kind is StreamKind.NONE for entry in SETUP_HINTS)


def test_what_is_followed_comes_first() -> None:
    """The closing entry, for a loop of one's own, ends the list on purpose."""
    kinds = [entry.is_followed for entry in SETUP_HINTS[:-1]]
    assert kinds == sorted(kinds, reverse=True)
    assert {entry.kind for entry in SETUP_HINTS if entry.is_followed} == set(StreamKind) - {StreamKind.NONE}


def test_the_python_lines_are_python() -> None:
    for entry in SETUP_HINTS:
        if entry.line.startswith(("from ", "import ", "model.")):
            compile(entry.line, entry.trainer, "exec")
