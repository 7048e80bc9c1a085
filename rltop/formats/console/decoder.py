"""Console logs → records: the `slurm-123.out` that every run leaves.

Most of a log is not metrics. A search for a few byte strings rejects most lines; only the rest is decoded and matched.
Carriage returns end lines like line feeds, because progress bars are drawn in front of metric lines, and thousands of
them may form one long line.

Counts: `lines` are lines of the file, `rows` are records. A metric line that was cut or mixed with other text is one
bad line, but its complete values are kept. Other lines are not bad lines.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from rltop.formats.console.failures import Causes, ConsoleError, PrintedSamples, error_of, of_one_end, says_done
from rltop.formats.console.lines import (
    CAPTURE_CHARS,
    LineMetrics,
    Row,
    front_of,
    has_step_and_number,
    mark_of,
    names_rank,
    plain,
    read_line,
    read_pairs,
    read_stepless,
    strip_escapes,
    without_prefix,
)
from rltop.formats.console.scan import (
    MAX_METRIC_BYTES,
    Hit,
    HitKind,
    LineScanner,
    parted,
)
from rltop.formats.console.steps import Bar, LoopSteps, RolloutSteps, StepCounter, UnnumberedRows, read_bar
from rltop.formats.decoder import FATAL_S, Decoder, DecoderOptions
from rltop.formats.rows import RecordBuilder, number_of, step_of
from rltop.model import Counts, FilePosition, NonFinite, Record, Schema
from rltop.model.keys import STEP_KEYS, TRAINER_STEP_KEYS, is_evaluation_key, is_training_row
from rltop.regex import regex

# -- tables in a console log that hold one row of metrics: a name and a number per line ----------------------------
# tinker prints a box below `Step N`; Stable-Baselines3, Baselines and Spinning Up print a table between two lines of
# dashes, with the step in it. open-instruct prints a panel with one line per group, wrapped at 80 columns. EasyR1
# prints a tree below `Step N`: groups with indented names and numbers. NeMo-RL prints lists of `• name: number` below
# `===== Step N/M =====`, Composer and rsl_rl names and numbers below `[batch=N/M]:` and `Learning iteration N/M`,
# AReaL a grid of alternating names and numbers below `Train step N/M done.` Values are extracted with patterns; a
# table without metrics is not counted as a bad line.

MAX_LINE_BYTES = 1024
"""Longer lines are not part of such a table."""
_TITLE = regex(
    r"\s*[╭=#*~─━-]{0,24}\s*(?:[Ss]tep|[Ii]teration)[ :]{1,2}(?P<step>\d{1,15})(?: ?/ ?\d{1,15})?"
    r"\s*[╮=#*~─━-]{0,24}\s*$"
)
_RULE = regex(r"\s*[-+=]{8,}\s*$")
_FLOOR = regex(r"\s*[└╰][─┴]{3,}[┘╯]\s*$")
_LINE = regex(
    r"\s*(?P<side>[|│])(?P<indent> {0,16})(?P<key>[^\s|│](?:[^|│]{0,119}[^ |│])?) *"
    r"[|│] *(?P<value>(?:[^ |│](?:[^|│]{0,38}[^ |│])?)?) *[|│]\s*$"
)
"""Key and value must not end in a space, to limit backtracking over the spaces of a wide cell."""
_CUT = ("…", "...")
_NESTED = 3
"""A key indented by more spaces belongs to the group above it."""
_MAX_GAP = 2
_MAX_HEAD = 4
"""Most other lines between two lines of a table, and between its title and the first line."""
_MAX_ROWS = 512
_SIGNS = ("loss", "rew", "ret", "kl", "entropy", "success", "exploitability")
_COUNTS = ("total_timesteps", "misc/total_timesteps", "TotalEnvInteracts", "TimestepsSoFar", "nupdates", "Iteration",
           "Epoch", "epoch", "t")  # fmt: skip
"""Keys that count steps only in such tables, most trusted first."""


_PANEL_LINE = regex(r"\s*│(?P<inside>[^│]*)│\s*$")
_PANEL_END = regex(r"\s*╰─{3,}╯\s*$")
_GROUP = regex(r" {2}(?P<group>\w\S{0,39}) {2,}(?P<rest>\S.*)$")
_GOES_ON = " " * 5
_NO_GROUP = "other"
_FEWEST_GROUPED = 3
"""A panel with fewer grouped metrics is not a metric panel."""


class PanelReader:
    """Parses a panel line by line: `group  name: number | name: number`, wrapped if long."""

    def __init__(self) -> None:
        self._groups: list[tuple[str, list[str]]] = []
        self._start = 0

    def take(self, text: str, offset: int) -> LineMetrics | None:
        line = _PANEL_LINE.match(text)
        if line is None:
            found = self._row() if _PANEL_END.match(text) is not None else None
            self._groups = []
            return found
        inside = line["inside"].rstrip()
        named = _GROUP.match(inside)
        if named is not None and len(self._groups) < _MAX_ROWS:
            self._start = offset if not self._groups else self._start
            self._groups.append((named["group"], [named["rest"]]))
        elif self._groups and inside.startswith(_GOES_ON) and len(self._groups[-1][1]) < _MAX_ROWS:
            self._groups[-1][1].append(inside.strip())
        else:
            self._groups = []
        return None

    def _row(self) -> LineMetrics | None:
        row: dict[str, object] = {}
        for group, parts in self._groups:
            for each in " ".join(parts).split(" | "):
                name, _, value = each.strip(" |").rpartition(":")
                if name and isinstance(number_of(value.strip()), float | NonFinite):
                    row[name if group == _NO_GROUP else f"{group}/{name}"] = value.strip()
        step = next((step_of(row.pop(key)) for key in STEP_KEYS if key in row), None)
        is_of_metrics = sum("/" in key for key in row) >= _FEWEST_GROUPED
        return LineMetrics(step, row, offset=self._start) if isinstance(step, int) and is_of_metrics else None


_LIST_TITLE = regex(r"\s*={8,} Step (?P<step>\d{1,15})/(?P<total>\d{1,15}) ={8,}\s*$")
_ITEM = regex(r"\s*• (?P<name>[A-Za-z][^:•]{0,80}): (?P<value>\S{1,40}?)(?P<seconds>s)?(?: (?P<rest>.{0,40}))?$")
_TAGS = {
    "Loss": "train/loss",
    "Draft Loss": "train/draft_loss",
    "Generation KL Error": "train/gen_kl_error",
    "Avg Reward": "train/reward",
    "Avg Total Reward": "train/reward",
    "Avg Filtered Reward": "train/filtered_reward",
    "Mean Generation Length": "train/mean_gen_tokens_per_sample",
    "Buffer Size": "train/buffer_size",
    "Avg Trajectory Age": "train/avg_trajectory_age",
    "Mean Total Tokens per Sample": "performance/mean_total_tokens_per_sample",
    "Total step time": "timing/train/total_step_time",
    "Accuracy": "validation/accuracy",
    "Average response length": "validation/avg_length",
    "Validation loss": "validation/val_loss",
    "Total validation time": "timing/validation/total_validation_time",
}
"""NeMo-RL's printed names → the keys under which it logs the same numbers."""
_NAMED = regex(r"(?P<validation>Validation )?(?P<name>[a-z_0-9]{1,60}(?:/[a-z_0-9]{1,60}){0,4})$")


class RowReader:
    def __init__(self) -> None:
        self._row: dict[str, object] = {}

    @property
    def is_inside(self) -> bool:
        return bool(self._row)


class ListReader(RowReader):
    """Parses lists; items on consecutive lines are a row of the step in the last title.

    The title counts within an epoch: after the last step of an epoch, a restarting count continues.
    """

    def __init__(self) -> None:
        super().__init__()
        self._step: tuple[int, int] | None = None
        self._before = 0
        self._number = self._title = self._start = -1

    def take(self, text: str, number: int, offset: int) -> LineMetrics | None:
        title = _LIST_TITLE.match(text)
        if title is not None:
            found = self.finish()
            step = int(title["step"]), int(title["total"])
            if self._step is not None and step[0] == 1 and self._step[0] == self._step[1] > 1:
                self._before += self._step[1]
            self._step, self._title = step, offset
            return found
        item = _ITEM.match(text) if self._step is not None and "•" in text else None
        key = _tag_of(item) if item is not None else ""
        if item is None or not key or not isinstance(number_of(item["value"]), float | NonFinite):
            return None
        found = self.finish() if number - self._number > 1 else None
        self._start, self._number = self._title, number
        self._row[key] = item["value"]
        return found

    def finish(self) -> LineMetrics | None:
        row, self._row = self._row, {}
        if self._step is None or not row:
            return None
        step, total = self._step
        return LineMetrics(self._before + step, row, total=None if self._before else total, offset=self._start)


def _tag_of(item: re.Match[str]) -> str:
    """The key under which an item's number is logged; "" if it is only printed."""
    name, named = item["name"], _NAMED.match(item["name"])
    if named is None:
        return _TAGS.get(name, "")
    if named["validation"]:
        return f"validation/{named['name']}"
    return f"timing/train/{name}" if item["seconds"] else f"train/{name}"


_GRID_TITLE = regex(r"(?<![\w-])Train step (?P<step>\d{1,15})/(?P<total>\d{1,15}) done\.\s*$")


class GridReader(RowReader):
    """Parses grids: alternating names and numbers, several per line, below a title."""

    def __init__(self) -> None:
        super().__init__()
        self._title: tuple[int, int, int] | None = None

    def take(self, text: str, offset: int) -> LineMetrics | None:
        title = _GRID_TITLE.search(text)
        if title is not None:
            found = self.finish()
            self._title = int(title["step"]), int(title["total"]), offset
            return found
        if self._title is None:
            return None
        if "╛" in text:
            return self.finish()
        cells = [cell.strip() for cell in text.split("│")[1:-1]]
        if len(cells) > 2 and len(self._row) < _MAX_ROWS:
            pairs = zip(cells[::2], cells[1::2], strict=False)
            self._row |= {key: value for key, value in pairs if isinstance(number_of(value), float | NonFinite)}
        return None

    def finish(self) -> LineMetrics | None:
        row, self._row = self._row, {}
        if self._title is None or sum("/" in key for key in row) < _FEWEST_GROUPED:
            return None
        step, total, offset = self._title
        return LineMetrics(step, row, total=total, offset=offset)


class TableReader:
    """Parses tables of all kinds, line by line. Lines between tables may be omitted."""

    def __init__(self) -> None:
        self._panel, self._list, self._grid = PanelReader(), ListReader(), GridReader()
        self._title: tuple[int, int, int] | None = None
        self._begin(-1, -1, is_open=False)

    def take(self, text: str, number: int, offset: int) -> LineMetrics | None:
        found = self._panel.take(text, offset) or self._list.take(text, number, offset) or self._grid.take(text, offset)
        if found is not None:
            return found
        title = _TITLE.match(text)
        if title is not None:
            self._title = int(title["step"]), number, offset
            return None
        line = _LINE.match(text)
        if line is not None:
            if line["side"] == "│" and not self._goes_on(number):
                self._begin(number, offset, is_open=True)
            self._add(line, number)
            return None
        is_rule = _RULE.match(text) is not None
        if not is_rule and _FLOOR.match(text) is None:
            return None
        found = self._end() if self._goes_on(number) else None
        if found is None:
            self._begin(number, offset, is_open=is_rule)
        return found

    @property
    def is_inside(self) -> bool:
        return bool(self._row) or self._list.is_inside or self._grid.is_inside

    def finish(self) -> LineMetrics | None:
        return self._end() or self._list.finish() or self._grid.finish()

    def _end(self) -> LineMetrics | None:
        row, step, start = self._row, self._step, self._start
        self._begin(-1, -1, is_open=False)
        for key in (*STEP_KEYS, *_COUNTS) if step is None else ():
            found = step_of(row.get(key))
            if isinstance(found, int):
                step = found
                del row[key]
                break
        if step is None or not any(sign in key.lower() for key in row for sign in _SIGNS):
            return None
        return LineMetrics(step, row, offset=start)

    def _begin(self, number: int, offset: int, *, is_open: bool) -> None:
        self._row: dict[str, object] = {}
        self._group = ""
        self._step: int | None = None
        self._is_open, self._number, self._start = is_open, number, offset
        if is_open and self._title is not None and number - self._title[1] <= _MAX_HEAD:
            self._step, _, self._start = self._title

    def _goes_on(self, number: int) -> bool:
        return self._is_open and number - self._number <= _MAX_GAP and len(self._row) < _MAX_ROWS

    def _add(self, line: re.Match[str], number: int) -> None:
        if not self._goes_on(number):
            self._is_open = False
            return
        self._number = number
        key, value = line["key"], line["value"]
        if len(line["indent"]) <= _NESTED:
            self._group = key if not value and key.endswith("/") else ""
        if not key.endswith(_CUT) and isinstance(number_of(value), float | NonFinite):
            self._row[self._group + key] = value


_TREE_LINE = regex(
    r"(?P<indent>\s*)(?:Train |Eval )?(?P<key>[A-Za-z_][^\s:]{0,127}(?: [^\s:]{1,63}){0,4}) ?:"
    r"(?: (?P<value>\S{1,40}))?\s*$"
)
_BLOCK = regex(r".{0,200}=== \[[^\[\]]{1,80}\] - METRICS STEP (?P<step>\d{1,15}) ===\s*$")
"""A title of torchforge, which contains a process name."""
_FLAT = regex(
    r"\s*(?:(?:\[epoch=\d+\])?\[batch=(?=.*\]:)|Learning iteration (?=\d+/)|[*=#-]{3,80} Iteration )"
    r"(?P<step>\d{1,15})(?:/(?P<total>\d{1,15}))?\]?:?(?: [*=#-]{3,80})?\s*$"
)
"""A title of Composer, rsl_rl or a loop that frames its iterations, whose metrics are not grouped."""
_BATCHES = "time/batch"
_COUNTERS = regex(r"time/(?:batch|epoch|iteration|sample|token)(?:_in_\w+)?")
"""Composer's counters of what came before this batch, which are not durations; the title counts within the epoch."""
_FEWEST, _FEWEST_SURE = 3, 2
"""A tree with fewer numbers is not a metric tree; two are enough with a loss, a reward or the like."""
_YAML = {".nan": "nan", ".inf": "inf", "-.inf": "-inf"}


class TreeReader(RowReader):
    """Parses trees: a title, groups, numbers, and a blank line at the end."""

    def __init__(self) -> None:
        super().__init__()
        self._step: int | None = None
        self._total: int | None = None
        self._start, self._is_flat = 0, False
        self._above: list[tuple[int, str]] = []

    def take(self, text: str, offset: int) -> LineMetrics | None:
        """The row of the tree that this line ends, or None.

        Args:
            text: a line without escape sequences: a title, a line of a tree, or a blank one.
        """
        line = _TREE_LINE.match(text)
        if line is not None:
            self._add(line)
            return None
        found, flat = self.finish(), _FLAT.match(text)
        title = flat or _TITLE.match(text) or _BLOCK.match(text)
        if title is not None:
            self._step, self._start, self._is_flat = int(title["step"]), offset, flat is not None
            self._total = int(flat["total"]) if flat is not None and flat["total"] else None
        return found

    def finish(self) -> LineMetrics | None:
        step, row = self._step, self._row
        self._step, self._row, self._above = None, {}, []
        has_sign = any(sign in key.lower() for key in row for sign in _SIGNS)
        is_of_metrics = has_sign or self._is_flat or any("/" in key for key in row)
        if step is None or len(row) < (_FEWEST_SURE if has_sign else _FEWEST) or not is_of_metrics:
            return None
        batches = step_of(row.get(_BATCHES))
        if self._total:
            row = {key: value for key, value in row.items() if not _COUNTERS.fullmatch(key)}
            step = batches + 1 if isinstance(batches, int) else step
        total = self._total if step <= (self._total or 0) else None
        return LineMetrics(step, row, total=total, offset=self._start)

    def _add(self, line: re.Match[str]) -> None:
        indent, value = len(line["indent"]), line["value"]
        while self._above and self._above[-1][0] >= indent:
            self._above.pop()
        if value is None:
            self._above.append((indent, line["key"]))
            return
        value = _YAML.get(value, value)
        if self._step is not None and isinstance(number_of(value), float | NonFinite):
            self._row["/".join((*(name for _, name in self._above), line["key"]))] = value


# -- the decoder -----------------------------------------------------------------------------------------------------

_TAIL_BYTES = 64 * 1024
"""Size of the newest output that is searched for a line saying that the run is done."""
_MAX_BAR_BYTES = 1024
_MAX_TITLE_BYTES = 192
_MAX_BARS = 64
_MAX_WAITING = 256
"""Most rows without a step that wait for a progress bar; with more, they are numbered with what is known."""
_QUOTED_CHARS = 40
_OF_ROWS = HitKind.METRIC | HitKind.TREE
_OWN_STEP_KEYS = ("step", "global_step", "global_step/max_steps")


def _may_tell(hit: Hit) -> bool:
    return bool(hit.kind & HitKind.BAR) and (b"=" in hit.line or hit.line.count(b": ") > 1)


@dataclass(slots=True)
class _Waiting:
    """A row waiting for its step: a training row for its own, any other for that of the row before."""

    found: LineMetrics
    position: FilePosition
    is_training: bool


class ConsoleDecoder(Decoder):
    """Metric lines and tables of veRL, TRL, OpenRLHF, tinker, AReaL, Stable-Baselines3 and others in a console log.

    Attributes:
        last_error: the newest error, or None.
    """

    def __init__(self, options: DecoderOptions | None = None) -> None:
        self.options = options or DecoderOptions()
        self.counts = Counts()
        self._mark = mark_of(self.options.writer) if self.options.writer else None
        self._scanner = LineScanner(self.counts)
        self._uncertain: Hit | None = None
        """A line that may continue on the next one."""
        self._builder = RecordBuilder(self.counts, self.options.step_key)
        self._waiting: deque[_Waiting] = deque()
        self._generation = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.last_error: ConsoleError | None = None
        self._newest_offset = self._end = 0
        self._tail = b""
        self._causes, self._samples = Causes(), PrintedSamples()
        self._bars: dict[int, int] = {}
        """Total of each bar → its newest progress before the newest error."""
        self._has_bar_moved = False
        self._is_of_row = self._is_in_part = False
        """Is the line that a terminal wrapped a row, and has its loss been counted?"""
        self._steps = StepCounter()
        self._next_steps = StepCounter()
        self._last_step = 0
        self._named_total: int | None = None
        self._is_summed_up = False
        self._has_trainer_rows = False
        """If a trainer logs rows, lines that look like a custom loop's are ignored, but for evaluations."""
        self._has_loop_rows = False
        self._head: LineMetrics | None = None
        """Step without metrics yet, named on line `_goes_on_from`."""
        self._goes_on_from: int | None = None
        """Number of the last parsed line of a loop: pairs on the next line belong to it."""
        self._added: set[str] = set()
        """Keys of the pairs that such lines added to the newest step: where they repeat, they are of another."""
        self._bar_offset, self._bar_done, self._bar_epoch = 0, 0, math.inf
        self._loop, self._loop_unit = LoopSteps(), ""
        self._drawn: Row = {}
        self._table, self._tree = TableReader(), TreeReader()
        self._rollouts = RolloutSteps()
        self._has_evaluations, self._cut_rows = False, 0
        self._schema: Schema | None = None
        self._validation: LineMetrics | None = None
        """A validation printed before the row of its step."""
        self._newest_keys: tuple[str, ...] = ()
        self._stepless_row: tuple[str, Row] = "", {}
        """The newest row without a step, and the launcher prefix of its line."""
        self._stepless = self._remarks = 0
        """Lines that lack only a step, counted until the first row comes."""
        self._unnumbered = UnnumberedRows()

    @property
    def failure(self) -> str:
        """The newest error, unless a row or a further advanced bar has come since, which shows that the run went on."""
        error = self.last_error
        has_gone_on = error is None or error.rows_before != self._row_count or self._has_bar_moved
        return "" if error is None or has_gone_on else error.words

    @property
    def is_done(self) -> bool:
        behind = self._tail[max(0, len(self._tail) - (self._end - self._newest_offset)) :].decode("utf-8", "replace")
        return any(map(says_done, strip_escapes(behind).splitlines()))

    @property
    def dies_after_s(self) -> float:
        return FATAL_S if self.last_error is None else self.last_error.dies_after_s

    @property
    def _row_count(self) -> int:
        held_back = len(self._waiting) + (self._validation is not None)
        return self.counts.rows + self.counts.no_step_lines + self._remarks + held_back

    def feed(self, data: bytes, offset: int, generation: int) -> list[Record]:
        self._generation, self._end = generation, offset + len(data)
        self._tail = (data if len(data) >= _TAIL_BYTES else self._tail + data)[-_TAIL_BYTES:]
        records: list[Record] = []
        for hit in self._scanner.feed(data, offset):
            self._await_rest(hit, records)
        return records

    def flush(self) -> list[Record]:
        """Rows waiting for a bar that is drawn but not overwritten yet, or for the rest of a wrapped line."""
        records: list[Record] = []
        for hit in (*self._scanner.flush(), None):
            self._await_rest(hit, records)
        self._release_validation(records)
        if self._waiting:
            self._take_bar(self._scanner.pending[:_MAX_BAR_BYTES], records)
        return records

    @property
    def holds_back(self) -> bool:
        """May the last line or table contain a row, or does one wait for its step?"""
        return (
            bool(self._waiting or self._validation or self._uncertain)
            or self._scanner.is_inside
            or self._table.is_inside
            or self._tree.is_inside
        )

    def finish(self) -> list[Record]:
        records: list[Record] = []
        for hit in (*self._scanner.finish(), None):
            self._await_rest(hit, records)
        self._take_table(self._table.finish(), records)
        self._take_table(self._tree.finish(), records)
        self._release_validation(records)
        self._release(self._steps.flush(), records)
        self._release_rest(records)
        return records

    def reset(self, *, is_restart: bool = True) -> None:
        """A new file starts: forget the partial line and, if the writer restarted, row numbers and the error."""
        self._scanner.reset()
        self._uncertain, self._tail, self._newest_offset = None, b"", 0
        if not is_restart:
            return
        self.counts.no_step_lines += len(self._waiting)
        self._waiting.clear()
        self._begin_anew()

    def _await_rest(self, hit: Hit | None, records: list[Record]) -> None:
        """Process a line once it is known whether a terminal wrapped it; None processes the pending one."""
        before, self._uncertain = self._uncertain, None
        if before is not None:
            if hit is not None:
                before, hit = parted(before, hit)
            self._take(before, records)
        if hit is not None and hit.columns and (hit.part > 1 or hit.kind & _OF_ROWS == HitKind.METRIC):
            self._uncertain = hit
        elif hit is not None:
            self._take(hit, records)

    def _take(self, hit: Hit, records: list[Record]) -> None:
        if self._mark is not None:
            mark = self._mark.match(hit.line)
            if mark is None:
                return
            if len(hit.line) < CAPTURE_CHARS - 1:  # truncation is recognised by the length
                hit = hit._replace(line=hit.line[mark.end() :].removeprefix(b" "))
        if hit.kind & HitKind.BAR:  # a bar is at the start of the line, so it was drawn before the rest
            self._take_bar(hit.line[:_MAX_BAR_BYTES], records)
        is_of_tree = False
        if hit.kind & HitKind.TREE:
            text = without_prefix(plain(hit.line[:MAX_LINE_BYTES].decode("utf-8", "replace")))
            self._take_table(self._tree.take(text, hit.offset), records)
            is_of_tree = _TITLE.match(text) is None  # pairs may follow a title, too
        is_of_row = not is_of_tree and (hit.kind & (HitKind.METRIC | HitKind.MORE) or _may_tell(hit))
        if is_of_row and len(hit.line) <= MAX_METRIC_BYTES:
            self._take_line(hit, records)
        if len(hit.line) <= (MAX_LINE_BYTES if hit.kind & HitKind.TABLE else _MAX_TITLE_BYTES):
            text = without_prefix(plain(hit.line.decode("utf-8", "replace")))
            self._take_table(self._table.take(text, hit.number, hit.offset), records)
        if hit.kind & HitKind.ERROR:
            self._note_error(hit)

    def _take_line(self, hit: Hit, records: list[Record]) -> None:
        text = hit.line.decode("utf-8", "replace")
        all_found = read_line(text, is_ended=hit.is_ended) if hit.kind & (HitKind.METRIC | HitKind.BAR) else []
        for found in [] if self._are_of_other_rank(text, all_found) else all_found:
            found.offset = hit.offset
            if not found.is_of_loop:
                self._has_trainer_rows = True
            elif self._has_trainer_rows or (found.is_guess and found.is_of_bar and self._has_loop_rows):
                self._take_evaluation(found, hit.number, records)
                continue
            elif (found.is_head and not self._unnumbered.step) or (found.is_guess and self._has_loop_rows):
                self._take_head(found, hit, text)
                continue
            if found.validation:
                self._take_validation(found, records)
                continue
            if found.is_of_bar:
                self._go_on_counting(found, is_again=self._is_drawn_again(found, text))
            elif found.is_of_loop and (self._is_drawn_again(found, text) or not self._number_loop(found)):
                continue
            elif found.is_of_loop:
                self._head, self._goes_on_from = None, None if found.is_over else hit.number
                self._added.clear()
                self._has_loop_rows = self._has_loop_rows or not found.is_guess
            self._take_row(found, hit.number, records)
        is_next = self._goes_on_from is not None and hit.number - self._goes_on_from <= 1
        may_go_on = is_next and not (all_found or self._has_trainer_rows or self._unnumbered.step)
        more = read_pairs(text, is_ended=hit.is_ended, is_rest=hit.part > 1) if may_go_on else None
        more = more if more is not None and self._added.isdisjoint(more.row) else None
        self._note_wrap(hit, text, all_found, is_read=bool(all_found or more))
        if more is None:
            has_rows = self._row_count - self._remarks - self._unnumbered.rows > self._stepless
            if not (all_found or has_rows) and hit.kind & HitKind.METRIC and hit.is_ended:
                self._note_stepless(text, hit, records)
            return
        if self._head is not None:
            self._has_loop_rows = True
            more.step, more.total, more.row = self._head.step, self._head.total, self._head.row | more.row
            more.is_more, more.unit = False, self._head.unit
        self._head, self._goes_on_from = None, hit.number
        self._added |= more.row.keys()
        if self._number_loop(more):
            more.offset = hit.offset
            self._take_row(more, hit.number, records)
            self._unnumbered.rows += not more.step  # may be the first of rows without a step

    def _take_evaluation(self, found: LineMetrics, number: int, records: list[Record]) -> None:
        """Take what a loop of one's own says of an evaluation, beside a trainer's rows: it belongs to the newest."""
        if not (found.is_evaluation and self._row_count):
            return
        newest = self._rollouts.last
        found.step = None if newest is None else newest if found.unit == "epoch" else min(found.step or 0, newest)
        found.total = None
        self._take_row(found, number, records)

    def _is_drawn_again(self, found: LineMetrics, text: str) -> bool:
        """Are these the numbers of the previous bar, as when it is redrawn at the start of an epoch?"""
        told = {key: value for key, value in found.row.items() if key != "epoch"}
        known, self._drawn = self._drawn, told if "it [" in text or found.is_of_bar else {}
        return bool(told) and told == known

    def _take_head(self, found: LineMetrics, hit: Hit, text: str) -> None:
        if not self._row_count and (len(found.row) > 1 or has_step_and_number(text)):
            self.counts.miss_form(strip_escapes(text).strip(), hit.number)
        self._head, self._goes_on_from = (found, hit.number) if hit.part <= 1 else (None, None)
        self._added.clear()

    def _note_wrap(self, hit: Hit, text: str, all_found: Sequence[LineMetrics], *, is_read: bool) -> None:
        """Count a row once if part of it was lost because a terminal wrapped its line."""
        if not hit.part:
            return
        was_row = self._is_of_row and hit.part > 1
        self._is_in_part = (self._is_in_part and hit.part > 1) or any(found.lost for found in all_found)
        self._is_of_row = was_row or bool(all_found) or (hit.part == 1 and read_stepless(text) is not None)
        is_whole = is_read and hit.is_ended and (hit.part == 1 or was_row)
        if self._is_in_part or is_whole or not (self._is_of_row and text.strip()):
            return
        self._is_in_part = True
        reason = f"wrapped by a terminal, what it cut is left out: “{strip_escapes(text).strip()[-_QUOTED_CHARS:]}”"
        self.counts.refuse(hit.number, reason, is_lost=False)

    def _are_of_other_rank(self, text: str, all_found: Sequence[LineMetrics]) -> bool:
        """Does a row without a step repeat one that another rank or process printed?"""
        if not all_found or all_found[0].step is not None or all_found[0].validation:
            return False
        row, front = all_found[0].row, front_of(text)
        before, known = self._stepless_row
        if front != before and before and row.keys() == known.keys():
            is_same = row["epoch"] == known["epoch"] if "epoch" in row else row == known
            if is_same or (names_rank(front) and names_rank(before)):
                self.counts.repeated_rows += 1
                return True
        self._stepless_row = front, dict(row)
        return False

    def _note_stepless(self, text: str, hit: Hit, records: list[Record]) -> None:
        found = read_stepless(text)
        if found is None and has_step_and_number(text) and not self._unnumbered.step:
            self.counts.miss_form(strip_escapes(text).strip(), hit.number)
        if found is None or self._are_of_other_rank(text, [found]):
            return
        found.offset = hit.offset
        if self.options.may_count_rows and not self.options.step_key:
            self._add_numbered(self._unnumbered.take(found), records)
        if not self._unnumbered.step:
            self._stepless += 1
            self.counts.miss_step(found.row, hit.number)
            if self._stepless == 1:
                self.counts.first_stepless += "; only the step is missing"

    def _add_numbered(self, numbered: Sequence[LineMetrics], records: list[Record]) -> None:
        for row in numbered:
            self._pass_remarks()
            self._newest_offset = row.offset
            records.append(self._builder.build(row.step or 0, row.row, FilePosition(self._generation, row.offset)))
        self.counts.numbered_rows += len(numbered)

    def _take_bar(self, line: bytes, records: list[Record]) -> None:
        bar = read_bar(without_prefix(plain(line.decode("utf-8", "replace"))))
        if bar is None:
            return
        self._note_bar(bar)
        if bar.is_named:
            self._named_total = bar.total
            self.counts.bar = f"{bar.done:,} of {bar.total:,}"
        else:
            self._release(self._steps.see(bar), records)
            if self._is_summed_up:
                self._next_steps.see(bar)

    def _note_bar(self, bar: Bar) -> None:
        """Compare with the bar before the newest error: if it has advanced, the run goes on."""
        if bar.total in self._bars or len(self._bars) < _MAX_BARS:
            self._has_bar_moved |= bar.done > self._bars.get(bar.total, bar.done)
            self._bars[bar.total] = bar.done

    def _note_error(self, hit: Hit) -> None:
        line = plain(hit.line[:2048].decode("utf-8", "replace"))
        if self._samples.take(line, hit.number):
            return
        self._causes.take(line, hit.number)
        error = error_of(line, hit.number, hit.offset, self._row_count)
        if error is not None:
            self.last_error = of_one_end(self.last_error, error)
        if self.last_error is not None and self.last_error.rows_before == self._row_count:
            self.last_error = self.last_error._replace(detail=self._causes.detail(self.last_error.text.raw))
        if error is None:
            return
        self._has_bar_moved = False

    # -- rows -------------------------------------------------------------------------------------------------------

    def _take_table(self, found: LineMetrics | None, records: list[Record]) -> None:
        if found is not None:
            self._has_trainer_rows = True
            self._take_row(found, 0, records)

    def _take_validation(self, found: LineMetrics, records: list[Record]) -> None:
        """An initial validation waits for the row of its step; a final one is added to the newest row."""
        if found.validation == "Initial":
            self._release_validation(records)
            self._validation = found
            return
        found.row = {key: value for key, value in found.row.items() if key not in self._newest_keys}
        if found.row:
            found.step = self._rollouts.last or 0
            self._take_row(found, 0, records)

    def _release_validation(self, records: list[Record], row: LineMetrics | None = None) -> None:
        """Emit the waiting validation, merged into the row of its step if that has only evaluations."""
        found, self._validation = self._validation, None
        if found is None:
            return
        if row is None:
            found.step = self._rollouts.last or 0
        elif all(map(is_evaluation_key, row.row)):
            row.row = found.row | row.row
            return
        else:
            found.step = max(0, (row.step or 0) - 1)
        self._take_row(found, 0, records)

    def _take_row(self, found: LineMetrics, number: int, records: list[Record]) -> None:
        position = FilePosition(self._generation, found.offset)
        self._newest_offset = found.offset
        self._pass_remarks()
        if found.lost:
            self._note_lost(found, number)
        self.counts.nested_values += found.nested
        if self.options.step_key in found.row:
            found.step = found.rollout = None
        if found.rollout is not None:
            found.step = self._rollouts.step_of(found.rollout)
        elif found.step is not None:
            self._release_validation(records, found)
            self._rollouts.see(found.step)
            if not found.validation:
                self._newest_keys = tuple(found.row)
        if found.step is not None:
            is_beside = found.is_of_loop and found.is_evaluation
            self._add_numbered(self._unnumbered.take_evaluation(found) if is_beside else (), records)
            records.append(self._builder.build(found.step, found.row, position, found.total or self._named_total))
            if self._unnumbered.step and not self._unnumbered.is_at(found):  # what was numbered is not of this run
                records[-1], self._unnumbered = records[-1]._replace(is_new_end=True), UnnumberedRows()
            schema = records[-1].schema
            if schema is not self._schema and not self._has_evaluations:
                self._schema, self._has_evaluations = schema, any(map(is_evaluation_key, schema.keys))
        elif any(key in found.row for key in (self.options.step_key, *_OWN_STEP_KEYS)):
            record = self._builder.from_row(found.row, position)
            if record is not None:
                records.append(record)
                self._rollouts.see(record.step)
        elif self.options.may_count_rows:
            self._count_row(found, position, records)
        else:
            self.counts.no_step_lines += 1

    def _pass_remarks(self) -> None:
        if self._stepless or self.counts.unread_lines:
            self.counts.no_step_lines -= self._stepless
            self._remarks += self._stepless
            self._stepless = self.counts.unread_lines = 0
            self.counts.first_stepless = self.counts.first_unread = ""

    def _go_on_counting(self, found: LineMetrics, *, is_again: bool) -> None:
        done, total, epoch = found.step or 0, found.total, number_of(found.row.get("epoch"))
        is_next = isinstance(epoch, float) and epoch > self._bar_epoch
        if done < self._bar_done or (is_next and not (is_again and done == self._bar_done)):
            self._bar_offset += total or self._bar_done
        self._bar_done, self._bar_epoch = done, epoch if isinstance(epoch, float) else math.inf
        found.step = self._bar_offset + done
        found.total = None if self._bar_offset else total

    def _number_loop(self, found: LineMetrics) -> bool:
        """Set the step of a line from a loop; False if it cannot be determined."""
        if found.step is not None and any(key in found.row for key in TRAINER_STEP_KEYS):
            # `step` and `total` may count within an epoch.
            found.row["step"], found.total = found.step, None
            step = self._builder.take_step(found.row)
            found.step = step if isinstance(step, int) else None
        elif found.is_more and (found.step is None or (self._loop.last is not None and self._loop_unit != "epoch")):
            is_first = self._loop.last is None and any(map(is_evaluation_key, found.row))
            found.step, found.total = 0 if is_first else self._loop.last, None
        elif found.is_of_engine and self._loop_unit:
            found.step = self._loop.last
        elif not found.is_of_engine and self._loop_unit not in ("", "epoch", found.unit):
            return False  # epochs are steps only until something counts within them
        elif found.step is None and not self.options.may_count_rows:
            self.counts.no_step_lines += 1
        else:
            epoch = number_of(found.row.get("epoch"))
            epoch = epoch if isinstance(epoch, float) else None
            step = self._loop.number(found.step, epoch, is_evaluation=found.is_evaluation)
            found.total = found.total if step == found.step else None
            found.step = step
            if step is not None and not found.is_of_engine:
                self._loop_unit = found.unit
        return found.step is not None

    def _note_lost(self, found: LineMetrics, number: int) -> None:
        if found.is_cut:
            self._cut_rows += 1
            is_longer = self._has_evaluations and 2 * self._cut_rows <= self._row_count
            self.counts.cut_evaluations += any(map(is_evaluation_key, found.row)) or is_longer
        what = f"line cut at {CAPTURE_CHARS:,} characters" if found.is_cut else "incomplete metric line"
        reason = f"{what}; {len(found.row)} values could be read"
        self.counts.refuse(number, reason, is_lost=False)

    def _count_row(self, found: LineMetrics, position: FilePosition, records: list[Record]) -> None:
        is_training = is_training_row(found.row)
        if is_training and self._is_summed_up:
            self._begin_next(records)
        self._waiting.append(_Waiting(found, position, is_training))
        if is_training:
            epoch = number_of(found.row.get("epoch"))
            self._release(self._steps.add(epoch if isinstance(epoch, float) else None), records)
        elif len(self._waiting) == 1:
            self._release_rest(records)
        if len(self._waiting) > _MAX_WAITING:
            self._release(self._steps.flush(), records)
        if "train_runtime" in found.row:
            self._release(self._steps.flush(), records)
            self._is_summed_up = True
            self._next_steps = StepCounter()

    def _begin_next(self, records: list[Record]) -> None:
        self._release(self._steps.flush(), records)
        self._steps, self._last_step = self._next_steps, 0
        self._is_summed_up = False

    def _release(self, steps: list[int], records: list[Record]) -> None:
        for step in steps:
            while self._waiting:
                row = self._waiting.popleft()
                if row.is_training:
                    self._last_step = step
                records.append(self._record(row))
                if row.is_training:
                    break
        if steps:
            self._release_rest(records)

    def _release_rest(self, records: list[Record]) -> None:
        while self._waiting and not self._waiting[0].is_training:
            records.append(self._record(self._waiting.popleft()))

    def _record(self, row: _Waiting) -> Record:
        return self._builder.build(self._last_step, row.found.row, row.position, self._steps.total)
