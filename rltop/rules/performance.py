"""Step time: did the step become slower, which stage takes too much of it, and are some steps slow now and then?

The baseline is run start, because a rolling one silences itself. Checkpoints and validation are subtracted, records
that reuse a rollout have a baseline of their own, and a step that takes longer because its completions are longer is
not slower. A stage's share that is there from the start is part of the setup, and INFO; a growing one is a fault.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise

from rltop.model import Evidence, Observation, Unit
from rltop.rules.context import RuleContext
from rltop.rules.rule import INFO, OK, QUIET, WARN, Detector, EvidenceNames, Finding, State, worst
from rltop.rules.standing import own_time
from rltop.stats.rolling import Frozen, Window, log_spread_of, lower_half_of, median_of
from rltop.structs import NamedTuple
from rltop.units import duration, measure_like, number, percent

_RECENT = 8
_EXPLAINS = 0.1
"""A stage explains a slowdown only if it grew by at least this share of it; a save or an evaluation explains a slow
step only from this share of the step on, as some trainers log a moment for it on every step."""
_CREEP_FLOOR, _CREEP_REACH = 0.03, 6.0
"""Smallest standard deviation assumed for log step time, and the cap on what one record adds, in deviations."""
_PACE_SIGMAS, _MOST_PACE = 2.0, 2.0
"""Noise limit on seconds per token, in deviations (five of eight records do not exceed it by chance), and at most as a
factor: a start that is still warming up has so large a spread that it would excuse too much."""


class Work(State):
    """The work of each step in tokens, as far as the run logs it; `total` is the run's count so far.

    Without token counts, the mean length stands in, which is as good if only growth matters. `word` says which it is.
    """

    word = "tokens per step"
    total: float | None = None

    def of(self, values: Mapping[str, float]) -> float | None:
        """Tokens of this step: its count, else the growth of the run's total, else the mean length."""
        if (tokens := values.get("total_tokens")) is not None:
            return tokens
        running, before = values.get("num_tokens"), self.total
        if running is not None:
            self.total = running
            return running - before if before is not None and running > before else None
        if before is not None:
            return None
        length = values.get("response_len_mean")
        self.word = "sequence length" if length is None else "completion length"
        return values.get("total_len_mean") if length is None else length


class _Kind(State):
    start, per_token, per_length = Frozen(), Frozen(), Frozen()
    head: list[Observation] = []
    stages: dict[str, tuple[float, int, int]] = {}
    recent: deque[Mapping[str, float]] = deque(maxlen=_RECENT)
    crept = creep_line = 0.0


_UPDATES = ("loss", "policy_loss", "grad_norm")
_IDLE, _TOLD, _SAME_PACE = 3, 6, 0.05
_MIXED, _FEW, _TRAINS = 2, 3, 1.1
"""Records, the first with training in it included, within which steps must become longer for training to be the cause;
values needed for a median of steps with training, so that a slowdown right after is seen; and how much longer."""


def _blaming(kind: _Kind, finding: Finding) -> Finding:
    """The finding with the stage that grew most, if that explains it: seconds, those at the start and their steps."""
    found, most = finding, _EXPLAINS * (finding.value - (finding.baseline or 0.0))
    for name, newest in kind.recent[-1].items():
        if (then := kind.stages.get(name)) is None:
            held = [(one.stages[name], one.step) for one in kind.head[3:] if name in one.stages] or [(math.inf, 0)]
            then = kind.stages[name] = median_of([seconds for seconds, _ in held]), held[0][1], held[-1][1]
        if newest - then[0] >= most:
            after = median_of([stages[name] for stages in kind.recent if name in stages][-5:])
            if after - then[0] >= most:
                found, most = finding._replace(extra=(after, *then), words=("blamed", name)), after - then[0]
    return found


class StepSlower(Detector):
    """P1: step time against the run-start baseline, with the noise of its logarithm.

    Lasting growth below the threshold is accumulated by a CUSUM with a slack of one deviation,
    S = max(0, S + min(z, 6) - 1) (Page 1954).
    """

    kinds = [_Kind(), _Kind()]
    work, untrained = Work(), Window(_RECENT)
    has_begun = False
    idle = left_to_tell = 0

    def detect(self, context: RuleContext) -> Finding | None:
        values, warn = context.values, self.thresholds["warn"]
        seconds = values.get("time_step")
        if "time_save" in values or "time_eval" in values:
            seconds = own_time(context.observation)
        begins = not self.has_begun and self._begins(values)
        if seconds is None or seconds <= 0.0:
            return None
        if not self.has_begun:
            self.untrained.push(seconds)
        elif begins:
            self.left_to_tell = _TOLD
        untrained = self.untrained.median
        is_told = self.left_to_tell > 0 and seconds > warn * untrained > 0.0
        if not self.begun and self.left_to_tell > _TOLD - _MIXED and seconds > _TRAINS * untrained > 0.0:
            self.begun, self.kinds = context.observation.record, [_Kind(), _Kind()]
            for one in self.kinds:
                one.start, one.per_token, one.per_length = (Frozen(_MIXED - 1, minimum=_FEW) for _ in range(3))
        self.left_to_tell = max(0, self.left_to_tell - 1)
        kind = self.kinds["response_len_mean" in values or "reward_mean" in values]
        kind.recent.append(context.observation.stages)
        start = kind.start
        base = start.value
        if start.is_final and base is not None and seconds <= warn * base:
            if seconds <= kind.creep_line and kind.crept <= 0.0:
                self.work.total = values.get("num_tokens")
                return QUIET
            return self._creeping(kind, seconds, base, self.work.of(values))
        found = self._against_start(kind, seconds, self.work.of(values), context.observation)
        if is_told and self.begun and found is QUIET:
            steps = [one.step for one in context.recent if one.record < self.begun and "time_step" in one.values]
            at = steps[-_RECENT:][0], steps[-1]
            return Finding(INFO, seconds, self.untrained.median, steps=at, words=("training",))
        return found

    def _begins(self, values: Mapping[str, float]) -> bool:
        """Whether training begins after filling a replay buffer: its own counter, or a loss or gradient, is not 0."""
        count = values.get("steps_trained")
        self.has_begun = count > 0.0 if count is not None else any(values.get(name) for name in _UPDATES)
        self.idle += not self.has_begun
        return self.has_begun and self.idle >= _IDLE

    def _creeping(self, kind: _Kind, seconds: float, base: float, tokens: float | None) -> Finding:
        factor, usual = seconds / base, kind.per_token.value
        if tokens and usual:
            factor = min(factor, seconds / tokens / usual)
        sigma = max(kind.start.log_spread, _CREEP_FLOOR)
        z = (factor - 1.0) / sigma
        # Within one deviation nothing is added, so such a record can be skipped while the sum is 0.
        kind.creep_line = base * (1.0 + sigma)
        kind.crept = min(max(0.0, kind.crept + min(z, _CREEP_REACH) - 1.0), 2.0 * self.thresholds["creep"])
        is_noticed = factor >= self.thresholds["slight"] and base >= self.thresholds["short_s"]
        if kind.crept <= self.thresholds["creep"] or not is_noticed:
            return QUIET
        return Finding(INFO, seconds, base, self.thresholds["warn"] * base)

    def _against_start(self, kind: _Kind, seconds: float, tokens: float | None, seen: Observation) -> Finding:
        start, length = kind.start, seen.values.get("response_len_mean")
        base = start.value
        if not start.is_final:
            kind.head.append(seen)
            kind.stages.clear()
        thresholds, warn = self.thresholds, self.thresholds["warn"]
        if base is not None and seconds > warn * base:  # the line is higher for a noisy run, and for short steps
            warn = max(warn, start.factor(thresholds["sigmas"]))
            warn = max(warn, thresholds["short_warn"]) if base < thresholds["short_s"] else warn
        works = ((tokens, kind.per_token), (length, kind.per_length))
        paces = [(seconds / work, usual) for work, usual in works if work]
        is_longer = any(pace <= self._line(usual) for pace, usual in paces)
        if base is None or seconds <= warn * base or is_longer:
            start.push(seconds)
            for pace, usual in paces:
                usual.push(pace)
            if base is None or not paces or seconds <= warn * base:
                return QUIET
            pace = paces[0][0] / (paces[0][1].value or math.nan)
            if not pace <= thresholds["per_token"]:
                return QUIET  # within noise, but the pace is not unchanged
            return Finding(INFO, seconds, base, thresholds["warn"] * base, (seconds / base / pace, pace), ("longer",))
        start.skip_value()
        return _blaming(kind, Finding(WARN, seconds, base, warn * base))

    def _line(self, usual: Frozen) -> float:
        """Upper limit of seconds per token within the run's own noise."""
        factor = max(self.thresholds["per_token"], min(_MOST_PACE, usual.factor(_PACE_SIGMAS)))
        return 0.0 if usual.value is None else factor * usual.value

    def headline(self, finding: Finding) -> str:
        base = finding.baseline or 0.0
        now = measure_like(finding.value, Unit.SECONDS, base)
        text = f"step time {duration(base)} → {now}"
        if finding.words == ("longer",):
            pace = "unchanged" if abs(finding.extra[1] - 1.0) < _SAME_PACE else f"{number(finding.extra[1])}×"
            return f"{text}: {self.work.word} {number(finding.extra[0])}×, time per token {pace}"
        if finding.words == ("training",):
            return f"{text} since training began: the new baseline"
        if finding.value <= (finding.threshold or 0.0):
            by = f"{percent(finding.value / base - 1.0)} above the baseline ({duration(base)})"
            return f"step time up over many steps: now {now}, {by}"
        if not finding.words:
            return text
        rise, (after, before, *_) = finding.value - base, finding.extra
        grown = min(after - before, rise)  # the median of some steps may be more
        return f"{text}; {finding.words[1]} accounts for +{duration(grown)} ({grown / rise * 100:.0f} %)"

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        found = names.of(finding)
        if "blamed" not in finding.words:
            return found
        (after, before, first, last), name = finding.extra, finding.words[1]
        was = Evidence(f"{name}, baseline", before, Unit.SECONDS, (int(first), int(last)))
        return (*found, Evidence(name, after, Unit.SECONDS), was)


class ThroughputDrop(Detector):
    """P3: throughput and model FLOPs utilisation against run start, on records without a checkpoint or validation.

    Both are derived from the step time, so a checkpoint distorts them, unless every record has one. An MFU of 0 means
    that the hardware is unknown.
    """

    is_about_word = True
    start, use, tokens = Frozen(), Frozen(), Frozen()
    first: tuple[int, int] | None = None
    is_plain = False

    def detect(self, context: RuleContext) -> Finding | None:
        values = context.values
        pace, use = values.get("throughput", values.get("throughput_per_gpu", 0.0)), values.get("mfu", 0.0)
        is_distorted = values.get("time_save", 0.0) > 0.0 or values.get("time_eval", 0.0) > 0.0
        if is_distorted and self.is_plain:
            return None
        self.is_plain = self.is_plain or (max(pace, use) > 0.0 and not is_distorted)
        self.first = self.first or (context.place if use > 0.0 else None)
        found = self._against(self.start, pace, context) if pace > 0.0 else None
        if use > 0.0:
            found = worst(found, self._utilisation(use, context))
        self.since = self.first if found is not None and found.words and found.baseline is None else None
        tokens = values.get("total_tokens", 0.0)
        usual = self.tokens.push(tokens) if tokens else None
        if found is None or found.level is not WARN or found.baseline is None or usual is None:
            return found
        # In steps of the same length, fewer tokens alone would lower it that far.
        is_no_slower = found.value >= self.thresholds["warn"] * found.baseline * min(1.0, tokens / usual)
        return found._replace(level=INFO) if is_no_slower else found

    def _against(self, start: Frozen, value: float, context: RuleContext) -> Finding:
        base = start.value if start.is_final else start.push(value, context.observation.step)
        if base is None or value >= base * self.thresholds["warn"]:
            return QUIET
        line = base * min(self.thresholds["warn"], math.exp(-self.thresholds["sigmas"] * start.log_spread))
        return QUIET if value >= line else Finding(WARN, value, base, line, steps=start.steps)

    def _utilisation(self, value: float, context: RuleContext) -> Finding:
        found, base = self._against(self.use, value, context), self.use.value
        if found is not QUIET:
            return found._replace(words=("mfu",))
        most = math.inf if base is None else max(value, base)
        for level, line in ((WARN, self.thresholds["wasted"]), (INFO, self.thresholds["low"])):
            if most < line:
                return Finding(level, value, None, line, words=("mfu",))
        return QUIET

    def headline(self, finding: Finding) -> str:
        fewer = ": fewer tokens per step" if finding.level is INFO else ""
        if not finding.words:
            return super().headline(finding) + fewer
        if finding.baseline is None:
            return f"MFU {percent(finding.value)}, below {percent(finding.threshold or 0)} from the start"
        return f"MFU {percent(finding.baseline)} → {percent(finding.value)} since the baseline{fewer}"


_RAISED = 1.35
"""Above this multiple of the run-start baseline, a step is not typical."""
_SKIPPED, _LEAST, _LEARNT = 3, 10, 30
"""First records excluded from the baseline: compilation and warm-up; how many it needs, and has at most."""
_EVALUATIONS = 2
"""After this many evaluations in steps of typical length, and none in a longer one, step time excludes them."""
_MOST, _DUE, _MUCH_LONGER = 0.5, 0.6, 1.5
"""Share of the added time that must lie in one stage to name it; share of periodic slots that must be slow to call
them periodic; factor from which the longest slow step is mentioned."""
_LATE, _OVER, _NOTHING = 2.5, 10, 0.01
"""The alert ends after this multiple of the longest distance between slow steps, plus this many records: one may go
unjudged. Steps with less than this share of the slow steps' generation time have no rollout of their own."""
_SUMMED, _NEWEST = 300, 15
"""Most records, and most slow steps among them, over which the lost time is summed up."""
_HELD, _SEVERAL = 0.5, 3
"""Hysteresis: the share of a line, and of the way to it, down to which a level holds, as one of few slow steps may go
unjudged. And the fewest slow steps that are reported."""
_EVALUATED = ("val_score", "val_loss", "val_acc", "val_best", "val_passk")


class _Slow(NamedTuple):
    """A slow step, and the ordinary ones since the previous slow one: their number, total seconds and the last."""

    seen: Observation
    seconds: float
    ordinary: int
    between: float
    usual: Observation


class SlowNowAndThen(Detector):
    """P16: most steps are as fast as ever, but now and then, or periodically, one takes a multiple of that."""

    work = Work()
    early: tuple[tuple[Observation, float, float], ...] = ()
    evaluated: tuple[float, ...] = ()
    line, base, pace = math.inf, 0.0, 0.0
    slow: tuple[_Slow, ...] = ()
    longest = (0.0, 0)
    ordinary, between, until, found = 0, 0.0, 0, QUIET
    usual: Observation | None = None
    has_rollouts = was_evaluated = is_outside = is_learnt = False

    def detect(self, context: RuleContext) -> Finding | None:
        seen, values = context.observation, context.values
        seconds = values.get("time_step", 0.0)
        is_block = "P1" in context.standing or "P1" in context.held  # of slow steps: a single slowdown
        if self.slow and (seen.record > self.until + _OVER or (self.found is QUIET and is_block)):
            self.slow, self.found, self.since, self.longest = (), QUIET, None, (0.0, 0)
        if self.is_learnt and seconds <= self.line and not self.slow:
            self.work.total = values.get("num_tokens")
            return QUIET if seconds > 0.0 else None
        tokens = self.work.of(values) or 0.0
        is_explained = seconds <= 0.0 or self._is_explained(context, seconds)
        if self.slow and not self.was_evaluated:
            self.longest = max(self.longest, (seconds, seen.step))
        if is_explained:
            return None
        if self.base:
            self._take(seen, seconds, tokens)
        if not self.is_learnt:
            self._learn((seen, seconds, tokens))
        return QUIET if seen.record > self.until else self.found

    def _is_explained(self, context: RuleContext, seconds: float) -> bool:
        """Whether a checkpoint, an evaluation (now or, by the clock, just before) or reuse of rollouts explains it."""
        values, was_evaluated, least = context.values, self.was_evaluated, _EXPLAINS * seconds
        is_evaluated = "time_eval" not in values and not values.keys().isdisjoint(_EVALUATED)
        is_saved = values.get("time_save", 0.0) > least or context.observation.step in context.checkpoints.on_disk
        self.was_evaluated = is_evaluated or is_saved or values.get("time_eval", 0.0) > least
        if "response_len_mean" in values or "reward_mean" in values:
            self.has_rollouts = True
        elif self.has_rollouts:
            return True
        if was_evaluated or not self.was_evaluated:
            return was_evaluated
        if is_evaluated and not (is_saved or self.is_outside or self.is_learnt):
            self.is_outside = len(self.evaluated) >= _EVALUATIONS and max(self.evaluated) <= _RAISED * self.base
            self.evaluated = (*self.evaluated, seconds)
        return not is_evaluated or is_saved or not self.is_outside

    def _learn(self, one: tuple[Observation, float, float]) -> None:
        """Update the run-start baseline and the threshold."""
        was_known, thresholds, self.early = self.base > 0.0, self.thresholds, (*self.early, one)
        known = self.early[_SKIPPED:]
        if len(known) < _LEAST:
            return
        most = lower_half_of([one for _, one, _ in known], _RAISED)
        fast = [(one, work) for _, one, work in known if one <= most]
        times, paces = [one for one, _ in fast], [one / work for one, work in fast if work]
        self.base, self.pace, self.is_learnt = median_of(times), median_of(paces or [0.0]), len(known) == _LEARNT
        factor = max(thresholds["warn"], math.exp(min(700.0, thresholds["sigmas"] * log_spread_of(times))))
        self.line = self.base * (max(factor, thresholds["short_warn"]) if self.base < thresholds["short_s"] else factor)
        for each in () if was_known else known:
            self._take(*each)  # the baseline is known only now: judge the steps so far as well

    def _take(self, seen: Observation, seconds: float, tokens: float) -> None:
        part, base = (_HELD, self.found.extra[1]) if self.found.level > OK else (1.0, self.base)
        line, pace = [1.0 + part * (one - 1.0) for one in (self.line / self.base, self.thresholds["per_token"])]
        if seconds <= max(line * base, pace * self.pace * tokens):
            self.ordinary, self.between, self.usual = self.ordinary + 1, self.between + seconds, seen
            return
        one = _Slow(seen, seconds, self.ordinary, self.between, self.usual or seen)
        self.slow = (*[each for each in self.slow if each.seen.record > seen.record - _SUMMED][1 - _NEWEST :], one)
        self.ordinary, self.between = 0, 0.0
        self.longest = max(self.longest, (seconds, seen.step))
        # An active alert is judged over all of its slow steps.
        ends = [self.slow[begin:] for begin in range(len(self.slow) + 1 - max(_SEVERAL, int(self.thresholds["n"])))]
        found = ((self._judge(end), end) for end in (ends[:1] if self.found.level > OK else ends))
        self.found, self.slow = next((one for one in found if one[0] is not QUIET), (QUIET, self.slow))
        apart = [after.seen.record - before.seen.record for before, after in pairwise(self.slow)]
        self.since = None if self.found is QUIET else self.since or self._begun(min(apart))
        self.until = seen.record + (int(_LATE * max(apart)) if self.found.level > OK else _SUMMED)

    def _begun(self, apart: int) -> tuple[int, int]:
        """Place of the first slow step; one among the first records counts if it is as far before the others."""
        first = self.slow[0].seen
        for seen, seconds, _ in reversed(self.early[:_SKIPPED]):
            if seconds > self.line and seen.record == first.record - apart:
                first = seen
        return first.record, first.step

    def _judge(self, slow: tuple[_Slow, ...]) -> Finding:
        """Judge the time that slow steps have added since the first of them, which itself does not count."""
        thresholds, (first, *taken), newest = self.thresholds, slow, slow[-1]
        ordinary, records = sum([one.ordinary for one in taken]), newest.seen.record - first.seen.record
        if ordinary < len(taken):
            return QUIET
        typical = sum([one.between for one in taken]) / ordinary
        # Leave out the longest: one long pause is not a pattern.
        longest = max(taken, key=lambda one: one.seconds)
        mean = (sum([one.seconds for one in taken]) - longest.seconds) / (len(taken) - 1)
        share = (lost := (mean - typical) * len(taken)) / (lost + typical * max(ordinary + len(taken), thresholds["m"]))
        lines = ((WARN, thresholds["costs"]), (INFO, thresholds["info"]))
        held = [level for level, line in lines if share >= line * (_HELD if self.found.level >= level else 1.0)]
        gens = [(one.seen.values.get("time_gen", 0.0), one.usual.values.get("time_gen", 0.0)) for one in taken]
        gen, before = [median_of(each) for each in zip(*gens, strict=True)]
        if not held or (gen > 0.5 * mean and before < _NOTHING * gen):
            return QUIET  # the latter: only this step has a rollout, the others generate nothing
        stage = _stage_of(taken, mean - typical)
        least = min(apart := [after.seen.record - before.seen.record for before, after in pairwise(slow)])
        pace = max((two.seen.step - one.seen.step) / (two.seen.record - one.seen.record) for one, two in pairwise(slow))
        is_periodic = math.gcd(*apart) == least >= thresholds["apart"] and len(taken) * least >= _DUE * records
        period = pace * least if is_periodic else 0.0
        is_rare = not period and len(taken) < thresholds["often"] * records
        level = INFO if typical < thresholds["short_s"] or stage in _SYNC or is_rare else held[0]
        extra = (mean, typical, float(len(slow)), records + 1.0, period, *map(float, self.longest))
        return Finding(level, share, None, thresholds["costs" if level is WARN else "info"], extra, (stage,))

    def headline(self, finding: Finding) -> str:
        (stage, *_), (slow, base, count, held, period, longest, step) = finding.words, finding.extra
        often = (
            f"every {_ordinal(int(period))} step takes" if period else f"{count:.0f} of the last {held:.0f} steps took"
        )
        costs = f"{percent(finding.value)} of the time ({duration(slow)}, the rest {duration(base)})"
        most = f"; up to {duration(longest)}, step {step:,.0f}" if longest > _MUCH_LONGER * slow else ""
        unknown = "no checkpoint" if self.is_outside else "no checkpoint or evaluation"
        what = ("weight sync" if stage in _SYNC else stage) if stage else unknown
        return f"{often} {number(slow / base)}×: {costs}{most}; {what} accounts for it"


def _stage_of(slow: Sequence[_Slow], added: float) -> str:
    """The stage in which most of the added time of slow steps lies; empty if none is known."""
    found, last = ("", 0.0), slow[-1].seen
    for name in (*[each for each in _SYNC if each in last.values], *last.stages):
        both = [
            (at.values if name in _SYNC else at.stages).get(name, 0.0) for one in slow for at in (one.seen, one.usual)
        ]
        grown = median_of([now - before for now, before in zip(both[::2], both[1::2], strict=True)])
        found = max(found, (name, grown), key=lambda one: one[1])
    return found[0] if found[1] > _MOST * added else ""


def _ordinal(count: int) -> str:
    ending = "th" if count % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count}{ending}"


_KNOWN_RECORDS = 64
"""By this record the baselines of logged stages are final."""
_EVERY = 4
"""Auxiliary stages and unaccounted time are not urgent: only every fourth record is read."""
_SYNC = ("time_weight_sync", "time_weight_sync_infer")
_LIGHT = ("time_adv", "time_reward", "time_dump", "time_load_data")
"""Stages that should take next to no time."""
_HEAVY = ("time_ref", "time_old_log_prob", "time_values")
"""Passes over the whole batch."""
_LINES = {**dict.fromkeys(_LIGHT, "light"), **dict.fromkeys(_HEAVY, "heavy"), **dict.fromkeys(_SYNC, "sync")}
_SPOKEN = {"time_eval": "evaluation"}
_ALIKE = 0.1
"""A time within this share of its baseline is unchanged."""
_SYNC_PARTS = {
    "time_weight_sync_pause": "pausing generation",
    "time_weight_sync_barrier": "waiting for all ranks",
    "time_weight_sync_transfer": "the transfer",
}


class _Stage(State):
    start, first, latest = Frozen(), Frozen(skip=0, size=8, minimum=5), Window(5)


class AuxiliaryStage(Detector):
    """P12: a stage other than generation and update takes too much of the step, or many times its earlier time."""

    is_about_word = True
    seen = 0
    stages: dict[str, _Stage] = {}
    tokens, more = Frozen(skip=0, size=8, minimum=5), 1.0
    evaluated: deque[float] = deque(maxlen=100)
    others: deque[float] = deque(maxlen=100)

    def detect(self, context: RuleContext) -> Finding | None:
        values = context.values
        step = values.get("time_step")
        if step and (self.evaluated or "time_eval" in values):
            seconds, own = values.get("time_eval", 0.0), own_time(context.observation)
            self.evaluated.append(seconds)
            self.others.append(step if own == step else max(step - seconds, 0.0))
        self.seen += bool(step)
        if not step or (self.seen > _KNOWN_RECORDS and self.seen % _EVERY):
            return None
        if tokens := values.get("total_tokens", 0.0):
            self.more = max(1.0, tokens / (self.tokens.push(tokens) or tokens))
        found = [self._judge(name, values[name], context) for name in _LINES if name in values]
        if len(self.evaluated) >= self.thresholds["evaluated"]:
            found.append(self._judge_evaluations())
        most = max(found, key=lambda one: (one.level, one.value), default=None)
        if most is None or most is QUIET or most.words[0] not in _SYNC:
            return most
        part = max(_SYNC_PARTS, key=lambda name: values.get(name, 0.0))
        if values.get(part, 0.0) <= 0.5 * most.extra[0]:
            return most
        return most._replace(words=(*most.words, f", {duration(values[part])} of it {_SYNC_PARTS[part]}"))

    def _judge_evaluations(self) -> Finding:
        taken, line = [one for one in self.evaluated if one > 0.0], self.thresholds["absurd"]
        share = sum(taken) / (sum(taken) + sum(self.others)) if taken else 0.0
        if len(taken) < _SEVERAL or share <= line:
            return QUIET
        return Finding(WARN, share, None, line, (median_of(taken), 0.0), ("time_eval",))

    def _judge(self, name: str, seconds: float, context: RuleContext) -> Finding:
        thresholds, least, at = self.thresholds, self.thresholds["grown_s"], context.observation.step
        share = seconds / context.values["time_step"]
        if (stage := self.stages.get(name)) is None:
            stage = self.stages[name] = _Stage()
        base, early = stage.start.push(seconds), stage.first.value
        stage.latest.push(seconds)
        if not stage.first.is_final:
            stage.first.push(seconds)
        elif early is not None and stage.latest.is_above(max(least, thresholds["grown"] * early * self.more)):
            share = share if share <= 1.0 else share / (1.0 + share)
            return Finding(WARN, share, None, None, (seconds, early, at), (name,))
        line = thresholds[_LINES[name]]
        if share <= line or share > 1.0:
            return QUIET
        has_grown = base is not None and seconds > thresholds["rise"] * base * self.more
        has_grown = has_grown and seconds > stage.start.factor(thresholds["sigmas"]) * (base or 0.0)
        is_absurd = name in _LIGHT and share > thresholds["absurd"]
        return Finding(WARN if has_grown or is_absurd else INFO, share, None, line, (seconds, base or 0.0, at), (name,))

    def headline(self, finding: Finding) -> str:
        (name, *parts), (seconds, base, *steps) = finding.words, finding.extra
        what = "weight sync" if name in _SYNC else _SPOKEN.get(name, name.removeprefix("time_"))
        before = f" (baseline {duration(base)})" if base and abs(seconds - base) > _ALIKE * base else ""
        at = f" at step {steps[0]:,.0f}" if steps else ""
        return f"{what} {duration(seconds)}{before}: {percent(finding.value)} of step time{at}{''.join(parts)}"


class Unexplained(Detector):
    """P14: step time that no logged stage accounts for."""

    def detect(self, context: RuleContext) -> Finding | None:
        if context.record % _EVERY:
            return None
        stages = context.observation.stages
        if not stages or context.traits.is_async or not any(stages.values()):
            return None
        seconds = own_time(context.observation)
        if not seconds:
            return None
        extras = context.values.get("time_save", 0.0) + context.values.get("time_eval", 0.0)
        missing = 1.0 - (sum(stages.values()) - extras) / seconds
        if missing <= self.thresholds["info"]:
            return QUIET
        rest = " (without checkpoint and validation)" if extras else ""
        found = missing * seconds, context.observation.step
        return Finding(INFO, missing, None, self.thresholds["info"], found, (rest,))
