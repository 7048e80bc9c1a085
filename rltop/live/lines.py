"""Lines in which trainers and engines report what they do: the table `lines.txt`, for `log`."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from rltop.formats.console.failures import DONE
from rltop.regex import regex
from rltop.structs import NamedTuple


class Act(enum.StrEnum):
    """Effect of a line on the phases of the process that printed it."""

    BEGIN = "begin"
    """A phase with an explicit end; others may be nested in it."""
    END = "end"
    ENTER = "enter"
    """A phase that ends when the next one is entered, with `LEAVE`, or with the step."""
    LEAVE = "leave"
    COUNT = "count"
    """A count within a phase; only a changed number is progress."""
    PULSE = "pulse"
    """Progress in whichever phase is open."""
    ENGINE = "engine"
    """State of an engine: progress if it produces tokens."""
    STEP = "step"
    """A step has ended."""
    NEXT = "next"
    """A step begins, so the one before has ended."""
    TOTAL = "total"
    """The planned number of steps, numbered from 0; or of generations, if `TRAINED` reports them."""
    TRAINED = "trained"
    """All steps trained on a generation have ended."""
    PERIOD = "period"
    """Every n-th step takes longer, as it includes a validation or a checkpoint."""
    FINISH = "finish"
    RESUME = "resume"
    """A loop begins, possibly after a pause since the last one ended."""
    SURVIVED = "go on"
    """The apparent end was none."""
    FAIL = "fail"


def _sections(file: str) -> dict[str, list[str]]:
    sections = Path(__file__).with_name(file).read_text(encoding="utf-8").split("\n\n[")[1:]
    return {head.removesuffix("]"): rows for head, *rows in map(str.splitlines, sections)}


_PHASES = _sections("phases.txt")
PHASES = dict(row.split(" | ", 1) for row in _PHASES["phases"])
"""Key of a phase → description."""
FOR_SAMPLES = "waiting for samples"

WRAPS = frozenset({"step", "train_wait", "train", "train_critic_and_policy", "_trainer_side_validate"})
"""Timers that enclose others: they define the phase only if no inner one is open."""


class LinePattern(NamedTuple):
    """One kind of line.

    Attributes:
        key: of the phase; empty if it follows from the name in the line.
    """

    of: str
    sign: str
    pattern: re.Pattern[str]
    act: Act
    key: str = ""
    words: str = ""


_NUMBER = r"\d{1,12}(?:\.\d{0,12})?"


def _lines() -> Iterator[LinePattern]:
    for of, rows in _sections("lines.txt").items():
        for row in rows:
            act, sign, key, words, pattern = row.split(" | ", 4)
            whole = regex(pattern.replace("{number}", _NUMBER))
            yield LinePattern(of, sign, whole, Act[act.upper()], key.strip("-"), words.strip("-"))
    yield from (LinePattern(of, sign, pattern, Act.FINISH) for of, sign, pattern in DONE)


LINES = tuple(_lines())

BAR = regex(
    r"(?P<title>[^|]{0,120}?):?\s*\d{1,3}%\|[^|]{0,200}\|\s*(?P<done>\d{1,12})/(?P<of>\d{1,12})\s*"
    r"\[(?P<elapsed>[\d:]{4,12})<"
)
ENDLESS_BAR = regex(
    r"(?P<title>[^|\[\]]{0,120}|\[[^\[\]]{1,60}\][^|\[\]]{0,60}?):\s*(?P<done>\d{1,12})it \[(?P<elapsed>[\d:]{4,12}),"
)
FRAME = regex(r"\s*File \"[^\"]{1,400}\", line \d+, in (\w+)")
"""A frame of a traceback: the innermost function that is named like a phase identifies what failed."""
MAIN_FRAME = regex(r"\s*File \"(?!<|(?:/var)?/tmp/)[^\"]{1,400}\", line \d+, in <module>$")
"""A frame of a file that was run or imported; model-written code runs from the command line or a temporary folder."""
OF_ALL = regex(r"\[(\d+)/(\d+)\]")
"""The count in the title of an outer bar: `[2/3]`."""
STEP_BARS = regex(
    r"(?:|Training(?: Step)? Progress|Training Batches Processed|Global Step|Training|(?:Running )?Steps?|Train)",
    re.IGNORECASE,
)
"""Titles of bars that count the steps of the run; transformers' bar has none."""
OUTER_BARS = regex(r"Episode \[|Epoch", re.IGNORECASE)
"""Titles of bars that advance with the steps and are not phases."""
Keys = Sequence[tuple[re.Pattern[str], str]]


def _keys(section: str) -> Keys:
    rows = (row.split(" | ", 1) for row in _PHASES[section])
    return tuple((regex(pattern, re.IGNORECASE), key) for key, pattern in rows)


BARS = _keys("bars")
"""Phase of any other bar by its title; the first match is used."""
STEP_TIMES = ("timing_s/step", "perf/time_per_step", "perf/step_time", "timing/step", "step_time", "time/total")
"""Keys in rows with the time of a whole step."""
AT_EXIT = "destroy_process_group() was not called"
"""Printed by PyTorch when a process ends, however it ends."""
NAMES = _keys("names")
"""Phase of a timer, a trace span or a custom phase, by its name; the first match is used."""


_ROLES = regex(r"^(?:actor_rollout_ref_|actor_rollout_|actor_|rollout_|ref_|critic_|rm_)(?=.)")


def key_of(name: str, table: Keys = NAMES) -> str:
    """The key of a phase by its name; empty if unknown."""
    return next((key for pattern, key in table if pattern.search(name)), "")


@lru_cache(maxsize=1024)
def key_of_method(name: str) -> str:
    """The phase key for a worker's current method; veRL prefixes methods with the roles of the worker."""
    return key_of(_ROLES.sub("", name))


def words_of(key: str, name: str) -> str:
    if name == "train_wait":
        return FOR_SAMPLES
    return PHASES.get(key) or name.replace("_", " ")
