"""Where each key of a run stands in the tree of metrics: its section, its group and its name.

The statistics of one quantity share a place. No value is read here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rltop.catalog.dialect import Identity
from rltop.catalog.families import Family
from rltop.catalog.row_sets import AS_FOUND, Arrangement
from rltop.model import Signal
from rltop.model.keys import GENERAL, KeyPath, is_bookkeeping_key, split_key
from rltop.pages.bands import braces, families_of
from rltop.pages.signals import generic_signal
from rltop.run.snapshot import Snapshot

_BOOKKEEPING = "Bookkeeping"
PINNED = "Pinned"
_MOST_GENERAL = 12
"""Known keys without a section of their own that are listed as one; more of them are listed by what they are."""


@dataclass(frozen=True, slots=True)
class TreeKey:
    """One key and its place in the tree.

    Attributes:
        key: the trainer's key; of several statistics, the one that stands for them.
        section, group, name: where it stands.
        signal: what it is.
        words: what the filter looks through.
        stream: the stream of the run that it is in; "" is the main one.
        others: signals of the other statistics of the same quantity.
        all_names: the names of all of them in one text; empty for a key alone.
    """

    key: str
    section: str
    group: str
    name: str
    signal: Signal
    words: str
    stream: str = ""
    others: tuple[Signal, ...] = ()
    all_names: str = ""

    @property
    def size(self) -> int:
        """How many keys the line stands for."""
        return 1 + len(self.others)


@dataclass(frozen=True, slots=True)
class TreeIndex:
    """All keys of a run in the order of the tree; made once per set of keys.

    Attributes:
        keys: by section, group and name, sections in order of first appearance; a line each.
        sections: number of keys by section.
        streams: by stream of the run, how many keys there were when it was made, and
            whose names it carries.
        rank_sections: sections of single ranks, which begin folded: they say the same many times over.
        arrangement: what was pinned and named when it was made.
    """

    keys: tuple[TreeKey, ...]
    sections: dict[str, int]
    streams: tuple[tuple[int, Identity | None], ...] = field(repr=False)
    rank_sections: frozenset[str] = frozenset()
    arrangement: Arrangement = AS_FOUND

    def is_for(self, snapshot: Snapshot) -> bool:
        """Does it still fit the run?"""
        now = _streams(snapshot)
        return (
            self.arrangement == snapshot.run.arrangement
            and len(now) == len(self.streams)
            and all(
                keys == then and identity is known
                for (keys, identity), (then, known) in zip(now, self.streams, strict=True)
            )
        )


def _streams(snapshot: Snapshot) -> tuple[tuple[int, Identity | None], ...]:
    return tuple((len(each.stream.keys), each.identity) for each in snapshot.streams)


def index_tree(snapshot: Snapshot) -> TreeIndex:
    """Put every key of a run in order, stream by stream; no key is hidden, bookkeeping comes last."""
    found: list[TreeKey] = []
    for each in snapshot.streams:
        found += _index_stream(each)
    found = _pinned_first(found, snapshot.run.arrangement)
    sections: dict[str, int] = {}
    for one in found:
        sections[one.section] = sections.get(one.section, 0) + one.size
    of_ranks = {each.role for each in snapshot.streams if each.source.is_rank}
    folded = frozenset(one.section for one in found if one.stream in of_ranks)
    return TreeIndex(tuple(found), sections, _streams(snapshot), folded, snapshot.run.arrangement)


def _pinned_first(keys: list[TreeKey], arrangement: Arrangement) -> list[TreeKey]:
    """The keys with the pinned ones in a section of their own; one can be found by its own name too."""
    if arrangement.is_as_found:
        return keys
    named = [replace(one, words=f"{one.words} {arrangement.name_of(one.key).casefold()}") for one in keys]
    place = {key: number for number, key in enumerate(arrangement.pinned)}
    pinned = [replace(one, section=PINNED, group="", name=one.key) for one in named if one.key in place]
    pinned.sort(key=lambda one: place[one.key])
    return [*pinned, *(one for one in named if one.key not in place)]


def _index_stream(snapshot: Snapshot) -> list[TreeKey]:
    """The keys of one stream in order; sections of a stream beside the main one carry its name."""
    identity = snapshot.identity
    known: dict[str, Signal] = {}
    for signal in () if identity is None else (s for signals in identity.signals.values() for s in signals):
        # Of several metrics of one key the first, which is the one that its page shows.
        known.setdefault(signal.key, signal)
    families = families_of(snapshot)
    is_flat = sum("/" not in key and key in known for key in snapshot.stream.keys) > _MOST_GENERAL
    whose = f"{snapshot.role}: " if snapshot.role else ""
    last = whose + _BOOKKEEPING
    order: dict[str, int] = {}
    found = []
    for key in snapshot.stream.keys:
        family = families.get(key)
        path = split_key(key) if family is None else _place(family)
        if is_flat and "/" not in key and (own := known.get(family.main.key if family else key)):
            # A trainer without sections of its own: those of the catalogue.
            path = path._replace(section=own.metric.section)
        section = last if is_bookkeeping_key(key) else whose + path.section
        order.setdefault(section, len(order))
        if family is not None and family.main.key != key:
            continue
        members = [key] if family is None else [member.key for member in family.members]
        signals = [known.get(each) or generic_signal(each) for each in members]
        words = whose.casefold() + " ".join(f"{s.key} {s.metric.title} {s.metric.name}" for s in signals).casefold()
        group = path.group if section != last else ""
        names = "" if family is None else _names(path, members)
        found.append(
            TreeKey(key, section, group, path.name, signals[0], words, snapshot.role, tuple(signals[1:]), names)
        )
    if last in order:
        order[last] = len(order)
    found.sort(key=lambda one: (order[one.section], one.group != "", one.group, one.name))
    return found


def _place(family: Family) -> KeyPath:
    """Where the line of a family stands: where its quantity would."""
    path = split_key(family.name)
    own = split_key(family.main.key)
    return KeyPath(own.section, "", family.name) if path.section == GENERAL else path


def _names(path: KeyPath, keys: Sequence[str]) -> str:
    """All keys of a family in one text, without the section and the group that stand above the line."""
    above = "/".join(part for part in (path.section, path.group) if part)
    if all(key.startswith(f"{above}/") for key in keys):
        return braces([key[len(above) + 1 :] for key in keys])
    return braces(keys)


def match_keys(index: TreeIndex, query: str) -> list[TreeKey]:
    """Keys whose spelling, title or canonical name contains every word of the query, whatever the case.

    Args:
        index: every key of the run.
        query: words; empty matches all.
    """
    wanted = query.casefold().split()
    if not wanted:
        return list(index.keys)
    return [one for one in index.keys if all(word in one.words for word in wanted)]
