"""The completions of a group, and the text of one of them.

Owns the columns of the list and the lines of the text. Text is wrapped once per width; very long text is cut in the
middle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rltop import units
from rltop.model import Label
from rltop.model.completions import Completion, Passage, RolloutText, TextPlace
from rltop.pages.page import Effect, Moment, Open, Push, Redraw
from rltop.pages.rollouts import (
    LOW_ROWS,
    RolloutPage,
    RolloutsView,
    build_rollouts,
    count_or_dash,
    flat,
    number_or_dash,
    paint_nothing,
    paint_parts,
    paint_trail,
    reasons,
)
from rltop.rows.glyphs import UNICODE, Glyphs, char_width, is_single
from rltop.rows.rows import Row, RowBuilder, Target, TargetKind, clip, clip_middle, rule_row, text_row, text_rows, wrap
from rltop.rows.table import Column, Fit, Sorting, Table, amount, paint_table, sort_items
from rltop.stats.groups import GroupSummary
from rltop.structs import NamedTuple, Remembered

SHOWN_CHARS = 400_000
"""Most characters of a text that are shown; the middle of a longer one is omitted."""
_END_CHARS = 100_000
_TAB = 4
_ROOMY = 60


class CompletionsView(NamedTuple):
    """One group of a step.

    Attributes:
        rank: rank of the group within the step, from 0.
        group: None if the step does not have it, or is still being read.
    """

    rollouts: RolloutsView
    rank: int
    group: GroupSummary | None
    completions: tuple[Completion, ...]
    order: Sorting

    def find(self, place: TextPlace | None) -> tuple[int, Completion] | None:
        """The completion that begins at `place`, and its rank; else the first."""
        for i, each in enumerate(self.completions):
            if each.places[:1] == (place,):
                return i, each
        return (0, self.completions[0]) if self.completions else None


def build_completions(rollouts: RolloutsView, name: str, sorting: Sorting | None = None) -> CompletionsView:
    found = rollouts.group(name)
    order = sorting or Sorting(_unit(rollouts))
    if found is None or rollouts.shelved is None:
        return CompletionsView(rollouts, 0, None, (), order)
    rank, group = found
    view = CompletionsView(rollouts, rank, group, tuple(group.completions), order)
    if sorting is None:
        return view
    rows = sort_items(_rows(view), completion_columns(view, 0, UNICODE), sorting)
    return view._replace(completions=tuple(row.completion for row in rows))


# -- the completions of a group --------------------------------------------------------------------------------------


def paint_completions(view: CompletionsView, width: int, glyphs: Glyphs, *, is_low: bool = False) -> list[Row]:
    """A header on the group, then a row per completion; `is_low` shortens the header for a low screen."""
    group = view.group
    if group is None:
        head = paint_trail(view.rollouts, (), width, glyphs).row()
        return [head, Row(()), *paint_nothing(view.rollouts, width, glyphs)]
    builder = paint_trail(view.rollouts, (f"group {_name(group, width)}",), width, glyphs)
    note = f"{units.count(view.rank + 1)} of {units.count(len(view.rollouts.groups))} by {view.rollouts.order.head}"
    if builder.room > len(note) + 3:
        builder.pad_to(width - len(note) - 1).add(note, "note")
    rows = [builder.row(), *paint_parts(_group_parts(view, group, width), width, glyphs)[: 3 if is_low else None]]
    prompt = view.rollouts.prompts[group.name]
    for i, line in enumerate(wrap(prompt, width - 9, 1 if is_low else 2) if prompt else ()):
        rows.append(RowBuilder(width, glyphs).add(" ").left("prompt" if i == 0 else "", 7, "dim").add(line).row())
    rows.append(rule_row(width, glyphs))
    table = Table(
        completion_columns(view, width, glyphs),
        _rows(view),
        target=lambda row: Target(TargetKind.COMPLETION, _key(row.completion), view.rollouts.step),
        sorting=view.order,
        is_sortable=True,
        sign=lambda row: (glyphs.threshold if row.completion.is_truncated else "", "warn"),
    )
    return [*rows, *paint_table(table, width, glyphs)]


def _name(group: GroupSummary, width: int) -> str:
    return clip_middle(Label.of(group.name).display or "all", max(8, width - 40))


def _group_parts(view: CompletionsView, group: GroupSummary, width: int) -> list[tuple[str, str]]:
    parts = [("", units.counted(len(group.completions), "completion"))]
    if group.lengths and group.middle is not None:
        unit = view.rollouts.unit
        parts.append(("longest ", f"{units.count(group.lengths[0])} {unit}"))
        parts.append(("median ", units.number(group.middle)))
    if group.ratio is not None:
        usual = view.rollouts.usual
        text = (
            ""
            if usual is None or width < _ROOMY
            else f" (19 of 20 normal groups: below {units.number(usual.one_group)})"
        )
        parts.append(("ratio ", units.number(group.ratio) + text))
    if group.gini is not None:
        parts.append(("Gini ", units.percent(group.gini)))
    if group.reward_mean is not None:
        spread = "" if group.reward_std is None else f" ± {units.number(group.reward_std)}"
        parts.append(("reward ", units.number(group.reward_mean) + spread))
    if group.cut is not None:
        parts.append(("truncated ", f"{units.count(group.cut)} of {units.count(len(group.completions))}"))
    if group.discarded:
        parts.append(("discarded ", reasons(group.discarded)))
    return parts


class _Row(NamedTuple):
    number: str
    completion: Completion
    length: float | None


def completion_columns(view: CompletionsView, width: int, glyphs: Glyphs) -> Sequence[Column[_Row]]:
    """The columns of a group's completions; fields that none of them has are left out."""
    longest = view.group.lengths[0] if view.group is not None and view.group.lengths else 0.0
    bar, stop = 24 if width >= 160 else 16 if width >= 110 else 10, 18 if width >= 110 else 9

    def field(head: str, name: str, priority: int, say: Callable[[float | None], str], least: int) -> Column[_Row]:
        has_it = any(getattr(each, name) is not None for each in view.completions)
        role = "value" if say is number_or_dash else "text"
        return Column(
            head, lambda row: (say(getattr(row.completion, name)) if has_it else "", role), least=least,
            priority=priority, sort=lambda row: getattr(row.completion, name),
        )  # fmt: skip

    def draw(row: _Row, cells: int) -> tuple[str, str]:
        return _bar(row.length, longest, cells, glyphs), "warn" if row.completion.is_truncated else "spark"

    return (
        Column("#", lambda row: (row.number, "key"), Fit.NAME, least=5, most=10),
        amount(_unit(view.rollouts), lambda row: row.length, count_or_dash, least=7, gap=1),
        Column("", draw, Fit.DRAWN, least=bar, most=bar, priority=5, gap=1, drawn_width=lambda row: bar),
        field("reward", "reward", 1, number_or_dash, 7),
        field("advantage", "advantage", 3, number_or_dash, 9),
        Column("stop", _stop, Fit.TEXT, least=8, most=stop, priority=4),
        field("turns", "turns", 6, count_or_dash, 5),
        field("tools", "tool_calls", 7, count_or_dash, 5),
        field("stale", "off_policy_steps", 8, count_or_dash, 6),
        Column("text", lambda row: (flat(row.completion.opening), "dim"), Fit.TEXT, least=12, priority=2),
    )  # fmt: skip


def _unit(rollouts: RolloutsView) -> str:
    return rollouts.unit if rollouts.unit == "tokens" else "chars"


def _stop(row: _Row) -> tuple[str, str]:
    one = row.completion
    text = one.discarded or one.stop or ("truncated" if one.is_truncated else "")
    return flat(text), "note" if one.discarded else "warn" if one.is_truncated else "text"


def _number(index: int, completion: Completion) -> str:
    return Label.of(completion.number).display or str(index + 1)


def _rows(view: CompletionsView) -> list[_Row]:
    shelved = view.rollouts.shelved
    return [
        _Row(_number(i, each), each, shelved.rollouts.length(each) if shelved is not None else None)
        for i, each in enumerate(view.completions)
    ]


def _key(completion: Completion) -> str:
    place = completion.places[0] if completion.places else TextPlace("", 0)
    return f"{place.start} {place.size} {place.path}"


def place_of(key: str) -> TextPlace:
    start, size, path = key.split(" ", 2)
    return TextPlace(path, int(start), int(size))


def _bar(length: float | None, top: float, cells: int, glyphs: Glyphs) -> str:
    if length is None or top <= 0.0:
        return ""
    eighths = len(glyphs.bar_ends)
    filled = round(length / top * cells * eighths)
    full, rest = divmod(filled, eighths)
    return glyphs.bar * full + (glyphs.bar_ends[rest - 1] if rest else "")


# -- one completion --------------------------------------------------------------------------------------------------


def paint_completion(
    view: CompletionsView, rank: int, text: RolloutText | None, width: int, glyphs: Glyphs
) -> list[Row]:
    """One of the completions of a group.

    Args:
        rank: its place among them, from 0.
        text: None while it is being read.
    """
    group = view.group
    if group is None:
        return paint_completions(view, width, glyphs)
    completion = view.completions[rank]
    trail = (f"group {_name(group, width - 20)}", f"completion {_number(rank, completion)}")
    builder = paint_trail(view.rollouts, trail, width, glyphs)
    by = "length" if view.order.head == _unit(view.rollouts) else view.order.head
    note = f"{units.count(rank + 1)} of {units.count(len(view.completions))} by {by}"
    if builder.room > len(note) + 3:
        builder.pad_to(width - len(note) - 1).add(note, "note")
    rows = [builder.row(), *paint_parts(_facts(view.rollouts, completion, group), width, glyphs)]
    if text is None:
        return [*rows, rule_row(width, glyphs), text_row("reading ...", width, glyphs, "dim")]
    facts = [(f"{Label.of(key).display} ", clip(flat(value), max(8, width // 2))) for key, value in text.facts]
    rows += paint_parts(facts[:24], width, glyphs)
    if text.note:
        rows += text_rows(Label.of(text.note).display, width, glyphs, "warn")
    for passage in text.passages:
        rows.append(_heading(passage, width, glyphs))
        rows += [text_row(line, width, glyphs) for line in _lines(passage.text, width - 2)]
    return rows


def _heading(passage: Passage, width: int, glyphs: Glyphs) -> Row:
    name = clip(Label.of(passage.heading).display, width - 24)
    size = units.counted(len(passage.text), "character")
    builder = RowBuilder(width, glyphs).add(glyphs.rule * 2 + " ", "rule").add(name, "title").add(f"  {size} ", "dim")
    return builder.add(glyphs.rule * max(0, builder.room), "rule").row()


def _facts(view: RolloutsView, completion: Completion, group: GroupSummary) -> list[tuple[str, str]]:
    shelved = view.shelved
    length = shelved.rollouts.length(completion) if shelved is not None else None
    parts: list[tuple[str, str]] = []
    if length is not None:
        times = f", {length / group.middle:.3g}× the median" if group.middle else ""
        parts.append(("", f"{units.count(length)} {view.unit}{times}"))
    for name, value in (("reward ", completion.reward), ("advantage ", completion.advantage)):
        if value is not None:
            parts.append((name, units.number(value)))
    if completion.stop or completion.is_truncated:
        cut = ", truncated" if completion.is_truncated else ""
        parts.append(("ended by ", (flat(completion.stop) or "limit") + cut))
    for name, number in (
        ("turns ", completion.turns),
        ("tool calls ", completion.tool_calls),
        ("staleness in steps ", completion.off_policy_steps),
    ):
        if number is not None:
            parts.append((name, units.count(number)))
    if completion.discarded:
        parts.append(("discarded ", flat(completion.discarded)))
    return parts


def _lines(text: str, width: int) -> Iterator[str]:
    if len(text) > SHOWN_CHARS:
        left_out = len(text) - SHOWN_CHARS
        yield from _lines(text[: SHOWN_CHARS - _END_CHARS], width)
        yield f"... {units.count(left_out)} characters omitted ..."
        text = text[-_END_CHARS:]
    for line in text.replace("\r\n", "\n").split("\n"):
        shown = Label.of(line.expandtabs(_TAB)).display
        if not shown:
            yield ""
        while shown:
            cut = _fitting(shown, width)
            yield shown[:cut].rstrip()
            shown = shown[cut:]


def _fitting(text: str, width: int) -> int:
    """Number of characters that fit into one line: up to a blank in its second half, else mid-word."""
    if is_single(text[: width + 1]):
        if len(text) <= width:
            return len(text)
        most = width
    else:
        most = cells = 0
        for char in text:
            cells += char_width(char)
            if cells > width:
                break
            most += 1
        if most == len(text):
            return most
    blank = text.rfind(" ", 0, most + 1)
    return blank + 1 if blank > most // 2 else max(1, most)


class CompletionsPage(RolloutPage):
    details = frozenset({TargetKind.COMPLETION})
    search_hint = "a part of what a completion begins with"

    def __init__(self, group: str, group_order: Sorting | None = None) -> None:
        super().__init__()
        self._group = group
        self._group_order = group_order

    def _view(self, moment: Moment) -> CompletionsView:
        step = build_rollouts(moment.snapshot, self._group_order)
        return build_completions(step, self._group, self.sorting)

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        view = self._view(moment)
        self.sorting = view.order
        return paint_completions(view, width, moment.glyphs, is_low=height < LOW_ROWS)

    def search_text(self, target: Target, moment: Moment) -> str:
        found = None if target.kind is not TargetKind.COMPLETION else self._view(moment).find(place_of(target.name))
        return "" if found is None else f"{found[1].opening}\n{found[1].stop}"

    def open(self, target: Target, moment: Moment) -> Effect | None:
        return super().open(target, moment) if target.kind is not TargetKind.COMPLETION else self._text(target, moment)

    def details_of(self, target: Target, moment: Moment, height: int) -> Sequence[Open | Push]:
        return (self._text(target, moment),)

    def _text(self, target: Target, moment: Moment) -> Push:
        group = self._view(moment).group
        name = group.name if group is not None else self._group
        return Push(CompletionPage(name, place_of(target.name), self._group_order, self.sorting))

    def neighbour(self, by: int, moment: Moment) -> Effect | None:
        view = self._view(moment)
        at = view.rank + by
        if not 0 <= at < len(view.rollouts.groups):
            return None
        self._group = view.rollouts.groups[at].name
        return Redraw()


class CompletionPage(RolloutPage):
    search_hint = "a part of the text"

    def __init__(
        self,
        group: str,
        place: TextPlace,
        group_order: Sorting | None = None,
        order: Sorting | None = None,
    ) -> None:
        super().__init__()
        self._group = group
        self._place = place
        self._group_order = group_order
        self._order = order
        self._remembered = Remembered()

    def _list(self, moment: Moment) -> CompletionsView:
        step = build_rollouts(moment.snapshot, self._group_order)
        return build_completions(step, self._group, self._order)

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        group = self._list(moment)
        found = group.find(self._place)
        shelf = moment.snapshot.rollouts
        if found is None or shelf is None:
            return paint_completions(group, width, moment.glyphs)
        rank, completion = found
        text = shelf.text(completion)
        # Compared by identity: equality would compare every completion of the step.
        of_step = (group.rollouts.step, id(group.rollouts.shelved))
        known = (width, moment.glyphs.name, *of_step, rank, completion, id(text))
        return self._remembered.of("rows", known, lambda: paint_completion(group, rank, text, width, moment.glyphs))

    def neighbour(self, by: int, moment: Moment) -> Effect | None:
        group = self._list(moment)
        found = group.find(self._place)
        at = -1 if found is None else found[0] + by
        if not 0 <= at < len(group.completions) or not group.completions[at].places:
            return None
        self._place = group.completions[at].places[0]
        return Redraw(from_top=True)
