"""Tables of a console log that hold one row of metrics: a name and a number on each line.

tinker prints one in a box below `Step N`; Stable-Baselines3, Baselines and Spinning Up print one between two lines of
dashes, with the step in it. open-instruct prints a panel of one line per group, wrapped at 80 columns. EasyR1 prints a
tree below `Step N`: groups, and indented below them names and numbers. NeMo-RL prints lists of `• name: number` below
`===== Step N/M =====`.
Values are cut out with patterns; a table that is no row of metrics is no bad line.
"""

from __future__ import annotations

import re

from rltop.formats.console.lines import LineMetrics
from rltop.formats.rows import number_of, step_of
from rltop.model import NonFinite
from rltop.model.keys import STEP_KEYS
from rltop.regex import regex

MAX_LINE_BYTES = 512
"""A longer line is no line of such a table."""
_FRONT = r"\s*(?:\([^()]{0,80}pid=[^()]{1,60}\)\s*)?"
_TITLE = regex(rf"{_FRONT}[Ss]tep[ :]{{1,2}}(?P<step>\d{{1,15}})\s*$")
_RULE = regex(rf"{_FRONT}[-+=]{{8,}}\s*$")
_FLOOR = regex(rf"{_FRONT}└[─┴]{{3,}}┘\s*$")
_LINE = regex(
    rf"{_FRONT}(?P<side>[|│])(?P<indent> {{0,16}})(?P<key>[^\s|│][^|│]{{0,120}}?) *"
    r"[|│] *(?P<value>[^|│]{0,40}?) *[|│]\s*$"
)
_CUT = ("…", "...")
_NESTED = 3
"""More blanks than these before a key: it stands under the group above it."""
_MAX_GAP = 2
_MAX_HEAD = 4
"""Lines between two of a table, and between its title and the first one."""
_MAX_ROWS = 512
_SIGNS = ("loss", "rew", "ret", "kl", "entropy", "success", "exploitability")
_COUNTS = ("total_timesteps", "misc/total_timesteps", "TotalEnvInteracts", "TimestepsSoFar", "nupdates", "Iteration",
           "Epoch", "epoch", "t")  # fmt: skip
"""Keys that count steps in such tables and nowhere else, most trusted first."""


_PANEL_LINE = regex(rf"{_FRONT}│(?P<inside>[^│]*)│\s*$")
_PANEL_END = regex(rf"{_FRONT}╰─{{3,}}╯\s*$")
_GROUP = regex(r" {2}(?P<group>\w\S{0,39}) {2,}(?P<rest>\S.*)$")
_GOES_ON = " " * 5
_NO_GROUP = "other"
_FEWEST_GROUPED = 3
"""A panel of fewer metrics of groups is none of metrics."""


class PanelReader:
    """Puts the lines of a panel together: `group  name: number | name: number`, wrapped where it is long."""

    def __init__(self) -> None:
        self._groups: list[tuple[str, list[str]]] = []
        self.offset = 0

    def take(self, text: str, offset: int) -> LineMetrics | None:
        line = _PANEL_LINE.match(text)
        if line is None:
            found = self._row() if _PANEL_END.match(text) is not None else None
            self._groups = []
            return found
        inside = line["inside"].rstrip()
        named = _GROUP.match(inside)
        if named is not None and len(self._groups) < _MAX_ROWS:
            self.offset = offset if not self._groups else self.offset
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
        return LineMetrics(step, row) if isinstance(step, int) and is_of_metrics else None


_LIST_TITLE = regex(rf"{_FRONT}={{8,}} Step (?P<step>\d{{1,15}})/(?P<total>\d{{1,15}}) ={{8,}}\s*$")
_ITEM = regex(
    rf"{_FRONT}• (?P<name>[A-Za-z][^:•]{{0,80}}): (?P<value>\S{{1,40}}?)(?P<seconds>s)?(?: (?P<rest>.{{0,40}}))?$"
)
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
"""What NeMo-RL prints in words, by the names under which it logs the same numbers."""
_NAMED = regex(r"(?P<validation>Validation )?(?P<name>[a-z_0-9]{1,60}(?:/[a-z_0-9]{1,60}){0,4})$")


class ListReader:
    """Puts the items of a list together: those of consecutive lines are a row of the step whose title came last.

    The title counts within an epoch: one that begins anew behind the last step of an epoch goes on.

    Attributes:
        offset: where the title of the list that was read last begins.
    """

    def __init__(self) -> None:
        self.offset = 0
        self._step: tuple[int, int] | None = None
        self._before = 0
        self._row: dict[str, object] = {}
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

    @property
    def is_inside(self) -> bool:
        return bool(self._row)

    def finish(self) -> LineMetrics | None:
        row, self._row = self._row, {}
        if self._step is None or not row:
            return None
        self.offset = self._start
        step, total = self._step
        return LineMetrics(self._before + step, row, total=None if self._before else total)


def _tag_of(item: re.Match[str]) -> str:
    """The name under which the number of an item is logged; "" of what is printed alone."""
    name, named = item["name"], _NAMED.match(item["name"])
    if named is None:
        return _TAGS.get(name, "")
    if named["validation"]:
        return f"validation/{named['name']}"
    return f"timing/train/{name}" if item["seconds"] else f"train/{name}"


class TableReader:
    """Puts the lines of a table together. Lines come in order; those between tables may be left out.

    Attributes:
        offset: where the table that was read last begins, its title included.
    """

    def __init__(self) -> None:
        self.offset = 0
        self._panel, self._list = PanelReader(), ListReader()
        self._title: tuple[int, int, int] | None = None
        self._begin(-1, -1, is_open=False)

    def take(self, text: str, number: int, offset: int) -> LineMetrics | None:
        found = self._panel.take(text, offset)
        if found is not None:
            self.offset = self._panel.offset
            return found
        found = self._list.take(text, number, offset)
        if found is not None:
            self.offset = self._list.offset
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
        return bool(self._row) or self._list.is_inside

    def finish(self) -> LineMetrics | None:
        found = self._end()
        if found is None and self._list.is_inside:
            found, self.offset = self._list.finish(), self._list.offset
        return found

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
        self.offset = start
        return LineMetrics(step, row)

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
    r"(?:\([^()]{0,80}pid=[^()]{1,60}\) )?(?P<indent> *)(?P<key>[A-Za-z_][^\s:]{0,127}):(?: (?P<value>\S{1,40}))?\s*$"
)
_FEWEST = 3
"""A tree of fewer numbers is none of metrics."""
_YAML = {".nan": "nan", ".inf": "inf", "-.inf": "-inf"}


class TreeReader:
    """Puts the lines of a tree together: its title, its groups, its numbers, and the blank line at its end.

    Attributes:
        offset: where the tree that was read last begins, its title included.
    """

    def __init__(self) -> None:
        self.offset = 0
        self._step: int | None = None
        self._start = 0
        self._row: dict[str, object] = {}
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
        found, title = self.finish(), _TITLE.match(text)
        if title is not None:
            self._step, self._start = int(title["step"]), offset
        return found

    @property
    def is_inside(self) -> bool:
        return bool(self._row)

    def finish(self) -> LineMetrics | None:
        step, row = self._step, self._row
        self._step, self._row, self._above = None, {}, []
        if step is None or len(row) < _FEWEST or not any("/" in key for key in row):
            return None
        self.offset = self._start
        return LineMetrics(step, row)

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
