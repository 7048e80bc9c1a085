"""Groups keys that are statistics of one quantity: its mean, its extremes, its spread.

Trainers write each statistic as a separate key, in various ways: below the quantity (`score/mean`), as a prefix
(`mean_length`, `max_of_length`), as a suffix (`reward_std`), or as levels over attempts at a task (`mean@4`,
`best@4/mean`). Pure functions that know nothing of dialects, so hand-made keys are grouped as well.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from rltop.regex import regex
from rltop.structs import NamedTuple


class Statistic(enum.StrEnum):
    """Which statistic of the quantity a member of a family is."""

    MEAN = "mean"
    MEDIAN = "median"
    VALUE = "value"
    MAX = "max"
    MIN = "min"
    BEST = "best"
    WORST = "worst"
    STD = "std"
    OTHER = "other"


_MAIN = (Statistic.MEAN, Statistic.MEDIAN, Statistic.VALUE)
_LOW = (Statistic.MIN, Statistic.WORST)
_HIGH = (Statistic.MAX, Statistic.BEST)
_BAND = frozenset({*_LOW, *_HIGH, Statistic.STD})

_WORDS = {
    word: statistic
    for statistic, words in (
        (Statistic.MEAN, "mean avg average"),
        (Statistic.MEDIAN, "median p50"),
        (Statistic.MAX, "max maximum"),
        (Statistic.MIN, "min minimum"),
        (Statistic.STD, "std stdev std_dev"),
        (Statistic.BEST, "best"),
        (Statistic.WORST, "worst"),
        (Statistic.OTHER, "maj var variance sum ema last p10 p25 p75 p90 p95 p99"),
    )
    for word in words.split()
}


def _by_piece(place: int) -> Mapping[str, tuple[str, ...]]:
    """The words by their first (0) or last (-1) underscore-separated piece, longest first."""
    found: dict[str, tuple[str, ...]] = {}
    for word in sorted(_WORDS, key=len, reverse=True):
        piece = word.split("_")[place]
        found[piece] = (*found.get(piece, ()), word)
    return found


_BY_HEAD, _BY_TAIL = _by_piece(0), _by_piece(-1)

_SPLIT = (("val-aux/", "val-core/"),)
"""Sections across which veRL splits the statistics of one validation score: (details, main section)."""


class Member(NamedTuple):
    """One key of a family: its statistic, and the trainer's word for it."""

    key: str
    statistic: Statistic
    word: str


class Family(NamedTuple):
    """Keys that are statistics of one quantity.

    Attributes:
        name: the quantity, as the trainer spells it, without the statistic.
        members: the representative one first, the others in order of appearance.
    """

    name: str
    members: tuple[Member, ...]

    @property
    def main(self) -> Member:
        return self.members[0]

    @property
    def low(self) -> Member | None:
        return self._first(_LOW)

    @property
    def high(self) -> Member | None:
        return self._first(_HIGH)

    @property
    def spread(self) -> Member | None:
        return self._first((Statistic.STD,))

    def _first(self, wanted: Sequence[Statistic]) -> Member | None:
        rest = self.members[1:]
        return next((member for member in rest if member.statistic in wanted), None)


@lru_cache(maxsize=1)
def _levels() -> re.Pattern[str]:
    """Matches `…/mean@8/std`; long, so it is compiled only for runs with such keys."""
    words = "|".join(sorted(_WORDS, key=len, reverse=True))
    return re.compile(rf"(?P<base>.+)/(?P<level>{words})(?:@|_at_)(?P<k>\w+)(?:/(?P<inner>{words}))?", re.DOTALL)


def _level(key: str) -> tuple[str, Statistic, str] | None:
    """The statistic of a score over k attempts or, with two words, of its spread over tasks."""
    found = _levels().fullmatch(key)
    if found is None:
        return None
    level, inner = found["level"], found["inner"]
    statistic = _WORDS[level]
    if inner and _WORDS[inner] is not Statistic.MEAN:
        # The spread of the means over tasks is a spread; that of the best values is a detail.
        statistic = _WORDS[inner] if statistic is Statistic.MEAN else Statistic.OTHER
    word = f"{level} {inner}" if inner and inner != "mean" else level
    return f"{found['base']}@{found['k']}", statistic, word


_EDGES = {("low", "min"): Statistic.MIN, ("high", "max"): Statistic.MAX, ("region", "mean"): Statistic.MEAN}


def _side(key: str) -> tuple[str, Statistic, str] | None:
    """Fractions clipped at the lower edge, the upper edge or either: parts of one, each with its own extreme."""
    base, _, last = key.rpartition("/")
    side, _, word = last.partition("_")
    is_share = base.endswith(("/clip_ratio", "_clip_ratio")) or base == "clip_ratio"
    if not is_share or side not in {"low", "high", "region"} or word not in {"mean", "min", "max"}:
        return None
    return base, _EDGES.get((side, word), Statistic.OTHER), f"{side} {word}"


@lru_cache(maxsize=20_000)
def place_of(key: str) -> tuple[str, Statistic, str] | None:
    """The family that a key may belong to by its spelling, its statistic, and the word for it.

    None if the key names no statistic. One name proves nothing: a family needs several keys, see `families`.
    """
    if ("@" in key or "_at_" in key) and (level := _level(key)):
        return level
    if "clip_ratio/" in key and (side := _side(key)):
        return side
    base, _, last = key.rpartition("/")
    if base and last in _WORDS:
        return base, _WORDS[last], last
    for word in _BY_HEAD.get(last.partition("_")[0], ()):
        rest = last[len(word) :]
        if last.startswith(word) and rest.startswith("_") and len(rest) > 1:
            name = rest[4:] if rest.startswith("_of_") and len(rest) > 4 else rest[1:]
            return key[: len(key) - len(last)] + name, _WORDS[word], word
    for word in _BY_TAIL.get(last.rpartition("_")[2], ()):
        quantity = last.removesuffix(f"_{word}")
        if quantity and quantity is not last and quantity[0] != "_" and quantity[-1] != "_":
            return key[: -len(word) - 1], _WORDS[word], word
    return None


_LOSS_WORDS = frozenset({"loss", "grad", "norm", "kl", "logp"})
_NO_LOSS_WORDS = frozenset({
    "eval", "evaluation", "val", "valid", "validation", "test", "time", "timing", "perf", "p10", "p25", "p75", "p90",
    "p95", "p99", "max", "maximum", "min", "minimum", "std", "stdev", "var", "variance", "dev",
})  # fmt: skip
_PARTS = frozenset({"expert", "experts", "class", "classes", "layer", "layers"})
_WORD = regex(r"[^a-zA-Z0-9]+")


@lru_cache(maxsize=20_000)
def is_loss_like(key: str) -> bool:
    """Whether a key names an ingredient of an update: a loss, gradient, norm, KL or log-probability.

    Evaluations, extremes and spreads, durations, and keys of one expert, class or layer are excluded: they are
    occasionally undefined in healthy runs.
    """
    words = set(_WORD.split(key.lower()))
    return bool(words & _LOSS_WORDS) and not words & (_NO_LOSS_WORDS | _PARTS)


@lru_cache(maxsize=20_000)
def is_of_a_part(key: str) -> bool:
    """Whether a key is of one expert, class or layer, for which a record may have no data."""
    return not _PARTS.isdisjoint(_WORD.split(key.lower()))


def families(keys: Iterable[str]) -> Iterator[Family]:
    """The families among `keys`, in order of first appearance; no key is in two of them.

    A family needs at least two statistics of one quantity, one of which is an extreme or a spread. A key spelled like
    the quantity itself joins it. If two keys are the same statistic, the first one is used.
    """
    ordered = tuple(dict.fromkeys(keys))
    found: dict[str, dict[str, Member]] = {}
    for key in ordered:
        place = place_of(key)
        if place is not None:
            name, statistic, word = place
            found.setdefault(name, {}).setdefault(word, Member(key, statistic, word))
    _join_sections(found)
    taken = {member.key for members in found.values() for member in members.values()}
    present = frozenset(ordered)
    for name, by_word in found.items():
        members = list(by_word.values())
        if name in present and name not in taken:
            members.append(Member(name, Statistic.VALUE, ""))
        members = _distinct(members)
        if len(members) >= 2 and any(member.statistic in _BAND for member in members):
            members.sort(key=_standing)
            yield Family(name, tuple(members))


def _join_sections(found: dict[str, dict[str, Member]]) -> None:
    for details, main in _SPLIT:
        for name in [name for name in found if name.startswith(details)]:
            home = found.get(main + name.removeprefix(details))
            if home is not None:
                for word, member in found.pop(name).items():
                    home.setdefault(word, member)


def _distinct(members: Iterable[Member]) -> list[Member]:
    said: set[Statistic] = set()
    kept = []
    for member in members:
        if member.statistic is Statistic.OTHER or member.statistic not in said:
            said.add(member.statistic)
            kept.append(member)
    return kept


def _standing(member: Member) -> int:
    if member.statistic in _MAIN:
        return _MAIN.index(member.statistic)
    if member.statistic is Statistic.OTHER and member.word.endswith("mean"):
        return len(_MAIN)
    # Without a mean, the largest value represents the family, as limits usually apply to it.
    return len(_MAIN) + (1 if member.statistic in _HIGH else 2)


@lru_cache(maxsize=16)
def family_index(keys: tuple[str, ...]) -> dict[str, Family]:
    """Maps each of `keys` in a family to that family; read-only."""
    return {member.key: family for family in families(keys) for member in family.members}


LEAST_NUMBERED = 8
"""Fewer keys that differ in a number are treated as separate metrics."""

_DIGITS = regex(r"[0-9]+")
_MACHINE = regex(
    r"(?i)(rank|gpu|cuda|device|node|host|worker|server|engine|replica|instance|shard|actor|agent|env|dp|tp|pp)s?\W*_?"
    r"\{[^}]*\}"
)
"""Units that do identical work; of several layers or experts, in contrast, one is always far from the others."""
_DURATION = regex(r"(?i)(?:time|duration|latency|elapsed|seconds?|secs?|(?<=_)s|(?P<ms>(?<=_)ms))(?![a-z])")


class Numbered(NamedTuple):
    """Keys that differ only in their numbers: one for each rank, GPU, agent, or layer.

    Attributes:
        name: one text for all of them: `rank/{0…63}/step_time`.
        keys: the numbers that differ → key, ascending.
    """

    name: str
    keys: Mapping[str, str]

    @property
    def is_of_machines(self) -> bool:
        """Whether they do the same work, so that an outlier is suspicious."""
        return _MACHINE.search(self.name) is not None


class RankKey(NamedTuple):
    """Key of the time that one of several machines took for a stage; `scale` converts it to seconds."""

    key: str
    group: str
    rank: str
    stage: str
    scale: float


@lru_cache(maxsize=16)
def rank_keys(keys: tuple[str, ...]) -> tuple[RankKey, ...]:
    """Durations among `keys` that differ from others only in the number of a machine: `rank/37/step_time`."""
    found = []
    for name, numbered in {one.name: one for one in numbered_index(keys).values()}.items():
        machines = _MACHINE.findall(name)
        if not machines:
            continue
        stage = _MACHINE.sub("", name).replace("//", "/").strip("/_.:- ")
        duration = _DURATION.search(stage)
        # A number left in the stage would be that of a layer, and one of several layers is always far from the others.
        if duration is not None and "{" not in stage:
            scale = 1e-3 if duration["ms"] else 1.0
            found += [
                RankKey(key, machines[-1], f"{machines[-1]} {number}", stage, scale)
                for number, key in numbered.keys.items()
            ]
    return tuple(found)


@lru_cache(maxsize=16)
def numbered_index(keys: tuple[str, ...]) -> dict[str, Numbered]:
    """Maps each key that differs from at least seven others only in its numbers to all of them; read-only."""
    alike: dict[str, list[str]] = {}
    for key in keys:
        place = _DIGITS.sub("#", key)
        # Scores over 1, 2, 4 … attempts are not members of a group.
        if place != key and "@#" not in place:
            alike.setdefault(place, []).append(key)
    found: dict[str, Numbered] = {}
    for several in alike.values():
        if len(several) >= LEAST_NUMBERED:
            found.update(dict.fromkeys(several, _numbered(several)))
    return found


def _numbered(keys: Sequence[str]) -> Numbered:
    numbers = {key: _DIGITS.findall(key) for key in keys}
    columns = [sorted(set(column), key=_by_size) for column in zip(*numbers.values(), strict=True)]
    moving = [at for at, column in enumerate(columns) if len(column) > 1]
    texts = _DIGITS.split(keys[0])
    places = [column[0] if len(column) == 1 else f"{{{column[0]}…{column[-1]}}}" for column in columns]
    name = "".join(text + place for text, place in zip(texts, [*places, ""], strict=True))
    ordered = sorted(keys, key=lambda key: [_by_size(numbers[key][at]) for at in moving])
    return Numbered(name, {"/".join(numbers[key][at] for at in moving): key for key in ordered})


def _by_size(number: str) -> tuple[int, str]:
    digits = number.lstrip("0")
    return len(digits), digits
