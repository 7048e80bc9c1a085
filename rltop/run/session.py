"""Everything but the screen: runs being followed, moved on a slice at a time.

The screen, `--once`, `check`, replay and every test drive this same object. It
reads no clock of its own and starts no thread: feeds bring the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TypeVar

from rltop.clock import Clock
from rltop.formats.auto import AutoDecoder
from rltop.formats.decoder import Decoder
from rltop.formats.jsonl import JsonlOptions
from rltop.formats.kinds import JSONL
from rltop.model import Label
from rltop.run.found import Found
from rltop.run.judge import Judge
from rltop.run.options import Bell, IngestOptions, OpenFeed
from rltop.run.pipeline import Pipeline
from rltop.run.recall import Recaller
from rltop.run.run import FIRST_ROWS, TrackedRun
from rltop.sources.feed import AwaitedFeed, Feed, SequenceFeed
from rltop.store.run import Run, RunStore
from rltop.store.stream import Stream
from rltop.structs import replace

PREVIEW_ROWS = 1024
"""Rows at the end that are shown while history is being read."""
CROWD = 64
"""Of more runs than that, it is not asked one by one whether they have changed."""
ASK_S = 1.0
"""Runs that all rest are asked so often whether they still do, whether or not a bell has rung."""
PREVIEW_FROM_BYTES = 2 * 1024 * 1024
"""A smaller file is read whole before a preview would pay."""


_Kind = TypeVar("_Kind", bound=TrackedRun)


def _nothing_new() -> None:
    """What another look finds where nobody looks again."""


def _nothing_left_out() -> Sequence[tuple[str, str]]:
    """What could not be read where only files were named."""
    return ()


def _is_same(known: Found, now: Found) -> bool:
    """Are the two one run: do they share a file?"""
    paths = {path for each in (known, *known.beside) for path in each.paths}
    return any(path in paths for each in (now, *now.beside) for path in each.paths)


def _has_caught_up(run: TrackedRun) -> bool:
    return run.loading is None


class _SliceBudget:
    """A slice that ends when the clock says so."""

    def __init__(self, clock: Clock, budget_ms: float) -> None:
        self._clock = clock
        self._end_s = clock.monotonic() + budget_ms / 1000

    def is_spent(self) -> bool:
        """Is the time up?"""
        return self._clock.monotonic() >= self._end_s


class _NoBudget:
    """A slice without end."""

    @staticmethod
    def is_spent() -> bool:
        """Never."""
        return False


class Session:
    """All runs of one invocation.

    Args:
        found: the streams to follow.
        open_feed: makes the feed of a path; see `feeds`.
        clock: arrival times and slices.
        options: how runs are read and judged.
        bell: rings when feeds have something; feeds of one-shot use never do.
    """

    def __init__(
        self,
        found: Sequence[Found],
        open_feed: OpenFeed,
        clock: Clock,
        options: IngestOptions | None = None,
        bell: Bell | None = None,
    ) -> None:
        self.options = options = options or IngestOptions()
        self.bell = bell or Bell()
        self._clock = clock
        self._store = RunStore(options.store)
        self._turn = 0
        self._open_feed = open_feed
        self.look_again: Callable[[], Sequence[Found] | None] = _nothing_new
        self.left_out: Callable[[], Sequence[tuple[str, str]]] = _nothing_left_out
        self._found = list(found)
        self._wakings = 0
        self._heard, self._asks_at_s = -1, 0.0
        self.runs: list[TrackedRun] = [self._track(each, open_feed) for each in found]

    def _track(self, found: Found, open_feed: OpenFeed) -> TrackedRun:
        run = self._store.add(found.name, Label.of(found.path), len(found.beside) + 1)
        has_spans = any(each.kind is not None and each.kind.has_spans for each in (found, *found.beside))
        if found.awaits:
            pipeline = self._pipeline(AutoDecoder(found.path, self.options.jsonl), run.stream())
            return TrackedRun(run, AwaitedFeed(found.awaits), pipeline, self._clock)
        if not found.beside and not has_spans:
            return self._stream(TrackedRun, run, found, open_feed)
        from rltop.run.joined import JoinedRun  # noqa: PLC0415 - rare, and it brings the rules of ranks along
        from rltop.run.rank_watch import RankWatch  # noqa: PLC0415

        joined = self._stream(JoinedRun, run, found, open_feed)
        others = [self._stream(TrackedRun, run, each, open_feed) for each in found.beside if not each.is_rank]
        has_ranks = len(others) < len(found.beside)
        watch = RankWatch(self.options.health) if has_ranks or has_spans else None
        if watch is not None and not has_ranks:
            for one in (joined, *others):
                one.take_spans_with(watch.take_spans)
        ranks = []
        for each in found.beside:
            if each.is_rank and watch is not None:
                stream = run.stream(each.role)
                pipeline = Pipeline(AutoDecoder(each.path, self.options.jsonl), stream)
                pipeline.sink = tap = watch.tap(each.role)
                feed = self._feed(each, open_feed)
                name, path = Label.of(each.role), Label.of(each.path)
                rank = TrackedRun(Run(name, path), feed, pipeline, self._clock, role=each.role, is_rank=True)
                tap.has_caught_up = partial(_has_caught_up, rank)
                ranks.append(rank)
        joined.join(others, ranks, watch)
        return joined

    def _stream(self, kind: type[_Kind], run: Run, found: Found, open_feed: OpenFeed) -> _Kind:
        """One stream of a run, followed."""
        is_file = found.path != "-"
        is_jsonl = found.kind in (None, JSONL) and not found.earlier and is_file
        previews = []
        shown_kind = found.kind or JSONL
        has_lines = shown_kind.is_line_based and not found.earlier and is_file
        if self.options.has_preview and has_lines and found.size >= PREVIEW_FROM_BYTES:
            rows = JsonlOptions(self.options.jsonl.step_key, may_count_rows=False)
            # The fewest first: they are there at once, and stand until more of them are.
            for count in (FIRST_ROWS, PREVIEW_ROWS):
                shown = self._pipeline(shown_kind.make(rows), Stream("", self.options.store))
                previews.append((open_feed(found.path, count), shown))
        return kind(
            replace(run, name=Label.of(found.role), path=Label.of(found.path))
            if kind is TrackedRun and found.role
            else run,
            self._feed(found, open_feed),
            self._pipeline(AutoDecoder(found.path, self.options.jsonl), run.stream(found.role)),
            self._clock,
            previews=previews,
            modified_s=found.modified_s,
            recaller=Recaller(found.path, self.options.jsonl, self.bell.ring) if is_jsonl else None,
            role=found.role if kind is TrackedRun else "",
            ranges=found.ranges,
        )

    @staticmethod
    def _feed(found: Found, open_feed: OpenFeed) -> Feed:
        if not found.earlier and (found.kind is None or not found.kind.has_sequels):
            return open_feed(found.path, None)
        return SequenceFeed([*found.earlier, found.path], lambda path: open_feed(path, None))

    def knows(self, found: Found) -> bool:
        """Is it, by any of its files, one of the runs that are followed?"""
        return any(_is_same(known, found) for known in self._found)

    def update(self, found: Sequence[Found]) -> None:
        """Take in what another look has found: new runs, new streams of a run, new files of a stream.

        Runs keep their places. A run that has got further streams is read anew; the one
        that was followed before names it (`TrackedRun.heir`), so that whoever shows a run
        goes on showing it. What is no longer found is kept: its rows have been read.
        Where the only run there is has made way for another, as when `latest-run` is
        pointed elsewhere, and where one was awaited, the new one takes its place.
        """
        for each in found:
            at = next((i for i, known in enumerate(self._found) if _is_same(known, each)), None)
            if at is None and len(self._found) == 1 and (self._found[0].awaits or len(found) == 1):
                at = 0
            if at is None:
                self._found.append(each)
                self.runs.append(self._track(each, self._open_feed))
            elif not self._extend(self._found[at], each, self.runs[at]):
                before = self.runs[at]
                self._let_go(at)
                before.heir = self.runs[at] = self._track(each, self._open_feed)
                self._found[at] = each
                self._drop_parts(at)
            else:
                self._found[at] = each

    def _drop_parts(self, at: int) -> None:
        """Let go of runs that have turned out to be streams of another, as when W&B runs are named late."""
        whole, known = self.runs[at], self._found[at]
        for i in reversed(range(len(self._found))):
            if i != at and _is_same(self._found[i], known):
                self._let_go(i)
                self.runs[i].heir = whole
                del self.runs[i], self._found[i]

    def _let_go(self, at: int) -> None:
        self.runs[at].close()
        self._store.remove(self._found[at].path)

    @staticmethod
    def _extend(known: Found, now: Found, run: TrackedRun) -> bool:
        """Whether the run goes on with its present streams, and perhaps further files of them."""
        before = {each.role: each for each in (known, *known.beside)}
        after = {each.role: each for each in (now, *now.beside)}
        followed = {known.role: run, **{part.role: part for part in run.beside}}
        if known.awaits or not before.keys() >= after.keys() or known.role != now.role:
            return False
        for role, each in after.items():
            if each.path == before[role].path:
                continue
            if before[role].path not in each.earlier or not followed[role].extend(
                each.paths[each.paths.index(before[role].path) + 1 :]
            ):
                return False
        return True

    def _pipeline(self, decoder: Decoder, stream: Stream) -> Pipeline:
        stream.total_steps = self.options.total_steps
        health = self.options.health
        return Pipeline(decoder, stream, Judge(health), health.group_size)

    def step(self, budget_ms: float) -> bool:
        """Work for about `budget_ms`; True if there may be more to do at once."""
        budget = _SliceBudget(self._clock, budget_ms)
        news = self.look_again()
        if news is not None:
            self.update(news)
        has_moved = False
        awake = self._awake()
        self._wakings += bool(awake)
        for _ in awake:
            run = awake[self._turn % len(awake)]
            has_moved = run.advance(budget) or has_moved
            if budget.is_spent():
                break
            self._turn += 1
        return has_moved

    def _awake(self) -> Sequence[TrackedRun]:
        """The runs that have something to do; when all rested and no bell has rung, they are not asked each time."""
        now, rings = self._clock.monotonic(), self.bell.rings
        if rings == self._heard and now < self._asks_at_s:
            return ()
        awake = [run for run in self.runs if not run.is_resting]
        self._heard, self._asks_at_s = rings, now if awake else now + ASK_S
        return awake

    def read_newest(self, budget_ms: float) -> None:
        """Read what the first picture of each run shows, as far as it is there at once, for about `budget_ms`."""
        budget = _SliceBudget(self._clock, budget_ms)
        for run in self.runs:
            run.read_newest(budget)

    def drain(self) -> None:
        """Read everything there is now; runs whose feed is exhausted are finished."""
        for run in self.runs:
            while run.advance(_NoBudget()):
                pass
            if run.is_exhausted:
                run.finish()

    def look_for_rollouts(self, run: TrackedRun) -> None:
        """Begin to look for the completions of a run, in a thread; what it finds, `run.rollouts` tells."""
        if run.rollouts is None and not run.is_awaited:
            from rltop.run.rollouts import RolloutShelf  # noqa: PLC0415 - only for who looks at a run for a while

            run.rollouts = RolloutShelf(run.path.raw, self.options.rollouts, self.bell.ring)
            run.rollouts.start()

    def read_rollouts(self) -> None:
        """Read the completions of every run's newest step at once, for what is printed and left."""
        from rltop.run.rollouts import RolloutShelf  # noqa: PLC0415

        for run in self.runs:
            run.rollouts = RolloutShelf(run.path.raw, self.options.rollouts, self.bell.ring)
            run.rollouts.settle(run.stream.last_step)

    @property
    def version(self) -> Hashable:
        """Moves with everything that a view may show, time aside; of many runs, whenever one of them has been awake."""
        left_out = self.left_out()
        gaps = len(left_out), left_out[0] if left_out else None
        if len(self.runs) > CROWD:
            return self._wakings, gaps
        return tuple(run.version for run in self.runs), gaps

    def close(self) -> None:
        """Let go of everything; never waits for a read."""
        for run in self.runs:
            run.close()
