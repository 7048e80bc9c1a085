"""The settings that runs were started with: all of one run, and the differences between several.

Owns the order of differences and the short names of settings; `run.run_settings` decides which files are read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, ClassVar

from rltop import units
from rltop.model import Label
from rltop.pages.page import Effect, ListPage, Moment, Say
from rltop.regex import regex
from rltop.rows.glyphs import Glyphs, cell_width
from rltop.rows.rows import Row, RowBuilder, Target, TargetKind, fill, text_row, text_rows
from rltop.rows.table import Column, Fit, Table, paint_table
from rltop.structs import NamedTuple

if TYPE_CHECKING:
    from rltop.pages.run_entry import RunEntry
    from rltop.run.run import Run
    from rltop.run.run_settings import RunSettings, SettingsFile

NOT_SET = units.UNKNOWN
_MOST_VALUE = 60
_LEAST_VALUE = 6
_HEAD_ROWS = 2
_MOST_COLUMNS, _MOST_COLUMN = 6, 24
"""Most settings shown as columns of a table of runs, and the most cells of one."""

_FIRST = (
    "lr", "learning_rate", "kl_loss_coef", "kl_coef", "kl_penalty_coef", "beta", "clip_ratio", "epsilon", "cliprange",
    "temperature", "num_generations", "rollout.n", "group_size", "train_batch_size", "per_device_train_batch_size",
    "ppo_mini_batch_size", "gradient_accumulation_steps", "batch_size", "max_response_length", "max_completion_length",
    "max_steps", "num_train_epochs", "total_epochs", "adv_estimator", "loss_type", "entropy_coeff", "model.path",
    "model_name_or_path", "model", "model_name", "warmup_ratio", "warmup_steps", "weight_decay", "max_grad_norm",
    "seed",
)  # fmt: skip
"""The settings that are changed most often from run to run, by the trainers' names."""
_RANKS = {name: rank for rank, name in enumerate(_FIRST)}
_SAYS_NOTHING = frozenset({"n", "path", "name", "type", "value", "size", "enable", "enabled", "max", "min"})
_NAMES_OF_RUNS = regex(
    r"(?:^|[._])(?:\w*_dir|\w*dir_name|run_name|run_id|experiment_name|exp_name|project_name|wandb_name|log_path|"
    r"logging_dir|hub_model_id|hostname|host|port|pid|ip|timestamp|\w*_time|start_date|name)$"
)
"""Settings that differ in every run because they name the run or its location."""


class Difference(NamedTuple):
    """A setting in which runs differ.

    Attributes:
        short: shortest end of the name that is unique among the differences.
        values: one per run; None if its settings are unknown, `NOT_SET` if it lacks this one.
        is_name: it names the run or its location, so it always differs.
    """

    name: str
    short: str
    values: tuple[str | None, ...]
    is_name: bool

    @property
    def known(self) -> int:
        return sum(value not in (None, NOT_SET) for value in self.values)


def differences(runs: Sequence[RunSettings | None]) -> list[Difference]:
    """The settings in which runs differ: the most often changed ones first, those that only name a run last.

    Args:
        runs: the settings of each run; None if unknown so far.
    """
    known = [one.values for one in runs if one is not None and one.values]
    if len(known) < 2:
        return []
    names = list(dict.fromkeys(name for values in known for name in values))
    differing = [name for name in names if len({_told(values, name) for values in known}) > 1]
    shorts = short_names(differing)
    found = [
        Difference(
            name,
            shorts[name],
            tuple(_told(one.values, name) if one is not None and one.values else None for one in runs),
            _rank(name) == len(_RANKS) and bool(_NAMES_OF_RUNS.search(name)),
        )
        for name in differing
    ]
    return sorted(found, key=lambda one: (one.is_name, NOT_SET in one.values, _rank(one.name)))


def _told(values: Mapping[str, str | float | None], name: str) -> str:
    return Label.of(units.setting(values[name])).display if name in values else NOT_SET


def _rank(name: str) -> int:
    parts = name.replace("/", ".").casefold().split(".")
    return min(_RANKS.get(parts[-1], len(_RANKS)), _RANKS.get(".".join(parts[-2:]), len(_RANKS)))


def by_interest(names: Iterable[str]) -> list[str]:
    """Names of settings, the most often changed ones first, the rest in the given order."""
    return sorted(names, key=_rank)


def short_names(names: Sequence[str]) -> dict[str, str]:
    """The shortest end of each dotted name that no other name has, if need be the whole name."""
    taken: dict[str, int] = {}
    ends = {name: [".".join(name.split(".")[at:]) for at in range(name.count("."), -1, -1)] for name in names}
    for each in ends.values():
        for end in each:
            taken[end] = taken.get(end, 0) + 1
    return {
        name: next((end for end in each if taken[end] == 1 and end.casefold() not in _SAYS_NOTHING), name)
        for name, each in ends.items()
    }


def setting_columns(
    found: Sequence[Difference], place_of: Callable[[RunEntry], int | None], priority: int
) -> Sequence[Column[RunEntry]]:
    """The first differing settings as columns of a table of runs.

    Args:
        place_of: row → index of its run among the compared ones; None if it was not compared.
        priority: of the first column; when space is short, each is dropped before the one to its left.
    """

    def column(number: int, one: Difference) -> Column[RunEntry]:
        def value(row: RunEntry) -> str:
            place = place_of(row)
            return "" if place is None else one.values[place] or ""

        def sort(row: RunEntry) -> float | str | None:
            return _size(value(row)) if are_numbers else value(row).casefold() or None

        are_numbers = all(told is None or _size(told) is not None for told in one.values)
        head = Label.of(one.short).display
        return Column(
            head, lambda row: (value(row), "note"), Fit.NAME, least=max(_LEAST_VALUE, cell_width(head)),
            most=max(_MOST_COLUMN, cell_width(head)), priority=priority + number, sort=sort,
        )  # fmt: skip

    shown = [one for one in found if not one.is_name and one.known >= len(one.values) / 2]
    return [column(number, one) for number, one in enumerate(shown[:_MOST_COLUMNS])]


def _size(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def paint_differences(
    found: Sequence[Difference], signs: Sequence[tuple[str, str]], baseline: int, width: int, glyphs: Glyphs
) -> list[Row]:

    def value_of(number: int) -> Column[Difference]:
        def cell(one: Difference) -> tuple[str, str]:
            value = one.values[number]
            if value is None:
                return "?", "dim"
            return value, "text" if number == baseline or value != one.values[baseline] else "dim"

        sign, role = signs[number]
        return Column(
            lambda cells: RowBuilder(cells, glyphs).add(sign, role).row().line, cell, Fit.NAME, least=_LEAST_VALUE,
            most=_MOST_VALUE,
        )  # fmt: skip

    columns = (
        Column[Difference]("setting", lambda one: (Label.of(one.short).display, "note"), Fit.NAME, least=10),
        *(value_of(number) for number in range(len(signs))),
    )
    return paint_table(Table(columns, found), width, glyphs)


class SettingsPage(ListPage[str]):
    tells_counts: ClassVar[bool] = True
    filter_hint = "a part of a name or a value"

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        glyphs = moment.glyphs
        settings = moment.snapshot.run.settings
        if settings is None or not settings.values:
            return fill([_title("", width, glyphs), *_why_none(settings, moment.snapshot.run, width, glyphs)], height)
        values, typed = settings.values, self.query.strip().casefold()
        names = [name for name in values if typed in f"{name} {units.setting(values[name])}".casefold()]
        shown = self.settle(names, height - _HEAD_ROWS)
        count = units.count(len(names)) + (f" of {units.count(len(values))}" if typed else "")
        rows = [_title(count, width, glyphs), _files(settings.files, width, glyphs)]
        columns = (
            Column[str]("", lambda name: (Label.of(name).display, "note"), Fit.NAME, least=16),
            Column[str](
                "", lambda name: (Label.of(units.setting(values[name])).display, "value"), Fit.TEXT,
                least=_LEAST_VALUE, priority=1,
            ),
        )  # fmt: skip
        rows += paint_table(Table(columns, shown, target=self.target), width, glyphs, has_head=False)
        none = [] if shown else [text_row(moment.keys.no_match_text("no setting"), width, glyphs, "dim")]
        return fill(rows + none, height)

    def face(self, moment: Moment) -> Hashable:
        return moment.snapshot.run.settings is not None

    def target(self, line: str) -> Target:
        return Target(TargetKind.SETTING, line)

    def idle(self, moment: Moment) -> Set[str]:
        return super().idle(moment) | {"open"}

    def open(self, target: Target, moment: Moment) -> Effect | None:
        return Say(moment.keys.with_keys_named("{copy-value} copies the value, {find} filters"))


def _title(count: str, width: int, glyphs: Glyphs) -> Row:
    return RowBuilder(width, glyphs).add(" SETTINGS", "title").add(f"  {count}" if count else "", "value").row()


def _files(files: Sequence[SettingsFile], width: int, glyphs: Glyphs) -> Row:
    told = [_last_parts(one.path) for one in files if one.taken]
    failed = [f"{_last_parts(one.path)} not read: {one.trouble}" for one in files if one.trouble]
    builder = RowBuilder(width, glyphs).add(f" from {', '.join(told)}", "dim")
    return builder.add(f"   {'; '.join(failed)}" if failed else "", "warn").row()


def _last_parts(path: str) -> str:
    return Label.of("/".join(path.split("/")[-2:])).display


def _why_none(settings: RunSettings | None, run: Run, width: int, glyphs: Glyphs) -> list[Row]:
    if settings is None:
        waits = "waiting for the first metric file; then settings are looked for beside it"
        return [text_row(waits if run.main.is_awaited else "looking for settings ...", width, glyphs, "dim")]
    text = (
        "No settings file was found next to the metric file. Looked for: .hydra/config.yaml, config.yaml, config.json, "
        "config.toml, training_args.json, args.json, params.json, trainer_state.json, ranges.json, a W&B run and the "
        "arguments in an event file. A copy of the settings under one of these names in the run's folder is shown here."
    )
    failed = [f"{Label.of(one.path).display}: {Label.of(one.trouble).display}" for one in settings.files if one.trouble]
    return [row for each in (text, *failed) for row in text_rows(each, width, glyphs, "dim", lines=8)]
