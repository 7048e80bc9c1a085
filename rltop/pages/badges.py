"""Active alerts as badges: in two groups, worst first, the rest as a count.

Owns how the verdicts that stand at a step are written in one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rltop import units
from rltop.model import Label, Level, Verdict, VerdictState
from rltop.rows.cells import RowBuilder
from rltop.rows.glyphs import LEVEL_ROLES, Glyphs
from rltop.rows.rows import Row, Target, TargetKind
from rltop.rows.widths import cell_width
from rltop.run.snapshot import Snapshot

GROUPS = ("learning", "system")
_GAP = "  "


class Badge(NamedTuple):
    """One active alert."""

    rule: str
    title: Label
    level: Level
    since_step: int
    is_provisional: bool = False
    stream: str = ""


class BadgeGroup(NamedTuple):
    """The badges of one group and what there is besides.

    Attributes:
        name: learning or system.
        badges: active alerts, worst first.
        quiet: rules that apply to this run and do not fire.
        recovered: rules that fired and recovered a short while ago, `since_step` being where they did.
        muted: rules that were muted, from the screen or by the settings.
        progress: why there is no verdict yet, for example "warm-up 7/30"; empty when there is.
    """

    name: str
    badges: tuple[Badge, ...]
    quiet: int
    recovered: tuple[Badge, ...]
    progress: str = ""
    muted: int = 0


def build_badges(snapshot: Snapshot, verdicts: Sequence[Verdict]) -> tuple[BadgeGroup, ...]:
    """Both groups, from the verdicts that stand at the step on the screen."""
    return tuple(_group(snapshot, name, [verdict for verdict in verdicts if verdict.group == name]) for name in GROUPS)


def _group(snapshot: Snapshot, name: str, verdicts: Sequence[Verdict]) -> BadgeGroup:
    firing = [verdict for verdict in verdicts if verdict.state is VerdictState.FIRING]
    badges = tuple(
        Badge(v.rule, Label.of(_whose(v)), v.level, v.since_step, v.is_provisional, v.stream)
        for v in sorted(firing, key=lambda v: v.urgency)
    )
    fired = {verdict.rule for verdict in firing if not verdict.stream}
    progress = _progress(snapshot)
    # Said only where nothing is being waited for; asking every rule costs the first frame their import.
    muted = snapshot.verdicts.muted | snapshot.verdicts.silenced
    rules = _rules_of(snapshot, name) if not progress or muted else []
    quiet = 0 if progress else sum(rule not in fired and rule not in muted for rule in rules)
    recovered = tuple(
        Badge(v.rule, Label.of(_whose(v)), v.level, v.recovered_step, stream=v.stream)
        for v in verdicts
        if v.state is VerdictState.RECOVERED and v.recovered_step is not None
    )
    return BadgeGroup(name, badges, quiet, recovered, progress, sum(rule in muted for rule in rules))


def _whose(verdict: Verdict) -> str:
    """The name of the symptom, and of the stream where it is not the main one."""
    return f"{verdict.stream} {verdict.title}" if verdict.stream else verdict.title


def _progress(snapshot: Snapshot) -> str:
    if snapshot.now.loading is not None:
        return f"checking {units.share(snapshot.now.loading)}"
    if snapshot.identity is None:
        return "waiting for records"
    if snapshot.verdicts.warm_up is not None:
        return f"warm-up {snapshot.verdicts.warm_up[0]}/{snapshot.verdicts.warm_up[1]}"
    return ""


def _rules_of(snapshot: Snapshot, group: str) -> list[str]:
    """Ids of the rules that can say something about this run: they apply, and their metric is logged."""
    identity = snapshot.identity
    if identity is None:
        return []
    from rltop.rules import profiles, registry  # noqa: PLC0415 - see above

    held = [profiles.PROFILES[name].rules for name in snapshot.verdicts.profiles]
    off = {rule for rules in held for rule, settings in rules.items() if settings.get("enabled") is False}
    return [
        spec.id
        for spec in registry.SPECS
        if spec.group.value == group
        and spec.id not in off - snapshot.verdicts.silenced
        and spec.applies(identity.algorithm, identity.traits)
        and (not spec.metrics or any(name in identity.signals for name in spec.metrics))
        and (not spec.needs_ranks or (snapshot.ranks is not None and not snapshot.ranks.is_measured))
    ]


def paint_badges(groups: Sequence[BadgeGroup], width: int, glyphs: Glyphs, lines: int = 2) -> list[Row]:
    """Both groups beside each other, else one below the other, at most `lines` rows."""
    middle = max(width // 2 - 6, _wanted(groups[0], glyphs) + 4) if groups else 0
    if lines < 2 or (middle + _wanted(groups[-1], glyphs) <= width):
        builder = RowBuilder(width, glyphs)
        if middle + _least(groups[-1]) > width:
            middle = max(12, width - _wanted(groups[-1], glyphs) - 1)
        for i, group in enumerate(groups):
            stop = middle - 2 if i == 0 and len(groups) > 1 else width
            _paint_group(builder.to(i * middle), group, stop, glyphs)
        return [builder.row()]
    rows = []
    for group in groups:
        builder = RowBuilder(width, glyphs)
        _paint_group(builder, group, width, glyphs)
        rows.append(builder.row())
    return rows


def _parts(badge: Badge, glyphs: Glyphs) -> str:
    doubt = "?" if badge.is_provisional else ""
    return f"{glyphs.level(badge.level)} {badge.title}{doubt} @{units.step(badge.since_step)}"


def _rest(group: BadgeGroup, shown: int = 0) -> str:
    """What is said behind the badges, `shown` of those that recovered among them."""
    if group.progress:
        return group.progress if not group.muted else f"{group.progress} · {group.muted} muted"
    parts = []
    if len(group.recovered) > shown:
        parts.append(f"{len(group.recovered) - shown} recovered")
    if group.muted:
        parts.append(f"{group.muted} muted")
    if group.quiet:
        parts.append(f"{group.quiet} ok")
    if parts:
        return " · ".join(parts)
    return "" if group.badges else "nothing logged"


def _wanted(group: BadgeGroup, glyphs: Glyphs) -> int:
    """Cells that a group takes when nothing is left out."""
    cells = 1 + len(group.name)
    for badge in group.badges:
        cells += len(_GAP) + cell_width(_parts(badge, glyphs))
    rest = _rest(group)
    return cells + (len(_GAP) + len(rest) if rest else 0)


def _least(group: BadgeGroup) -> int:
    """Cells below which a group says nothing useful."""
    return len(group.name) + (16 if group.badges else 3 + len(_rest(group)))


def _paint_group(builder: RowBuilder, group: BadgeGroup, stop: int, glyphs: Glyphs) -> None:
    builder.add(" ").add(group.name.upper(), "title")
    rest = _rest(group)
    reserve = len(rest) + len(_GAP) if rest else 0
    left_out = 0
    for i, badge in enumerate(group.badges):
        text = _parts(badge, glyphs)
        room = stop - builder.column - len(_GAP)
        is_last = i == len(group.badges) - 1
        if left_out or cell_width(text) > room - (0 if is_last else 5):
            short = f"{glyphs.level(badge.level)} {badge.title}"
            if left_out or i or cell_width(short) > room:
                left_out += 1
                continue
            text = short
        builder.add(_GAP).add(
            text, LEVEL_ROLES[badge.level], Target(TargetKind.VERDICT, badge.rule, stream=badge.stream)
        )
    if left_out and builder.column + 5 <= stop:
        builder.add(f"{_GAP}+{left_out}", LEVEL_ROLES[group.badges[-1].level])
    shown = 0
    for badge in group.recovered if not left_out else ():
        text = f"{glyphs.recovered} {badge.title} recovered @{units.step(badge.since_step)}"
        if cell_width(text) + len(_GAP) + reserve > stop - builder.column:
            break
        builder.add(_GAP).add(text, "dim", Target(TargetKind.VERDICT, badge.rule, stream=badge.stream))
        shown += 1
    rest = _rest(group, shown)
    if rest and builder.column + len(rest) + len(_GAP) <= stop:
        builder.add(_GAP).add(rest, "dim")
