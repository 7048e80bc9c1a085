"""A new phase of the run: other data, another length limit, another task.

Length, reward and step time that move to another level on the same record, with
the optimiser's metrics unchanged, are not a fault but a change of data. Owns the
recognition of that record; what follows from it is the engine's business.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from rltop.stats.rolling import MAD_TO_SIGMA, mad_of, median_of
from rltop.structs import NamedTuple

SETTLED = 3
"""Records that must be on the new level."""
_BEFORE = 20
_MIN_BEFORE = 10
_LENGTH_FACTOR = 1.3
_TIME_FACTOR = 1.15
_SIGMAS = 4.0
_REWARD_SIGMAS = 3.0
"""Of single records, for a median of three: four and a half of its own standard errors."""
_REWARD_SHARE = 0.1
_SMOOTH_SHARE = 0.3
_TRUNCATION_SHARE = 0.1
_MIN_WITNESSES = 2
_WITNESSES = {
    "grad_norm": 0.0,
    "entropy": 0.0,
    "kl_ref": 0.005,
    "kl_old": 0.002,
    "clip_frac": 0.005,
    "policy_loss": 0.0,
}
"""What the optimiser does, and by how much it may move on any run: consoles round small numbers to three decimals."""


class Move(NamedTuple):
    """A metric that went from one level to another."""

    name: str
    before: float
    after: float


def _level(rows: list[Mapping[str, float]], name: str) -> list[float]:
    return [row[name] for row in rows if name in row]


class PhaseTrack:
    """Recognises a new phase, three records after it began.

    Attributes:
        moves: what moved, on the record that settles it; empty otherwise.
    """

    __slots__ = ("_curriculum", "_high", "_low", "_outside", "_rows", "count", "moves")

    def __init__(self) -> None:
        self._rows: deque[Mapping[str, float]] = deque(maxlen=_BEFORE + SETTLED)
        self._outside = 0
        self._curriculum: float | None = None
        self._low = self._high = 0.0
        self.moves: tuple[Move, ...] = ()
        self.count = 0

    def observe(self, values: Mapping[str, float]) -> None:
        """Take a record in; a look at one value unless the length has left its range."""
        if self.moves:
            self.moves = ()
        level = values.get("curriculum_level")
        if level is not None and level != self._curriculum:
            before, self._curriculum = self._curriculum, level
            if before is not None and level == int(level):
                self.moves = (Move("curriculum_level", before, level),)
                self.count += 1
                self._rows.clear()
                self._low = self._high = 0.0
                self._outside = 0
                return
        length = values.get("response_len_mean")
        if length is None:
            return
        self._rows.append(values)
        if self._low <= length <= self._high:
            self._outside = 0
            return
        self._outside += 1
        if self._outside == 1 or self._high == 0.0:
            self._measure(length)
        elif self._outside == SETTLED:
            self._settle()

    def _measure(self, length: float) -> None:
        before = _level(list(self._rows)[:-1][-_BEFORE:], "response_len_mean")
        if len(before) < _MIN_BEFORE:
            self._outside = 0
            return
        usual = median_of(before)
        self._low, self._high = usual / _LENGTH_FACTOR, usual * _LENGTH_FACTOR
        if self._low <= length <= self._high:
            self._outside = 0

    def _settle(self) -> None:
        rows = list(self._rows)
        before, after = rows[:-SETTLED], rows[-SETTLED:]
        self._low = self._high = 0.0
        self._outside = 0
        moves = tuple(
            move
            for move in (
                _scaled(before, after, "response_len_mean", _LENGTH_FACTOR),
                _shifted(before, after, "score_mean") or _shifted(before, after, "reward_mean"),
                _scaled(before, after, "time_step", _TIME_FACTOR),
            )
            if move is not None
        )
        if len(moves) < 3 or (moves[0].after > moves[0].before) != (moves[2].after > moves[2].before):
            return
        if _is_smooth(before, after):
            self.moves = moves
            self.count += 1
            self._rows.clear()

    def clone(self) -> PhaseTrack:
        twin = PhaseTrack.__new__(PhaseTrack)
        for name in PhaseTrack.__slots__:
            setattr(twin, name, getattr(self, name))
        twin._rows = self._rows.copy()
        return twin


def _scaled(before: list[Mapping[str, float]], after: list[Mapping[str, float]], name: str, by: float) -> Move | None:
    """A positive metric whose every new value lies beyond a factor of its old median, on one side."""
    old, new = _level(before, name), _level(after, name)
    if len(old) < _MIN_BEFORE or len(new) < SETTLED:
        return None
    usual = median_of(old)
    if min(new) > by * usual or max(new) < usual / by:
        return Move(name, usual, median_of(new))
    return None


def _shifted(before: list[Mapping[str, float]], after: list[Mapping[str, float]], name: str) -> Move | None:
    """A metric of any sign whose new median lies outside its old noise, and visibly so."""
    old, new = _level(before, name), _level(after, name)
    if len(old) < _MIN_BEFORE or len(new) < SETTLED:
        return None
    usual, level = median_of(old), median_of(new)
    noise = max(_REWARD_SIGMAS * MAD_TO_SIGMA * mad_of(old), _REWARD_SHARE * abs(usual))
    return Move(name, usual, level) if abs(level - usual) > noise > 0.0 else None


def _is_smooth(before: list[Mapping[str, float]], after: list[Mapping[str, float]]) -> bool:
    """What the optimiser does has stayed where it was, and enough of it is logged to say so."""
    cut_before, cut_after = _level(before, "truncated_frac"), _level(after, "truncated_frac")
    if cut_before and cut_after and median_of(cut_after) > median_of(cut_before) + _TRUNCATION_SHARE:
        return False
    witnesses = 0
    for name, least in _WITNESSES.items():
        old, new = _level(before, name), _level(after, name)
        if len(old) < _MIN_BEFORE or len(new) < SETTLED:
            continue
        usual = median_of(old)
        width = max(_SIGMAS * MAD_TO_SIGMA * mad_of(old), _SMOOTH_SHARE * abs(usual), least)
        if abs(median_of(new) - usual) > width:
            return False
        witnesses += usual != 0.0
    return witnesses >= _MIN_WITNESSES
