"""The rollouts of a run: finds the dumps, and reads requested steps in a thread.

Dumps are next to the metrics, or where the run's settings say. The search is limited to the run's folder, parent
folders that only hold logs, and subfolders where trainers put output, with file names used by trainers and people.
Nothing is indexed here.
"""

from __future__ import annotations

import glob
import os
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import TypeVar

from rltop.errors import RltopError, SourceError, refusing
from rltop.files import Worker, first_bytes, folders_in, names_in
from rltop.model import Algorithm, Event, Observation, Traits, Verdict
from rltop.model.completions import (
    MAX_COMPLETIONS,
    Completion,
    RolloutSource,
    RolloutText,
    StepRollouts,
    joined,
    step_of,
)
from rltop.regex import regex
from rltop.rules.advice import advise
from rltop.rules.alert_state import AlertState, ReportedLevels, verdict_of
from rltop.rules.context import RuleContext
from rltop.rules.options import EngineOptions
from rltop.rules.registry import BY_ID, PARTS
from rltop.run.places import dump_places, homes_of, is_folder, own_file
from rltop.stats.groups import StepSummary, summarise
from rltop.structs import Cloned, NamedTuple

MAX_DUMPS = 64
MOST_PATH_CHARS = 4096
"""System limit for paths, which also limits useful patterns."""
_SHOWN_CHARS = 80
_HEAD_BYTES = 256 * 1024
_OUTPUT, _OUTPUT_LEVELS, _MOST_OUTPUTS = "completions", 2, 64
"""TRL's folder in its `output_dir`; how many levels below a run's folder, and in how many folders, to search it."""
_OWN_METRICS = regex(r"(?:logs?|metrics)$|.*\.(?:jsonl|ndjson|csv)$|.*tfevents")
"""A folder with metrics of its own belongs to another run; `runs` and checkpoints are the trainer's."""
_SAME_TRAINING_S = 24 * 3600.0
"""Completions in a separate folder with a larger age difference to the metrics belong to another training."""
_SETTINGS = (".hydra/config.yaml", "config.yaml")
_SAID = regex(rb"rollout_data_dir['\"]?\s*[:=]\s*['\"]?([^'\",\s}\]]+)")
_NOTHING = frozenset({"null", "none", ""})


def given_dumps(pattern: str) -> tuple[list[RolloutSource], list[str]]:
    """The dumps at a path or glob given by the user, and the reasons for unusable parts."""
    from rltop.formats.rollouts.files import dumps_in  # noqa: PLC0415 - as below

    if len(pattern) > MOST_PATH_CHARS:
        return [], [f"a path of {len(pattern):,} characters: {pattern[:_SHOWN_CHARS]}…"]
    path = os.path.expanduser(pattern)  # noqa: PTH111 - a pattern is not a path
    is_one = os.path.exists(path) or not glob.has_magic(path)  # noqa: PTH110 - a Path method raises without permission
    paths = [path] if is_one else sorted(glob.glob(path, recursive=True))  # noqa: PTH207
    if not paths:
        return [], [f"nothing matches {pattern}"]
    found: list[RolloutSource] = []
    notes: list[str] = []
    for each in paths[:MAX_DUMPS]:
        try:
            found += dumps_in(each)
        except SourceError as error:
            notes.append(f"{error.message}: {error.hint}")
        except OSError as error:
            notes.append(f"{each}: {error.strerror or 'cannot be read'}")
    known = {source.path + str(getattr(source, "prefix", "")): source for source in found}
    return list(known.values()), notes


def dumps_near(path: str) -> list[RolloutSource]:
    """The dumps that belong to a run by location: those in the first place that has any."""
    if path == "-":
        return []
    where = own_file(path)
    said = _said_by(where)
    for each in (*([said] if said is not None else []), *dump_places(where.absolute())):
        if found := _dumps_at(each):
            return found
    return _dumps_of_output(where.absolute())


def _dumps_at(place: Path) -> list[RolloutSource]:
    from rltop.formats.rollouts.files import dumps_in, holds_answers  # noqa: PLC0415 - few runs have any

    try:
        return dumps_in(str(place)) if is_folder(place) or holds_answers(place) else []
    except (OSError, SourceError):
        return []


def _dumps_of_output(path: Path) -> list[RolloutSource]:
    """Dumps in a trainer's output folder near the metrics: one with a matching name, or that of a lone run."""
    home = list(homes_of(path))[-1]
    found: list[tuple[Path, list[RolloutSource]]] = []
    level = [str(home)]
    for _ in range(_OUTPUT_LEVELS):
        inner = (os.path.join(above, name) for above in level for name in folders_in(above))  # noqa: PTH118 - for speed
        level = list(islice(inner, _MOST_OUTPUTS))
        for folder in map(Path, level):
            if not is_folder(folder / _OUTPUT) or any(_OWN_METRICS.match(name) for name in names_in(folder)):
                continue
            dumps = _dumps_at(folder / _OUTPUT) if _is_of_same_time(folder / _OUTPUT, path) else []
            if dumps:
                found.append((folder, dumps))
    named = [one for one in found if one[0].name in (path.stem, path.parent.name)]
    alike = [name for name in names_in(path.parent) if name.endswith(path.suffix)]
    is_lone = is_folder(path) or "tfevents" in path.name or alike == [path.name]
    told = named or (found if is_lone else [])
    return told[0][1] if len(told) == 1 else []


def _is_of_same_time(dump: Path, metrics: Path) -> bool:
    try:
        return abs(dump.stat().st_mtime - metrics.stat().st_mtime) < _SAME_TRAINING_S
    except OSError:
        return False


def _said_by(path: Path) -> Path | None:
    for home in homes_of(path.absolute()):
        is_file = os.path.isfile(path)  # noqa: PTH113 - as above
        for file in (path, *(home / name for name in _SETTINGS)) if is_file else ():
            if file.suffix not in (".log", ".out", ".txt", ".yaml", ""):
                continue
            try:
                head = first_bytes(file, _HEAD_BYTES)
            except OSError:
                continue
            match = _SAID.search(head)
            if match is None or match[1].decode("utf-8", "replace").lower() in _NOTHING:
                continue
            folder = Path(match[1].decode("utf-8", "replace"))
            for place in (folder, home / folder, home.parent / folder):
                if is_folder(place):
                    return place
    return None


Answer = TypeVar("Answer")
HELD_STEPS = 4
"""Number of steps with completions in memory: the displayed one and its neighbours."""
LOOK_S = 2.0
"""Interval for checking whether a fully indexed dump has grown."""
YIELD_S = 0.002
"""Pause after each piece, as the screen shares the interpreter."""
GONE = "no longer in the file"


class ShelfState(NamedTuple):
    """State of the rollouts of a run.

    Attributes:
        steps: steps found so far, ascending.
        stream: the stream of the run that counts these steps; "" is the main one.
        is_looking: it is not known yet whether there are any.
        progress: fraction that has been indexed; None when all of it has.
        has_failed: reading has stopped; the first note has the reason.
    """

    places: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    stream: str = ""
    is_looking: bool = True
    progress: float | None = None
    notes: tuple[str, ...] = ()
    is_given: bool = False
    has_failed: bool = False


class ShelvedStep(NamedTuple):
    """One step as read: summary and completions, and what was left out or not understood."""

    summary: StepSummary
    rollouts: StepRollouts


_JUDGED_STEPS, _MOST_JUDGED_STEPS = 60, 480
"""Older steps of a dump that the user did not name are not judged, unless an alert may have begun there."""
_EDGE_STEPS = 8
"""An alert that began within this many of the first steps read may have begun earlier."""
_FEWEST_LOOKS = 32
"""A missing dump that nobody requests is searched for on looks 1, 2, 4, … of every cycle of this many."""


class RolloutShelf:
    """The rollouts of one run. Views are answered at once, with what is known.

    Attributes:
        summaries: of complete steps, ascending, for rules.
        newest: of the newest step, which may still be written; None until it has been unchanged for a while.
        is_judged: whether the steps are judged at all; called in the thread.
        is_looking_back: whether earlier steps may have to be judged too; nothing is judged until this is decided.
        is_cut_off: whether an alert over some summaries may have begun before the first; called in the thread.

    Args:
        path: the run's file, or the folder that is followed as one.
        given: path or glob given by the user; empty searches near the run.
    """

    def __init__(self, path: str, given: str, on_news: Callable[[], None]) -> None:
        self._path = path
        self._given = given
        self._on_news = on_news
        self._sources: list[RolloutSource] = []
        self._steps: dict[int, tuple[Hashable, ShelvedStep]] = {}
        self._refused: dict[tuple[str, str], str] = {}
        self._texts: dict[Completion, RolloutText] = {}
        self._wanted_step: int | None = None
        self._wanted_text: Completion | None = None
        self._is_closed = False
        self._bell = threading.Condition()
        self.state = ShelfState(is_given=bool(given))
        self.version = 0
        self.summaries: list[StepSummary] = []
        self.newest: StepSummary | None = None
        self._newest_stamp: Hashable = None
        self._quiet_looks = 0
        self.is_judged: Callable[[], bool] = bool
        self.is_cut_off: Callable[[Sequence[StepSummary]], bool] = lambda summaries: False
        self._older: list[StepSummary] = []
        self.is_looking_back = not given
        self._worker = Worker("rollouts")

    def start(self) -> None:
        self._worker.start(self._work)

    def close(self) -> None:
        """Stop the thread; a read that hangs is abandoned."""
        with self._bell:
            self._is_closed = True
            self._bell.notify()

    # -- requests of views ---------------------------------------------------------------------------------------

    def step_near(self, step: int | None) -> int | None:
        """The newest step of the dump at or before `step` (None: the newest), else its first; None without any."""
        steps = self.state.steps
        if not steps:
            return None
        if step is None:
            return steps[-1]
        return steps[max(0, bisect_right(steps, step) - 1)]

    def at(self, step: int) -> ShelvedStep | None:
        with self._bell:
            if self._wanted_step != step:
                self._wanted_step = step
                self._bell.notify()
        known = self._steps.get(step)
        return None if known is None else known[1]

    def known(self, step: int) -> ShelvedStep | None:
        found = self._steps.get(step)
        return None if found is None else found[1]

    def text(self, completion: Completion) -> RolloutText | None:
        found = self._texts.get(completion)
        if found is None:
            with self._bell:
                self._wanted_text = completion
                self._bell.notify()
        return found

    def settle(self, step: int | None = None) -> ShelvedStep | None:
        """Index everything and read a step (None: the newest) synchronously, for callers without a thread."""
        self._look_through()
        near = self.step_near(step)
        if near is not None:
            self._wanted_step = near
            self._read_wanted()
            self._refresh()  # also collects notes about the step
        return None if near is None else self.known(near)

    def sum_up(self) -> None:
        """Index everything and summarise what is judged, including the newest step, synchronously."""
        self._look_through()
        while self._sum_up_next():
            pass
        if self.state.steps:
            self.newest = self._read(self.state.steps[-1]).summary

    def _look_through(self) -> None:
        if self.state.is_looking:
            self._find()
        while self._sources and self._refresh():
            pass

    @property
    def is_at_rest(self) -> bool:
        """Whether everything that is judged has been read."""
        state = self.state
        if state.has_failed or not state.steps:
            return state.has_failed or not state.is_looking
        is_judged = self.newest is not None and self.newest.step == state.steps[-1] and not self.is_looking_back
        return state.progress is None and (not self.is_judged() or is_judged)

    # -- the thread ----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._follow()
        except Exception as error:  # end of the thread: report the fault, which affects nothing else
            note = f"reading rollouts failed: {type(error).__name__}: {error}"
            self._tell(self.state._replace(is_looking=False, has_failed=True, notes=(note, *self.state.notes)))

    def _follow(self) -> None:
        self._find()
        while not self._is_closed:
            has_more = self._refresh()
            has_read = self._read_wanted() or self._sum_up_next()
            with self._bell:
                if self._is_closed:
                    return
                if has_more or has_read:
                    self._bell.wait(YIELD_S)
                elif self._wanted_text is None and not self._is_stale(self._wanted_step):
                    self._bell.wait(LOOK_S)

    def _find(self) -> None:
        notes: list[str] = []
        try:
            with refusing("cannot be searched"):
                self._sources, notes = given_dumps(self._given) if self._given else (dumps_near(self._path), notes)
        except (RltopError, OSError) as error:
            notes = [f"{self._given or self._path}: {_reason(error)}"]
        self._tell(
            self.state._replace(
                places=tuple(source.path for source in self._sources),
                stream=next((source.stream for source in self._sources if source.stream), ""),
                is_looking=bool(self._sources),
                notes=tuple(notes),
            )
        )
        self._given_notes = tuple(notes)

    def _refresh(self) -> bool:
        if not self._sources:
            # A running job may still create its dump with the first step.
            if self._given or self._may_wait():
                return False
            self._find()
            return bool(self._sources)
        has_more = False
        for source in self._sources:
            has_more = self._query(source, "look", source.refresh, otherwise=False) or has_more
        steps = self._merged()
        parts = [part for source in self._sources if (part := source.progress) is not None]
        notes = (*self._given_notes, *self._refused.values(), *(n for source in self._sources for n in source.notes))
        self._tell(
            self.state._replace(
                steps=steps, is_looking=has_more and not steps, progress=min(parts, default=None), notes=notes[:8]
            )
        )
        return has_more

    def _may_wait(self) -> bool:
        """Whether to postpone the search, as nobody has requested anything."""
        if self._wanted_step is not None or self._wanted_text is not None:
            return False
        self._quiet_looks += 1
        looks = self._quiet_looks % _FEWEST_LOOKS
        return not self.is_judged() or bool(looks & (looks - 1))

    def _merged(self) -> tuple[int, ...]:
        if len(self._sources) == 1:
            own: Sequence[int] = self._sources[0].steps
            known = self.state.steps
            same = len(own) == len(known) and (not own or (own[0] == known[0] and own[-1] == known[-1]))
            return known if same and list(own) == list(known) else tuple(own)
        return tuple(dict.fromkeys(merge(*(source.steps for source in self._sources))))

    def _is_stale(self, step: int | None) -> bool:
        if step is None or step not in self.state.steps:
            return False
        known = self._steps.get(step)
        return known is None or known[0] != self._stamp(step)

    def _stamp(self, step: int) -> Hashable:
        return tuple(
            self._query(source, "stamp", partial(source.stamp, step), otherwise=None) for source in self._sources
        )

    def _read_wanted(self) -> bool:
        wanted, step = self._wanted_text, self._wanted_step
        if wanted is not None:
            texts = (self._query(each, "text", partial(each.text, wanted), otherwise=None) for each in self._sources)
            found = next((text for text in texts if text is not None), None)
            with self._bell:
                # Keep only one: a text may be as long as its file.
                self._texts = {wanted: found if found is not None else RolloutText((), (), GONE)}
                if self._wanted_text is wanted:
                    self._wanted_text = None
            self._changed()
        if step is None or not self._is_stale(step):
            return wanted is not None
        stamp = self._stamp(step)
        shelved = self._read(step)
        held = {known: each for known, each in self._steps.items() if known != step}
        while len(held) >= HELD_STEPS:
            del held[next(iter(held))]
        self._steps = {**held, step: (stamp, shelved)}
        self._changed()
        return True

    def _sum_up_next(self) -> bool:
        """Summarise one more step to be judged; the newest one, which may still be written, once it is unchanged."""
        if not self.is_judged():
            return False
        steps = self.state.steps[:-1]
        after = self.summaries[-1].step if self.summaries else None
        first = 0 if self._given else max(0, len(self.state.steps) - _JUDGED_STEPS)
        begin = first if after is None else bisect_right(steps, after)
        if begin >= len(steps):
            return self._sum_up_older(steps) or self._sum_up_newest()
        self.summaries.append(self._read(steps[begin]).summary)
        self._changed()
        return True

    def _sum_up_older(self, steps: Sequence[int]) -> bool:
        """Summarise one more step before those judged; once their number has doubled, all of them are judged."""
        if not self.is_looking_back or self.state.progress is not None:
            return False
        count, known = len(self.summaries), len(self._older)
        before = bisect_left(steps, self.summaries[0].step) if self.summaries else 0
        room = min(count, before, _MOST_JUDGED_STEPS - count)
        if room <= 0 or (not known and not self.is_cut_off(self.summaries)):
            self.is_looking_back = False
        elif known < room:
            self._older.insert(0, self._read(steps[before - known - 1]).summary)
        else:
            self.summaries, self._older = [*self._older, *self.summaries], []
            self._changed()
        return True

    def _sum_up_newest(self) -> bool:
        if not self.state.steps:
            return False
        step = self.state.steps[-1]
        before, self._newest_stamp = self._newest_stamp, (step, self._stamp(step))
        if before != self._newest_stamp:
            self.newest = None
        elif self.newest is None:
            self.newest = self._read(step).summary
            self._changed()
        return False

    def _read(self, step: int) -> ShelvedStep:
        completions: list[Completion] = []
        left_out = 0
        for source in self._sources:
            found, more = joined(self._query(source, "step", partial(source.read, step), otherwise=[]))
            room = MAX_COMPLETIONS - len(completions)
            completions += found[:room]
            left_out += more + max(0, len(found) - room)
        rollouts = step_of(step, completions, left_out)
        return ShelvedStep(summarise(rollouts), rollouts)

    def _query(self, source: RolloutSource, what: str, call: Callable[[], Answer], otherwise: Answer) -> Answer:
        """Query a dump; if its data cause an error, that is noted, and reading of the others continues."""
        try:
            with refusing("damaged"):
                answer = call()
        except (RltopError, OSError) as error:
            self._refused[source.path, what] = f"{source.path}: {_reason(error)}"
            return otherwise
        self._refused.pop((source.path, what), None)
        return answer

    def _tell(self, state: ShelfState) -> None:
        if state != self.state:
            self.state = state
            self._changed()

    def _changed(self) -> None:
        self.version += 1
        if not self._is_closed:
            self._on_news()


def _reason(error: RltopError | OSError) -> str:
    return error.message if isinstance(error, RltopError) else error.strerror or "cannot be read"


_RULE = "P5"
METRIC, LONGEST = "group_len_ratio", "response_len_max"
_CHARS_PER_TOKEN = 4.0
_JUDGED_BY = tuple(spec for spec in (BY_ID[_RULE], *PARTS[_RULE]) if METRIC in spec.metrics)


class RolloutWatch(Cloned):
    """Judges P5 and its parts over the steps of a dump.

    Attributes:
        records: number of complete steps judged so far.
    """

    def __init__(self, options: EngineOptions) -> None:
        self.records = 0
        self._options = options
        self._events: list[Event] = []
        self._last: int | None = None
        self._unit = ""
        self._now = RuleContext(Algorithm.UNKNOWN, Traits(), None)
        self._states = [
            AlertState(spec, options.thresholds(spec.id)) for spec in _JUDGED_BY if options.is_enabled(spec.id)
        ]
        self._told = ReportedLevels()
        self._newest: StepSummary | None = None
        self._ahead: RolloutWatch | None = None
        """A copy that includes the newest step."""

    def take(self, summaries: Sequence[StepSummary], newest: StepSummary | None) -> None:
        """Judge every step after the last judged one.

        Args:
            summaries: of complete steps, in ascending order.
            newest: of the step after these, which may still change, so its results are provisional.
        """
        if not self._options.is_enabled(_RULE):
            return
        records = self.records
        for one in summaries:
            self._judge(one)
        if newest is not self._newest or records != self.records:
            self._newest, self._ahead = newest, None
            if newest is not None:
                ahead = self.clone()
                ahead._judge(newest, is_provisional=True)
                self._ahead = ahead

    def _judge(self, one: StepSummary, *, is_provisional: bool = False) -> None:
        if one.ratio_mean is None or (self._last is not None and one.step <= self._last):
            return
        self._last = one.step
        self._unit = "" if one.has_tokens else "; lengths in characters"
        self.records += 1
        self._now.group_size = self._options.group_size or one.group_size
        self._now.advance(_observation(self.records, one))
        for state in self._states:
            event = state.observe(self._now)
            beside = [each for each in self._states if each is not state and each.is_firing]
            told = None if event is None else self._told.tell(event, state, beside, self._now)
            if told is not None and not self._told.is_shown_already(told[0]):
                message = told[0].message + self._unit
                self._events.append(told[0]._replace(message=message, is_provisional=is_provisional))

    @property
    def events(self) -> Sequence[Event]:
        """Its transitions, including provisional ones of the newest step."""
        return (self._ahead or self)._events

    @property
    def event_times(self) -> Sequence[float | None]:
        return [None] * len(self.events)

    @property
    def verdicts(self) -> Sequence[Verdict]:
        one = self._ahead or self
        states = one._told.shown([each for each in one._states if each.is_shown(one.records)])
        verdicts = [verdict_of(each, METRIC, "", one._now) for each in states]
        return [advise(each._replace(headline=each.headline + one._unit)) for each in verdicts]


def is_cut_off(options: EngineOptions, summaries: Sequence[StepSummary]) -> bool:
    """Whether an alert over these steps may have begun before the first of them."""
    watch = RolloutWatch(options)
    watch.take(summaries, None)
    edge = summaries[min(_EDGE_STEPS, len(summaries)) - 1].step if summaries else 0
    return any(one.is_active and one.since_step is not None and one.since_step <= edge for one in watch.verdicts)


def _observation(record: int, one: StepSummary) -> Observation:
    """The step as an observation: each group's ratio and longest completion in tokens, for groups with a ratio."""
    tokens = 1.0 if one.has_tokens else 1.0 / _CHARS_PER_TOKEN
    counted = [group for group in one.groups if group.ratio is not None]
    groups = {
        METRIC: {group.name: group.ratio or 0.0 for group in counted},
        LONGEST: {group.name: tokens * group.lengths[0] for group in counted},
    }
    return Observation(record, one.step, 0, None, {METRIC: one.ratio_mean or 0.0}, groups, {}, {})
