"""The sentence: the one thing that a person should know now.

Owns its composition: from the state of the file where there is nothing to read,
from the worst verdict and the step's largest cost where something fires, else
from where the time goes and how the goal moves. Says nothing that the run does
not show.
"""

from __future__ import annotations

from collections.abc import Sequence

from rltop import units
from rltop.model import Label, Level, RunState, SpanKind, Verdict, VerdictState
from rltop.structs import NamedTuple
from rltop.view.cells import RowBuilder, wrap
from rltop.view.glyphs import LEVEL_ROLES, Glyphs
from rltop.view.key_metrics import is_difference
from rltop.view.lines import Row, Target, TargetKind
from rltop.view.signals import SignalReading
from rltop.view.source import RunSource
from rltop.view.timings import Stage, TimingView

_TIME_FAMILIES = frozenset({"performance", "straggler", "balance"})
_TALKATIVE_SHARE = 0.02


class Sentence(NamedTuple):
    """What is said, how loud, and what it leads to."""

    text: Label
    level: Level = Level.OK
    target: Target | None = None


def nothing_yet(run: RunSource) -> Sentence | None:
    """What to say while there is not a single number to show; None when there is one."""
    if any(each.stream.keys and each.stream.last_step is not None for each in (run, *run.beside)):
        return None
    grave = _grave(run, None)
    if grave is not None:
        return grave
    if run.failure.raw:
        return Sentence(Label.of(f"no metrics yet, and an error was logged: {run.failure.raw}"), Level.WARN)
    if run.counts.lines:
        lines = f"{units.count(run.counts.lines)} {'line' if run.counts.lines == 1 else 'lines'}"
        # Where nothing could be read as a row, what is wrong with it says more than what it lacks.
        has_read = run.counts.rows or run.counts.no_step_lines
        reason = "" if has_read else run.counts.first_bad_reason
        what = f"; {reason}" if reason else ", none with a number"
        return Sentence(Label.of(f"no metrics yet: {lines} read{what}"), Level.WARN)
    waiting = f"waiting for the first record of {run.name.raw}"
    if run.state is RunState.LOADING:
        waiting = "reading …"
    elif run.kind_note:
        waiting += f"; {run.kind_note}"
    if run.state_note:
        is_of_file = run.state is RunState.WAITING and not run.is_awaited
        waiting = f"{run.path.raw}: {run.state_note}" if is_of_file else run.state_note
    return Sentence(Label.of(waiting), Level.INFO)


def _grave(run: RunSource, worst: Verdict | None) -> Sentence | None:
    """What stands before every verdict: the file is out of sight, or the run has died."""
    if run.state is RunState.LOST:
        return Sentence(Label.of(_lost(run.state_note)), Level.CRIT)
    if run.state is not RunState.DIED:
        return None
    step = run.stream.last_step
    when = "before the first step" if step is None else f"after step {units.step(step)}"
    text = f"died {when}: {run.failure.raw.rstrip('.')}"
    if worst is None or worst.level < Level.WARN:
        return Sentence(Label.of(text), Level.CRIT)
    target = Target(TargetKind.VERDICT, worst.rule, stream=worst.stream)
    return Sentence(Label.of(f"{text}; {worst.headline.rstrip('.')}"), Level.CRIT, target)


def _trouble(run: RunSource) -> Sentence | None:
    """What stands behind every verdict: rows have stopped coming, or an error was logged meanwhile."""
    if run.state in (RunState.STALLED, RunState.WAITING) and run.state_note:
        return Sentence(Label.of(run.state_note), Level.WARN)
    if run.failure.raw and run.state in (RunState.LIVE, RunState.QUIET):
        return Sentence(Label.of(f"an error was logged since the newest step: {run.failure.raw}"), Level.WARN)
    return None


def _lost(note: str) -> str:
    text = note or "the file cannot be read"
    if not text.startswith("lost sight"):
        text = f"lost sight of the file: {text}"
    return text if "still trying" in text else f"{text}; still trying"


def build_sentence(
    run: RunSource,
    verdicts: Sequence[Verdict],
    timing: TimingView | None,
    goal: SignalReading | None,
    at: int | None = None,
) -> Sentence:
    """Compose the sentence.

    Args:
        run: the run.
        verdicts: those that stand at the step on the screen.
        timing: of that step, or None.
        goal: what the run is for: validation, else reward, else loss.
        at: the step of the time cursor.
    """
    empty = nothing_yet(run)
    if empty is not None:
        return empty
    firing = [verdict for verdict in verdicts if verdict.state is VerdictState.FIRING]
    worst = min(firing, key=lambda verdict: verdict.urgency, default=None)
    cost = _cost(timing)
    grave = _grave(run, worst) if at is None else None
    if grave is not None:
        return grave
    if worst is not None and worst.level >= Level.WARN:
        target = Target(TargetKind.VERDICT, worst.rule, stream=worst.stream)
        parts = [worst.headline.rstrip(".")]
        grown = timing is not None and timing.most_grown is not None and timing.most_grown.is_risen
        is_told = timing is None or len(timing.top) < 2 or _mentions(worst.headline, timing)
        if worst.family not in _TIME_FAMILIES and (grown or not is_told):
            parts.append(cost)
        return Sentence(Label.of("; ".join(part for part in parts if part)), worst.level, target)
    trouble = _trouble(run) if at is None else None
    if trouble is not None:
        return trouble
    if run.loading is not None:
        done = f"checking {units.share(run.loading)}"
        what = "the newest rows are shown while history is read" if run.is_preview else "history is being read"
        return Sentence(Label.of(f"{done}: {what}"), Level.INFO)
    is_of_time = worst is not None and run.identity is not None and firing[0].family in _TIME_FAMILIES
    parts = [_opening(run, firing), "" if is_of_time else cost, _movement(goal)]
    return Sentence(Label.of("; ".join(part for part in parts if part)), Level.OK)


def _mentions(headline: str, timing: TimingView | None) -> bool:
    return timing is not None and timing.largest is not None and f"{timing.largest.name.raw} " in headline


def _opening(run: RunSource, firing: Sequence[Verdict]) -> str:
    if run.identity is None:
        return "too few records to tell which trainer wrote them"
    if firing:
        return firing[0].headline.rstrip(".")
    if run.warm_up is not None:
        return f"nothing fires so far, {run.warm_up[0]} of {run.warm_up[1]} records of warm-up"
    return "nothing fires"


def _cost(timing: TimingView | None) -> str:
    """What the step spends its time on, and whether that has grown."""
    if timing is None:
        return ""
    largest, grown = timing.largest, timing.most_grown
    unexplained = sum(stage.share for stage in timing.top if stage.kind is SpanKind.OTHER)
    if largest is not None and unexplained > max(0.5, largest.share):
        return f"{units.share(unexplained)} of the step is in no stage that is logged"
    if largest is None or len(timing.top) < 2 or largest.share < _TALKATIVE_SHARE:
        return f"a step takes {units.duration(timing.median_s or timing.total_s)}"
    if largest.is_longer:
        return longer_words(largest, timing)
    text = f"{largest.name.raw} is {units.share(largest.share)} of the step"
    if grown is not None and grown.is_risen and grown.delta_s is not None:
        name = "it" if grown is largest else grown.name.raw
        text += f", and {name} took {units.duration(grown.delta_s)} more than usual"
    return text


def longer_words(stage: Stage, timing: TimingView) -> str:
    """That a stage cannot have run within the step that is logged."""
    took, whole = units.duration(stage.duration_s), units.duration(timing.total_s)
    return f"{stage.name.raw} took {took}, longer than the whole step of {whole}"


def _movement(goal: SignalReading | None) -> str:
    """How the number that the run is for has moved."""
    if goal is None or goal.point is None or goal.is_nonfinite_now:
        return ""
    metric = goal.signal.metric
    text = f"{metric.title} {units.measure(goal.point.value, metric.unit)}"
    if goal.is_older:
        text += f" at {units.step(goal.point.step)}"
    if goal.baseline is None:
        return text
    moved = units.change(goal.point.value, goal.baseline, metric.unit, is_difference=is_difference(metric))
    return f"{text}, {moved} since the start"


def paint_sentence(sentence: Sentence, width: int, lines: int, glyphs: Glyphs) -> list[Row]:
    """The sentence in at most `lines` rows; never an empty list."""
    role = LEVEL_ROLES[sentence.level] if sentence.level is not Level.OK else "text"
    sign = f"{glyphs.level(sentence.level)} " if sentence.level >= Level.WARN else ""
    rows = []
    for i, text in enumerate(sentence_lines(sentence, width, lines) or [""]):
        builder = RowBuilder(width, glyphs).add(" ").add(sign if i == 0 else " " * len(sign), role).add(text, role)
        rows.append(builder.row(sentence.target))
    return rows


def sentence_lines(sentence: Sentence, width: int, lines: int) -> list[str]:
    """The text of each row that the sentence takes."""
    indent = 4 if sentence.level >= Level.WARN else 2
    return wrap(sentence.text.display, max(1, width - indent), lines)
