"""Parses one line of a trainer's console output, if it is a metric line.

Supports `step:N - k:v - …`, `Step N: {…}`, `{'loss': …}`, `Step N | k:v`, `Step N | 3.21s | Loss 0.1`,
`rollout N: {…}`, lines of custom loops, such as `step 10/500 | loss: 0.2 | …`, `[name] epoch=0 step=1 loss=0.2`,
`[name] 10/500 | loss=0.2`, `Epoch:[1/2](30/975), loss: 0.2`, `<time> - name - INFO - loss: 0.2, …`, and the text before
the percentage or after the rate of a progress bar. Values are extracted with patterns; nothing in a log is ever
evaluated. Knows nothing of files, missing steps, or records.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import orjson

from rltop.formats.console.scan import LAUNCHED, STAMP
from rltop.formats.rows import flat_items, number_of, read_printed, step_of, unwrapped
from rltop.model import NonFinite
from rltop.model.keys import STEP_KEYS, is_bookkeeping_key, is_evaluation_key, is_training_row
from rltop.regex import regex

MAX_METRIC_CHARS = 256 * 1024
"""A longer line is a printed rollout or configuration, not metrics."""
CAPTURE_CHARS = 4096
"""Tools such as wandb (output.log) truncate console lines to this; the last value of such a line is unreliable."""
_MAX_PIECE_CHARS = 640

_ANSI = regex(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|[@-Z\\-_])")
_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|(?:nan|inf(?:inity)?|NaN|Inf(?:inity)?)(?![a-z]))"
_WRAPPED = rf"(?:np|numpy)\.\w{{1,16}}\(\s*(?P<np>{_NUMBER}|True|False)\s*\)"
_TENSOR = (
    rf"tensor\(\s*(?P<tensor>{_NUMBER}|True|False|\[[-+\d.eE,\s\[\]naif]{{1,512}}\])\s*(?:,[^()]{{0,80}}(?:\(\))?)?\)"
)
_BARE = rf"(?P<bare>{_NUMBER}|True|False|None|null|true|false)"
_SCALAR = rf"(?:{_WRAPPED}|{_TENSOR}|{_BARE})"

_STEP_LINE = regex(r"(?<![A-Za-z_./@-])step:(\d{1,15}) - ")
_PAIR = regex(
    r"(?P<key>[^\s:=(){}\[\]'\"%|<>][^:=(){}\[\]'\"%|<>]*?(?:\((?:1e-\d|B|s)\)|(?::[^:\s]*?)??)):\s?"
    rf"{_SCALAR}(?P<after>.?)"
)
_GLUED_DATE = regex(r"(?:19|20)\d\d-\d\d-\d\d[ T]")
_UNSURE_AFTER = frozenset("0123456789.,%:-+/_")
"""Characters that may not follow an integer, since it may then be joined with another process's output."""

_STEP_DICT = regex(
    r"(?<![A-Za-z_])(?:(?i:global )?[Ss]tep)[ :]{1,2}(\d{1,15})(?: \[[^\]]{0,64}\])?\s*:\s*(?=\{)",
)
_NESTED = regex(r"(?P<quote>['\"])(?:metrics|logs)(?P=quote):\s*\{")
"""A step as ROLL or a transformers callback writes it: with the metrics in an inner object."""
_ROLLOUT_DICT = regex(r"(?<![A-Za-z_])(?P<what>[a-z][a-z_]{2,31}) (?P<rollout>\d{1,12}): (?=\{')")
_OF_ROLLOUTS = ("rollout/", "perf/", "eval/")
_STEP_BAR = regex(r"(?<![A-Za-z_])Step (\d{1,15}) \| {0,8}(?=\S)")
_BAR_PAIR = regex(rf"(?<!\S)(?P<key>[^\s:{{}}'\"]{{1,128}}):{_SCALAR}(?=\s|$)")
# The content of a string is matched possessively, so that a long one causes no backtracking.
_ITEM = regex(
    r"\s*(?P<quote>['\"])(?P<key>(?:(?!(?P=quote))[^\\]|\\.){1,512}+)(?P=quote)\s*:\s*"
    rf"(?:(?P<text_quote>['\"])(?P<text>(?:(?!(?P=text_quote))[^\\]|\\.)*+)(?P=text_quote)|{_SCALAR}(?=\s*[,}}]))"
)
_KEY_ONLY = regex(r"\s*(?P<quote>['\"])(?P<key>(?:(?!(?P=quote))[^\\]|\\.){1,512}+)(?P=quote)\s*:\s*")
_MARKS = regex(r"'(?:[^'\\]++|\\.)*+(?:'|\\?$)|\"(?:[^\"\\]++|\\.)*+(?:\"|\\?$)|[\[\](){},]", re.DOTALL)
"""Whole strings, brackets, commas. An unterminated string extends to the end, else this would be quadratic."""

Row = dict[str, object]


@dataclass(slots=True)
class LineMetrics:
    """Metrics found in a line.

    Attributes:
        step: the step in the line, or None.
        row: numbers, numeric text, None, booleans.
        lost: number of pieces that were cut off or mixed with other text.
        is_cut: a tool that captures the console truncated the line; the rest is in no file.
        total: the total number of steps, if the line has it.
        is_of_loop: printed by a custom loop, not by a known trainer.
        is_of_bar: from a progress bar, which may restart in every epoch.
        is_more: adds to the previous line; its own step is an epoch, used only if nothing else counts.
        is_over: its step is at the end, so the next line belongs to the next step.
        unit: what a loop counts: `step`, or if it names none `episode` or `epoch`.
        is_of_engine: DeepSpeed's report on its own steps, in addition to the loop's lines.
        is_head: has a step and no metric; these may be on the next line.
        is_guess: a row only if the log has no surer ones: a bar, or `step N/M`, with numbers but no loss.
        validation: `Initial` or `Final`, for a validation that veRL prints separately from its steps.
        rollout: number of the generation, if the line counts these instead of optimiser steps.
        offset: where it begins in the file, including its title.
    """

    step: int | None
    row: Row = field(default_factory=dict)
    lost: int = 0
    is_cut: bool = False
    nested: int = 0
    total: int | None = None
    is_of_loop: bool = False
    is_of_bar: bool = False
    is_more: bool = False
    is_over: bool = False
    unit: str = "step"
    is_of_engine: bool = False
    is_head: bool = False
    is_guess: bool = False
    validation: str = ""
    rollout: int | None = None
    offset: int = 0

    @property
    def is_evaluation(self) -> bool:
        """It has a step, and evaluations alone."""
        return self.step is not None and any(map(is_evaluation_key, self.row)) and not is_training_row(self.row)


IN_FRONT = regex(rf"(?:\s*(?:{LAUNCHED}))+ ?")
_STAMP = regex(STAMP)
_PICTURES = regex(r"[\u2600-\u27bf\U0001f300-\U0001faff]\ufe0f?")


def without_prefix(text: str) -> str:
    """A line without pictures and launcher prefixes: `(name, pid=2710)`, `(WorkerDict pid=9, ip=…)`, `[rank0]:`."""
    text = text if text.isascii() else _PICTURES.sub(" ", text)
    front = IN_FRONT.match(text)
    return text if front is None else text[front.end() :]


def front_of(text: str) -> str:
    front = IN_FRONT.match(plain(text))
    return "" if front is None else front[0].strip()


def names_rank(front: str) -> bool:
    return re.match(r"\d|\[[^\[\]]{0,24}[Rr]ank", front) is not None


def mark_of(writer: str) -> re.Pattern[bytes]:
    """The prefix of every line of one of several writers, named as `writers.writers_in` does."""
    name = re.escape(writer.encode())
    forms = rb"(?:\x1b\[[0-9;]*m)*(?:\(%b(?:,? [^()\n]{1,80})?\)|\[%b\]:?|%b(?::| \|)(?=\s))"
    return re.compile(forms % (name, name, name))


def strip_escapes(text: str) -> str:
    return _ANSI.sub("", text) if "\x1b" in text else text


def plain(line: str) -> str:
    """A line without colours, and without the timestamps of `kubectl logs --timestamps`, the journal or `mpirun`."""
    line = strip_escapes(line)
    stamp = _STAMP.match(line)
    return line if stamp is None else line[stamp.end() :]


def read_line(text: str, *, is_ended: bool = True) -> list[LineMetrics]:
    """The metrics of a line, one item per step in it; empty if it is not a metric line.

    Args:
        is_ended: False if the line has no end yet, so that its last value may be incomplete.
    """
    if len(text) > MAX_METRIC_CHARS:
        return []
    is_cut = not is_ended or len(text) == CAPTURE_CHARS
    if "step:" in text:
        found = _read_step_lines(plain(text), is_cut=is_cut)
        if found:
            return found
    if VALIDATION in text:
        return _read_validation(text)
    text = without_prefix(plain(text))
    if "{" in text:
        one = _read_object(text)
        if one is not None:
            return [one]
    bar = _STEP_BAR.search(text)
    found = [] if bar is None else _read_bar_line(text, bar, is_cut=is_cut)
    return found or _read_around_bar(text) or _read_loop_line(text, is_ended=is_ended)


# -- step:N - k:v - … ----------------------------------------------------------------------------------------------


def _read_step_lines(text: str, *, is_cut: bool) -> list[LineMetrics]:
    """Every `step:N - …` of a line, which may have several if a line feed was lost."""
    starts = list(_STEP_LINE.finditer(text))
    found = []
    for i, start in enumerate(starts):
        is_last = i + 1 == len(starts)
        end = len(text) if is_last else starts[i + 1].start()
        one = LineMetrics(int(start[1]))
        pieces = text[start.end() : end].split(" - ")
        one.is_cut = is_last and CAPTURE_CHARS - 1 <= len(text) <= CAPTURE_CHARS
        if one.is_cut and pieces[-1].endswith(" -"):  # the space after it was cut off, too
            pieces[-1:] = [pieces[-1].removesuffix(" -"), " -"]
        for j, piece in enumerate(pieces):
            is_end = is_cut and is_last and j + 1 == len(pieces)
            _read_piece(piece, one, is_unsure=is_end and not _WHOLE.search(piece))
        if one.row:
            found.append(one)
    return found


def _read_piece(piece: str, into: LineMetrics, *, is_unsure: bool) -> None:
    if not piece.strip():
        return
    if not is_unsure:
        date = _GLUED_DATE.search(piece, 0, _MAX_PIECE_CHARS)
        piece = piece[: _MAX_PIECE_CHARS if date is None else date.start()]
        pair = _PAIR.match(piece.lstrip())
        if pair is not None and pair["after"] not in _UNSURE_AFTER and _is_key(pair["key"]):
            key = pair["key"].rstrip()
            if not _is_rounded(key, value := _scalar(pair)):
                into.row[key] = value
            return
    into.lost += 1


def _is_key(key: str) -> bool:
    """Can this be a key? Spaces are allowed only after a slash, in the name of a data set."""
    head = key.split(None, 1)[0] if key.strip() else ""
    return bool(head) and (head == key.rstrip() or "/" in head)


_RATE_KEY = regex(r"(?:.*[/_. -])?(?:lr|learning[_ ]rate)(?:\(1e-\d\))?", re.IGNORECASE)
_ROUNDED = regex(r"[-+]?0?\.00+")


def _is_rounded(key: str, value: object) -> bool:
    """Is it a learning rate printed as 0.000? It is a small one rounded, so its value is unknown."""
    return isinstance(value, str) and bool(_ROUNDED.fullmatch(value) and _RATE_KEY.fullmatch(key))


def _scalar(match: re.Match[str]) -> object:
    text = match["bare"] or match["np"] or match["tensor"]
    if text.startswith("["):
        return _mean_of(text)
    word = text.lower()
    if word in ("true", "false"):
        return word == "true"
    return None if word in ("none", "null") else text


def _mean_of(listed: str) -> float | str:
    """The mean of a printed tensor, nested or not; the text itself if it has something other than numbers."""
    try:
        numbers = [float(each) for each in re.split(r"[\s,\[\]]+", listed) if each]
    except ValueError:
        return listed
    return sum(numbers) / len(numbers) if numbers else listed


# -- {…}: printed dictionaries, and JSON -----------------------------------------------------------------------------


def _read_object(text: str) -> LineMetrics | None:
    named = _STEP_DICT.search(text)
    if named is not None:
        return _nonempty(_read_dict(text, named.end(), int(named[1])))
    counted = _ROLLOUT_DICT.search(text)
    if counted is not None:
        return _of_rollout(_read_dict(text, counted.end(), None), counted)
    may_nest = ("metrics" in text or "logs" in text) and _NESTED.search(text) is not None
    nested = _read_nested(text) if may_nest else None
    if nested is not None:
        return nested
    start = next((at for opening in ("{'", '{"') if (at := text.find(opening)) >= 0), None)
    if start is None:
        return None
    found = _read_dict(text, start, None)
    if not _is_log_row(found):
        front = _OBJECT_FRONT.match(text) if _is_loop_row(found) else None
        found.is_of_loop = is_of_loop = front is not None and front.end() == start and not front["name"]
        return found if is_of_loop and text.rstrip().endswith("}") else None
    return found


VALIDATION = " validation metrics: {"
_LITERAL = regex(r"\s*\(?(?:\"((?:[^\"\\]|\\.)*+)\"|'((?:[^'\\]|\\.)*+)')\)?\s*")


def _read_validation(text: str) -> list[LineMetrics]:
    """`Initial validation metrics: {…}` of veRL: on a line of its own, or split by `pprint` into a string per line."""
    pieces = []
    for line in text.splitlines():
        literal = _LITERAL.fullmatch(without_prefix(plain(line)))
        if literal is not None:
            pieces.append(literal[1] or literal[2] or "")
    whole = "".join(pieces) or without_prefix(plain(text)).replace("\n", "")
    begin = whole.find(VALIDATION)
    if begin < 0:
        return []
    found = _read_dict(whole, begin + len(VALIDATION) - 1, None)
    found.row = {key: value for key, value in found.row.items() if is_evaluation_key(key)}
    found.validation = whole[:begin].rpartition(" ")[2].lstrip("\"'(")
    return [found] if found.row else []


def _of_rollout(found: LineMetrics, counted: re.Match[str]) -> LineMetrics | None:
    """`rollout N: {'rollout/…': …}`, as slime and miles log a generation; None for anything else."""
    own = (f"{counted['what']}/", *_OF_ROLLOUTS)
    found.rollout = int(counted["rollout"])
    return _nonempty(found) if any(key.startswith(own) for key in found.row) else None


def _nonempty(found: LineMetrics) -> LineMetrics | None:
    """The row, unless it is mostly text: actions of agents are printed as `Step N: {…}`, too."""
    numbers = sum(isinstance(number_of(value), float | NonFinite) for value in found.row.values())
    return found if numbers and 2 * numbers >= len(found.row) else None


def _read_nested(text: str) -> LineMetrics | None:
    """`{"step": N, "metrics": {…}}`, with the step in either object; JSON, or a Python dict with NaN."""
    front = _OBJECT_FRONT.match(text)
    if front is None:
        return None
    try:
        row = orjson.loads(text[front.end() :])
    except orjson.JSONDecodeError:
        row = read_printed(text[front.end() :]) or {}
    whole = unwrapped(row)
    if whole is row:
        return None
    flat = dict(flat_items(whole))
    step = step_of(flat.pop(next((key for key in STEP_KEYS if key in flat), ""), None))
    return _nonempty(LineMetrics(step, flat)) if isinstance(step, int) else None


_LOG_MARKS = frozenset({"epoch", "train_runtime"})
_STEP_NAMES = ("step", "global_step")
_WRITTEN = {"loss", "learning_rate", "epoch"}
"""Keys of every training row of transformers; a callback may have added a word to it, such as a phase."""


def _is_log_row(found: LineMetrics) -> bool:
    """Is this a logged row, rather than a configuration or a sample?

    Every row of transformers has an epoch and at least one other number; a
    handwritten row has a step. Rows are flat, or have a loss.
    """
    row = found.row
    told = (key for key, value in row.items() if not isinstance(number_of(value), float | NonFinite))
    words = sum(not is_bookkeeping_key(key) for key in told)
    is_handwritten = any(name in row for name in _STEP_NAMES) and any("loss" in key for key in row)
    if (found.nested and not is_handwritten) or (words and (not row.keys() >= _WRITTEN or 4 * words > len(row))):
        return False
    if not any(key not in _LOG_MARKS and key not in _STEP_NAMES for key in row):
        return False
    if found.lost and "loss" in row:  # the epoch comes last, and may have been cut off
        return "learning_rate" in row or "grad_norm" in row
    return not _LOG_MARKS.isdisjoint(row) or any(name in row for name in _STEP_NAMES)


def _is_loop_row(found: LineMetrics) -> bool:
    """Is a dictionary alone on its line the row of a loop that names no step, with a loss in it?"""
    row = found.row
    is_flat = not found.nested and not found.lost
    is_numeric = all(isinstance(number_of(value), float | NonFinite) for value in row.values())
    return is_flat and is_numeric and any("loss" in key.lower() and not is_evaluation_key(key) for key in row)


def _read_dict(text: str, start: int, step: int | None) -> LineMetrics:
    """The complete items of the dictionary whose brace is at `start`."""
    found = LineMetrics(step)
    at = start + 1
    while at < len(text):
        item = _ITEM.match(text, at)
        if item is not None:
            found.row[item["key"]] = item["text"] if item["text_quote"] else _scalar(item)
            at = item.end()
        else:
            key = _KEY_ONLY.match(text, at)
            if key is None:
                break
            end = _skip_value(text, key.end())
            if end is None:
                found.lost += 1
                return found
            found.nested += 1
            at = end
        at, is_over = _after_item(text, at)
        if is_over:
            return found
    found.lost += not text[at:].lstrip().startswith("}")
    return found


def _after_item(text: str, at: int) -> tuple[int, bool]:
    while at < len(text) and text[at].isspace():
        at += 1
    if at < len(text) and text[at] == ",":
        return at + 1, False
    return at, at < len(text) and text[at] == "}"


def _skip_value(text: str, at: int) -> int | None:
    """The end of a value that is not a scalar: the next comma or brace outside brackets and strings."""
    depth = 0
    for token in _MARKS.finditer(text, at):
        mark = token[0]
        if mark in "[({":
            depth += 1
        elif mark in "])}":
            if depth == 0:
                return token.start()
            depth -= 1
        elif mark == "," and depth == 0:
            return token.start()
    return None


# -- Step N | k:v k:v ------------------------------------------------------------------------------------------------


def _read_bar_line(text: str, bar: re.Match[str], *, is_cut: bool) -> list[LineMetrics]:
    found = LineMetrics(int(bar[1]))
    for pair in _BAR_PAIR.finditer(text, bar.end()):
        if is_cut and pair.end() == len(text):
            found.lost += 1
        else:
            value = _scalar(pair)
            if not _is_rounded(pair["key"], value):
                found.row[pair["key"]] = value
    return [found] if found.row else _read_named(text[bar.end() :], int(bar[1]), is_cut=is_cut)


_LASTED = regex(r"(?:(?P<d>\d{1,5})d ?)?(?:(?P<h>\d{1,2})h ?)?(?:(?P<m>\d{1,2})m ?)?(?:(?P<s>\d{1,3}(?:\.\d+)?)s)?")
_MILLISECONDS = regex(r"(\d{1,4}(?:\.\d+)?)ms")
_LENGTHS_S = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}
_NAMED = regex(
    rf"(?P<key>[A-Z][A-Za-z.-]{{0,31}}(?: [A-Z][A-Za-z.-]{{0,31}}){{0,3}}):? (?P<value>{_NUMBER})"
    r"(?:/(?P<of>\d{1,12}) \([\d.]{1,8}%\))?(?:/\d[\d.]{0,11}(?= [A-Za-z]{1,8} \())?"
    r"(?P<unit>%| [A-Za-z]{1,12}(?:/[A-Za-z]{1,12})?)?(?: \([\d.]{1,8}%\))?"
)
LASTED = "time/step"
"""The key for prime-rl's unnamed step time, as in its metric file."""
_FEWEST_NAMED = 3


def _read_named(rest: str, step: int, *, is_cut: bool) -> list[LineMetrics]:
    """`Step N | 3.21s | Loss 0.0012`, or `Time: 3.21s | Loss: 0.0012`, as prime-rl prints it; else empty."""
    found = LineMetrics(step)
    pieces = [piece.strip() for piece in rest.split(" | ")]
    for i, piece in enumerate(pieces):
        if is_cut and i + 1 == len(pieces):
            found.lost += 1
            continue
        named, lasted = _NAMED.fullmatch(piece), _seconds_in(piece.removeprefix("Time: ")) if i == 0 else None
        if named is not None:
            value = float(named["value"]) / float(named["of"] or 1) if named["of"] != "0" else 0.0
            found.row[named["key"]] = value / _PERCENT if named["unit"] == "%" else value
        elif lasted is not None:
            found.row[LASTED] = lasted
        else:
            return []
    return [found] if len(found.row) >= _FEWEST_NAMED else []


def _seconds_in(text: str) -> float | None:
    """A duration such as `1h 2m`, `3.21s` or `250ms`, in seconds; None if it is not one."""
    short = _MILLISECONDS.fullmatch(text)
    if short is not None:
        return float(short[1]) / 1000.0
    parts = _LASTED.fullmatch(text)
    if parts is None or not text:
        return None
    return sum(float(value) * _LENGTHS_S[name] for name, value in parts.groupdict().items() if value)


# -- step 10/500 | loss: 0.2, [name] epoch=0 step=1 loss=0.2 ---------------------------------------------------------

_LOGGED = r"(?:[A-Za-z_][\w.]{0,63} - )?(?:INFO|info)(?::[\w.]{1,63}:)?"
_TIME = r"(?:(?:\d{4}[-/])?\d\d[-/]\d\d[ T]|\d\d/\d\d/\d{4} |(?=\d\d:\d\d:\d\d))[\d:.,]{5,15}Z?\s*(?:[-|:]|>>)?\s*"
_GLOG = r"[IWEF]\d{4} [\d:.]{8,15}\s{1,8}\d{1,12} [\w./-]{1,64}:\d{1,6}\]\s+"
_COUNTED = r"(?P<box>[\[(]\s{0,8})?(?P<done>\d{1,15})/(?P<of>\d{1,15})[\])]?(?=\s*\||\s+[A-Za-z_]\w{0,63}[=:])"
_STEPPED = (
    r"(?:[A-Z]{2,12}:? )?"  # an algorithm
    r"(?i:(?:train(?:ing)? |completed )?(?:global[ _]?step|step|iteration|(?:global )?iter(?:\(train\))?|update))"
    r"(?:[ :=]{1,3}|\s{1,16})"
    r"\[?\s{0,8}(?P<step>\d{1,15})"
    r"(?:\s?/\s{0,8}(?P<total>\d{1,15}))?\]?"
)
_MARKED = r"\[(?i:step|iteration|iter|update)[ :=]{0,2}(?P<at>\d{1,15})(?:/(?P<goal>\d{1,15}))?(?:,epoch=\d{1,9})?\]"
_EPISODE = r"\[?(?i:episode|ep)(?:[ :=#]{1,3})\[?(?P<episode>\d{1,12})(?:\s?/\s?(?P<episodes>\d{1,12}))?\]?"
_WITHIN = r"(?i:(?:(?:inner )?iter|ppo epoch):[ ]{1,8}\d{1,9}/[ ]{0,8}\d{1,9}[ ]?\|[ ](?=(?:ppo epoch|global iter):))"
"""MiniLLM's position within an epoch, before the step."""
_FIELD = (
    rf"(?:{_LOGGED}\s*[-|:]?\s*|{_TIME}|{_GLOG}|\[(?!(?i:step|iter|update|ep))[^\[\]]{{1,64}}\]:?\s*(?:-\s+)?"
    r"|[A-Za-z_][\w.:<>-]{0,80}(?:\s{0,8}[|-]\s+|\t)|\d{1,3}(?:\.\d{1,2})?%\s+|[a-z]{1,16}/s(?:ec)?: [\d.]{1,16} \| )"
)
"""Prefixes of loggers: a level, a time, text in brackets, a name and a bar, a percentage, a rate."""
_OBJECT_FRONT = regex(rf"\s*{_FIELD}{{0,6}}(?P<name>[\w.]{{1,64}}: )?(?=\{{)")
_EVALUATION = r"(?i:eval(?:uation)?|val(?:id(?:ation)?)?|test)"
_LOOP_LINE = regex(
    rf"(?P<front>\s*{_FIELD}{{0,6}}(?:INFO\s{{1,8}}[\w.]{{1,63}}:\s+)?(?:{_EVALUATION} (?:(?:at|@|after) )?)?)"
    r"(?:[=#*~─━-]{2,24} )?"
    r"(?:(?i:epoch)s?:?\s?\[(?P<nth>\d{1,9})/(?P<epochs>\d{1,9})\]\s?\((?P<inner>\d{1,12})/(?P<length>\d{1,12})\)"
    r"|epoch=\d{1,9}/micro_step=\d{1,15}/global_step=(?P<engine>\d{1,15})"
    r"|(?:\[?(?i:(?:training )?epochs?)[ :=]{1,4}(?P<epoch>\d{1,9})(?:/\d{1,9})?[\s|,;:\]-]{1,4})?"
    rf"{_WITHIN}{{0,2}}(?:\(?{_STEPPED}\)?|{_MARKED}|{_EPISODE}|{_COUNTED}))(?P<rest>[\s|,;:-].*|)$",
    re.DOTALL,
)
_EPOCH_LINE = regex(
    rf"\s*{_FIELD}{{0,6}}\[?(?i:epoch)(?:[ :=#]{{1,3}})\[?(?P<epoch>\d{{1,9}})(?:\s?/\s?(?P<epochs>\d{{1,9}}))?\]?"
    r"(?:\s?[|,;:-]\s?|\s)(?:\s*(?P<inner>\d{1,12}) ?/ ?\d{1,12} )?(?P<rest>.*)$",
    re.DOTALL,
)
_SENTENCES = regex(rf"\s*{_FIELD}{{0,6}}[\w ?=-]{{1,64}}\. Step: (?P<rest>\d.*?)(?:\. (?:Not )?Training\b.*)?\.?\s*$")
"""ML-Agents' report on a behavior: `3DBall. Step: 12000. Time Elapsed: 35.1 s. Mean Reward: 1.1. Training.`"""
_OF_EVALUATION = regex(rf"(?:\A|[\s\[|]){_EVALUATION}(?=\]|:?\s)")
_OF_THAT_EVALUATION = regex(rf"\s?[\[(]{_EVALUATION}[\])]")
"""The mark of an evaluation after the step."""
_REMARK = regex(r"\s*(?:[|(\[*#]|<-|\s[\w./]{1,64}\.py:\d{1,6}\s*$)")
"""The start of a remark after the pairs of a row; other text after them means that they are part of a sentence."""
_LOG_FRONT = regex(rf"\s*(?:{_TIME}|{_GLOG}|{_LOGGED}\s*[-|:]?\s*|\[[^\[\]]{{1,64}}\]:?\s*(?:-\s+)?){{0,6}}")
_LOG_LINE = regex(rf"\s*{_TIME}{_LOGGED} - (?P<rest>[A-Za-z_]\w{{0,63}}: .*)$", re.DOTALL)
"""A row of Python's logging without a step."""
_MORE_LINE = regex(
    rf"\s*(?:(?i:average reward score): (?P<mean>{_NUMBER})(?:\s*\| EMA reward score: {_NUMBER})?"
    rf"|ppl: (?P<ppl>{_NUMBER})(?:, loss: (?P<loss>{_NUMBER}))?"
    rf"|Epoch (?P<number>\d{{1,6}})/(?P<of>\d{{1,6}}) with loss (?P<epoch>{_NUMBER})"
    rf"|chosen_last_scores \(higher is better\) : (?P<chosen>{_NUMBER})"
    rf"(?:, rejected_last_scores \(lower is better\) : (?P<rejected>{_NUMBER}))?"
    rf", acc \(higher is better\) : (?P<acc>{_NUMBER}))\s*$"
)
"""DeepSpeed-Chat's separate lines: the score of a step, and the result of an evaluation."""
_LISTED = r"\[(?P<listed>[^\[\]]{0,512})\]"
_SPAN = r"(?P<span>\d{1,3}:\d\d(?::\d\d)?|(?:\d{1,4}[dhms] ?){2,4}|None|N/A|n/a)"
_VALUE = (
    rf"(?:{_SPAN}|{_LISTED}|{_TENSOR}"
    rf"|(?P<value>\d{{1,3}}(?:,\d{{3}}){{1,4}}(?:\.\d+)?(?=\s|$)|{_NUMBER})(?:\s?(?:±|\+/-)\s?(?P<spread>{_NUMBER}))?"
    r"(?P<unit>\s?%|[A-Za-z]{1,7}(?:/(?:\d[\d.]{0,8})?[A-Za-z]{1,7})?|/s"
    r"| (?:ms|secs?|s|[KMGT]i?B)(?=[\s|,;(\]]|$))?)(?=[\s|,;()\]]|:?\s*$)"
)
_BETWEEN = regex(r"[\s|,;(·•-]{0,8}(?:[A-Za-z_]\w{0,31}=, )?")
_ASIDE = regex(
    rf"\s?\(\s?(?:(?P<what>(?i:std|sd|stddev|var|min|max|mean|avg|median|best|ema))\s?[=: ]\s?|±\s?|\+/-\s?)"
    rf"(?P<number>{_NUMBER})%?\s?\)|\s?[\[(][\d\s/.,%+-]{{1,40}}[\])]"
)
"""Parentheses after a number: a statistic of the same metric, or bare numbers, whose meaning is uncertain."""
_SOLE = frozenset({"training loss", "train loss", "training reward", "train reward"})
"""Names sufficient on their own after a step, although they have two words like a sentence: only trainings use them.

Example: the events of OpenAI's fine-tuning jobs, `Step 7/300: training loss=0.72`.
"""
_SIGNS = (
    "loss", "rew", "return", "score", "acc", "kl", "entropy", "grad", "norm", "nll", "ppl", "perplex", "lr", "rate",
    "tok", "samples", "sps", "fps", "error", "success", "win", "ratio", "clip", "epsilon", "value", "policy", "adv",
)  # fmt: skip
"""Parts of metric names in training loops; `x = 4` after a step is some calculation."""
_BLANK_SIGNS = (*_SIGNS, "mem", "took")
_STRONG = frozenset("|,;\t·•")
_LOOP_PAIR = regex(rf"(?P<key>[A-Za-z_][\w/.@-]{{0,127}})\s?[=:]\s{{0,16}}{_VALUE}")
_WORDS_PAIR = regex(
    rf"(?P<key>[A-Za-z][\w()/-]{{0,31}}(?: [\w()/%-]{{1,31}}){{1,5}}?|[\w()/-]{{1,31}}(?: [\w()/%-]{{1,31}})*?)"
    rf"\s?[=:]\s{{0,16}}{_VALUE}"
)
_BLANK_PAIR = regex(
    rf"(?P<key>[A-Za-z_][\w/.@-]{{0,63}}(?: [A-Za-z_]\w{{0,31}}){{0,2}})\s{{1,4}}{_VALUE}(?: [KMGT]i?B(?!\w))?"
)
_OF_WHAT = regex(r"(?: (?:mean|std|min|max|avg))?$")
"""The end of a name with a statistic, whose metric is the word before it."""
_WORD_PAIR = regex(r"[A-Za-z_][\w/.@-]{0,63}\s?[=:]\s{0,4}[\w./-][^|=:()\[\]]{0,63}(?=\||$)")
"""A field that is no number, such as a phase or `3/8`, in a row separated by bars."""
_RATE = regex(rf"(?P<value>{_NUMBER})\s?(?P<key>[A-Za-z]{{1,8}}/[A-Za-z]{{1,8}})(?=[\s|,;)\]]|\s*$)")
_LOOP_GROUP = regex(r"[\s|,;]{0,8}(?P<key>[A-Za-z_]\w{0,63}):\s?(?P<items>\{'[^{}]{1,1024}\})(?=[\s|,;]|$)")
_BAR_DONE = r"%\|[^|]{0,200}\|\s*(?P<done>\d{1,12})/(?P<total>\d{1,12}) "
_DESCRIBED = regex(
    r"(?:Epoch[ :]{1,2}\d{1,6}(?:/\d{1,6})?[\s|,:-]{1,4})?"
    rf"\[?(?P<pairs>[A-Za-z_](?:[^%]|%(?!\|)){{3,300}}):\s{{1,4}}\d{{1,3}}{_BAR_DONE}\["
)
_POSTFIX = regex(
    rf"{_BAR_DONE}\[[\d:?]{{1,12}}<[^\],]{{1,24}}(?:,[^\],=:]{{1,24}})?(?P<pairs>, {{0,4}}[A-Za-z_][^\]]{{1,1023}})\]"
)
_ENDLESS = regex(
    r"(?:^|[\s:])(?P<done>\d{1,12})it \[[\d:?]{1,12},[^\],=:]{1,24}(?P<pairs>, {0,4}[A-Za-z_][^\]]{1,1023})\]"
)
"""A bar of unknown total."""
_EPOCH_OF_BAR = regex(r"(?i:epoch)[ :#\[]{1,3}(\d{1,6})(?![\d%.])")
_BEHIND = regex(rf"{_BAR_DONE}\[[^\]\[]{{1,1024}}\](?P<pairs>[\s|,:-]{{1,4}}[A-Za-z_][^%|]*(?:(?:\||%(?!\|))[^%|]*)*)$")
_OF_TRAINING = regex(
    r"\s*(?:(?i:(?:train )?epochs?|train(?:ing)?|steps?|episodes?|iter(?:ation)?s?|grpo|ppo|rl)[\d/ :#\[\]]{0,14}:?"
    r"|(?!(?i:.{0,80}(?:eval|valid|test|load|prepar|process|tokeni)))(?:[\w.-]{1,24} ){1,3}(?i:training):?)?"
    r"\s*\d{1,3}$"
)
"""Text before the percentage of a bar that may count training steps."""
_FEWEST_DESCRIBED = 2
"""A single number in the description of a bar may be anything."""
_FEWEST_STEPS = 20
"""`step 1/3: a=2, b=5` may be a step of a calculation rather than of a training."""
_WORD = regex(r"[A-Za-z]{3}")
_FRAME = regex(r"\s+[=#*~─━-]{2,24}\s*\Z")
_HALF = regex(
    r"[\s|,;-]{0,8}[A-Za-z_][\w/.@-]{0,63}(?:\s?[:=]\s?|\s)[-+]?[\d.]*(?:[eE][-+]?\d*)?$"
    r"|(?:[\s|,;(-]{1,8}(?!(?i:nan|inf(?:inity)?)$)[A-Za-z_][\w/.@-]{0,63}){1,6}\s?[:=]?\s?$"
)
"""The last pair of an unfinished line, which may lack digits, or the beginning of one."""
_WHOLE = regex(r"[:=]\s?[-+]?(?:nan|inf|infinity)\s*$", re.IGNORECASE)
_PERCENT = 100.0
_UNITS = {"k": 1e3, "K": 1e3, "M": 1e6}
_MAX_LOOP_CHARS = 2048
_STEP_WORDS = ("step", "global_step", "train_step", "iteration", "iter", "update")
_PRINTED = regex(r"(?:\.item)?\(\)(?==)|\[\d{1,3}\]\['\w{1,32}'\](?==)")
"""What an f-string prints of a call or an index before `=`: `loss.item()=2.9, param_groups[0]['lr']=3e-06`."""
_STEP_PAIR = regex(rf"(?<![\w/.@-])(?i:{'|'.join(_STEP_WORDS)})\s?[=:]\s{{0,16}}\d{{1,15}}(?=[\s|,;)]|$)")

_RESULTS = r"(?i:loss|reward|return|score|kl|entropy|accuracy)"
_RESULT_KEY = regex(_RESULTS)
_RESULT = rf"(?<![\w/.@-])(?P<key>[\w/.@-]{{0,63}}{_RESULTS}[\w/.@-]{{0,63}})"
_TOLD = regex(rf"{_RESULT}['\"]?\s?[:=]\s{{0,4}}['\"]?(?P<value>{_NUMBER})(?![\w/])")
_SAID = regex(rf"{_RESULT}\s{{1,4}}{_NUMBER}(?![\w/])")
"""A result and its number anywhere in a line; without a sign between them it may be a sentence."""
_STEP_SAID = regex(r"(?<![\w/.@-])(?i:global_step|step|iter(?:ation)?|update|episode)['\"]?[\s:=#\[]{1,3}\d")


def _read_loop_line(text: str, *, is_ended: bool) -> list[LineMetrics]:
    """A line of only a step and pairs; a sentence that contains a step does not count."""
    if len(text) > _MAX_LOOP_CHARS:
        return []
    text = _FRAME.sub("", text if is_ended else _HALF.sub("", text))
    if (sentences := _SENTENCES.match(text)) is not None:
        text = f"Step: {sentences['rest'].replace('. ', ', ')}"
    line = _LOOP_LINE.match(text)
    if line is None:
        return _read_log_line(text) or _read_more(text) or _read_pairs_with_step(text) or _read_epoch_line(text)
    count = next(line[name] for name in ("step", "at", "done", "inner", "engine", "episode") if line[name])
    found = LineMetrics(int(count), is_of_loop=True, unit="episode" if line["episode"] else "step")
    total = line["total"] or line["goal"] or line["of"] or line["episodes"]
    found.total = int(total) if total else None
    if found.total == 1 and not line["nth"]:
        found.step = found.total = None  # "1 of 1", repeated, counts nothing
    rest = line["rest"].rstrip()
    if mark := _OF_THAT_EVALUATION.match(rest):
        rest = rest[mark.end() :]
    is_sentence = rest.startswith(":")
    pairs = _Pairs(found.row, is_sentence=is_sentence, is_table=" | " in rest)
    end = pairs.read(rest := rest[is_sentence:])
    found.is_of_engine = line["engine"] is not None or "skipped" in found.row
    is_long = (found.total or 0) >= _FEWEST_STEPS
    found.is_guess = is_long and pairs.are_plain and not pairs.are_of_training
    if line["nth"]:
        length = int(line["length"])
        found.step = int(line["inner"]) + (max(1, int(line["nth"])) - 1) * length
        found.total = int(line["epochs"]) * length
    if mark or _OF_EVALUATION.search(line["front"]):
        found.row = {key if is_evaluation_key(key) else f"eval/{key}": value for key, value in found.row.items()}
        found.is_over = True
    found.is_head = not (pairs.are_of_training or found.is_guess or found.is_evaluation)
    if line["epoch"] and (found.row or found.is_head):
        found.row.setdefault("epoch", float(line["epoch"]))
    is_all = _WORD.search(rest, end) is None or (len(found.row) > 1 and _REMARK.match(rest, end) is not None)
    may_be = not line["box"] or any("loss" in key.lower() for key in found.row)  # answers are counted so, too
    is_row = is_all and may_be and not (found.is_of_engine and not found.step)
    return [found] if is_row and (not found.is_head or end == len(rest)) else []


def _read_pairs_with_step(text: str) -> list[LineMetrics]:
    told, found = _PRINTED.sub("", text.strip()), LineMetrics(None, is_of_loop=True)
    pairs = _Pairs(found.row)
    if _STEP_PAIR.search(text) is None or pairs.read(told) != len(told) or not pairs.are_of_training:
        return []
    key = next((key for key in found.row if key.lower() in _STEP_WORDS), "")
    found.is_over = key == next(reversed(found.row), None)
    step = found.row.pop(key, None)
    if not isinstance(step, float) or not step.is_integer() or step < 0.0:
        return []
    found.step = int(step)
    return [found]


def _read_epoch_line(text: str) -> list[LineMetrics]:
    """A line of only an epoch and pairs, from a loop that counts no steps."""
    line = _EPOCH_LINE.match(text)
    if line is None or _names_step(text):
        return []
    found = LineMetrics(int(line["inner"] or line["epoch"]), is_of_loop=True, unit="step" if line["inner"] else "epoch")
    found.total = int(line["epochs"]) if line["epochs"] and not line["inner"] else None
    found.row |= {"epoch": float(line["epoch"])} if line["inner"] else {}
    pairs, rest = _Pairs(found.row), line["rest"].strip()
    is_row = pairs.read(rest) == len(rest) and any(_RESULT_KEY.search(key) for key in found.row)
    return [found] if is_row else []


def read_pairs(text: str, *, is_ended: bool, is_rest: bool) -> LineMetrics | None:
    """The pairs that a line adds to the loop's previous line; None if it is anything else.

    Args:
        is_rest: the line is known to belong to the previous one.
    """
    text = _LOG_FRONT.sub("", without_prefix(plain(text)), 1).strip().strip("|-,;").strip()
    text = text if is_ended else _HALF.sub("", text)
    if not text or len(text) > _MAX_LOOP_CHARS:
        return None
    found = LineMetrics(None, is_of_loop=True, is_more=True)
    pairs = _Pairs(found.row)
    return found if pairs.read(text) == len(text) and (is_rest or pairs.are_of_training or pairs.are_plain) else None


def read_stepless(text: str) -> LineMetrics | None:
    """A line of only pairs, including a loss or a reward, that lacks a step; else None."""
    text = without_prefix(plain(text))
    front = _LOG_FRONT.match(text)
    text = text[front.end() :].strip() if front is not None else text
    found = LineMetrics(None, is_of_loop=True) if text and len(text) <= _MAX_LOOP_CHARS else None
    if found is None:
        return None
    pairs = _Pairs(found.row)
    if pairs.read(text) == len(text) and pairs.are_of_training:
        return found
    # Part of something printed over several lines, such as settings, is not a row.
    is_part = text.endswith(",") or text.count("{") != text.count("}")
    told = () if is_part else _TOLD.finditer(text)
    found.row = {pair["key"]: float(pair["value"]) for pair in told if "coef" not in pair["key"]}
    return found if found.row and not _names_step(text) else None


def has_step_and_number(text: str) -> bool:
    """Does a line have a step and a loss, reward or the like, in any form?"""
    text = plain(text)
    return len(text) <= _MAX_LOOP_CHARS and _names_step(text) and (_TOLD.search(text) or _SAID.search(text)) is not None


def _names_step(text: str) -> bool:
    return _STEP_SAID.search(text) is not None


class _Pairs:
    """Parses pairs of names and numbers, and judges whether they are metrics: a sentence may have some as well."""

    def __init__(self, row: Row, *, is_sentence: bool = False, is_table: bool = False) -> None:
        self._row, self._is_table = row, is_table
        self._is_sentence, self._has_words, self._is_loose, self._has_blanks = is_sentence, False, False, False
        self._count = 0

    def read(self, text: str) -> int:
        """Read pairs from the start as far as there are any; returns where they end."""
        at = 0
        while at < len(text):
            between = _BETWEEN.match(text, at)
            begin = at if between is None else between.end()
            is_strong = at == 0 or begin - at > 1 or not _STRONG.isdisjoint(text[at:begin])
            pair = _LOOP_PAIR.match(text, begin)
            if pair is None and (is_strong or self._has_blanks):
                pair = _RATE.match(text, begin) or self._loose(text, begin)
            if pair is None and self._is_table and (word := _WORD_PAIR.match(text, begin)):
                at = word.end()
                continue
            if pair is None:
                break
            self._take(pair)
            at = pair.end()
            aside = _ASIDE.match(text, at)
            if aside is not None:
                if aside["number"] is not None and pair["key"] in self._row:
                    self._row[f"{pair['key']}_{(aside['what'] or 'std').lower()}"] = float(aside["number"])
                at = aside.end()
        return at

    def _loose(self, text: str, begin: int) -> re.Match[str] | None:
        """A pair whose name has several words, or is separated from its number by a space only."""
        pair = _WORDS_PAIR.match(text, begin)
        if pair is None:
            pair = _BLANK_PAIR.match(text, begin)
            key = pair["key"].lower() if pair is not None else ""
            named = _OF_WHAT.sub("", key).rpartition(" ")[2]
            is_metric = any(sign in named for sign in _BLANK_SIGNS) or ("_" in named and not key.endswith(named))
            if " " in key and not is_metric:
                return None
            self._has_blanks = pair is not None
        if pair is not None:
            self._has_words = True
            self._is_loose = self._is_loose or not all(word[0].isupper() for word in pair["key"].split(" "))
        return pair

    def _take(self, pair: re.Match[str]) -> None:
        self._count += 1
        named = pair.groupdict()
        if named.get("listed") is not None:
            # Learning rates of parameter groups; other lists are samples or settings.
            first = number_of(named["listed"].partition(",")[0].strip())
            if pair["key"] == "lr" and isinstance(first, float):
                self._row["lr"] = first
        elif named.get("tensor") is not None:
            self._row[pair["key"]] = _mean_of(pair["tensor"])
        elif named.get("value") is not None:
            if _is_rounded(pair["key"], pair["value"]):
                return
            unit, key = (named.get("unit") or "").strip().partition("/")[0], pair["key"]
            value = float(pair["value"].replace(",", "")) / (_PERCENT if unit == "%" else 1.0)
            self._row[key] = value * (1.0 if "mem" in key.lower() else _UNITS.get(unit, 1.0))
            if named.get("spread") is not None:
                self._row[f"{pair['key']}_std"] = float(pair["spread"])

    @property
    def are_plain(self) -> bool:
        """Are there several pairs, each with a name without spaces?"""
        return self._count > 1 and not self._has_words

    @property
    def are_of_training(self) -> bool:
        """Is there a metric? If names may be words of a sentence, there must be a loss or reward, and another pair."""
        told = [key.lower() for key in self._row if key not in _LOG_MARKS]
        if not (self._has_words or self._is_sentence):
            return any(sign in key for key in told for sign in _SIGNS)
        is_sure = self._count > 1 or self._is_table or not self._is_loose or _SOLE.issuperset(told)
        is_row = self._is_table and self._count >= _FEWEST_NAMED
        return is_sure and any("loss" in key or "reward" in key or (is_row and _RESULT_KEY.search(key)) for key in told)


def _read_log_line(text: str) -> list[LineMetrics]:
    """A row of Python's logging of only pairs, including a loss, without a step."""
    line = _LOG_LINE.match(text)
    if line is None:
        return []
    found, rest = LineMetrics(None, is_of_loop=True), line["rest"].rstrip()
    end = _Pairs(found.row).read(rest)
    has_loss = len(found.row) > 1 and any("loss" in key and not is_evaluation_key(key) for key in found.row)
    while group := _LOOP_GROUP.match(rest, end):
        items = _read_dict(group["items"], 0, None).row
        found.row |= {f"{group['key']}/{key}": value for key, value in items.items()}
        end = group.end()
    return [found] if has_loss and end == len(rest) else []


def _read_more(text: str) -> list[LineMetrics]:
    """DeepSpeed-Chat's report on a step, on a line after its losses."""
    line = _MORE_LINE.match(text)
    if line is None:
        return []
    told = {"average_reward_score": line["mean"], "eval_ppl": line["ppl"], "eval_loss": line["loss"]}
    told |= {"epoch_loss": line["epoch"], "eval_acc": line["acc"]}
    told |= {"eval_chosen_score": line["chosen"], "eval_rejected_score": line["rejected"]}
    found = LineMetrics(None, {key: value for key, value in told.items() if value}, is_of_loop=True, is_more=True)
    if line["epoch"]:
        found.step, found.total, found.unit = int(line["number"]), int(line["of"]), "epoch"
    return [found]


def _read_around_bar(text: str) -> list[LineMetrics]:
    """Values before the percentage, after the rate, and after the end of a bar that counts training steps."""
    if len(text) > _MAX_LOOP_CHARS:
        return []
    if "%|" not in text:
        return _read_endless(text) if "it [" in text else []
    described = _read_described(text)
    behind = [_read_behind(text, part, is_sure=described is not None) for part in (_POSTFIX, _BEHIND)]
    found = [one for one in (described, *behind) if one is not None]
    for other in found[1:]:
        found[0].row |= other.row
        found[0].is_guess = found[0].is_guess and other.is_guess
    if found and (epoch := _EPOCH_OF_BAR.search(text)):
        found[0].row.setdefault("epoch", float(epoch[1]))
    return found[:1]


def _read_endless(text: str) -> list[LineMetrics]:
    """Values after the rate of a bar without a total; if it is at 0, they belong to its epoch."""
    bars = list(_ENDLESS.finditer(text))
    if not bars:
        return []
    found = LineMetrics(int(bars[-1]["done"]), is_of_loop=True, is_of_bar=True)
    _Pairs(found.row).read(bars[-1]["pairs"])
    has_loss = any("loss" in key for key in found.row)
    if epoch := _EPOCH_OF_BAR.search(text):
        found.row.setdefault("epoch", float(epoch[1]))
        if not found.step:
            found.step, found.is_of_bar, found.unit = int(epoch[1]), False, "epoch"
    return [found] if has_loss and (found.step or epoch) else []


def _read_described(text: str) -> LineMetrics | None:
    bar = _DESCRIBED.match(text.lstrip())
    if bar is None:
        return None
    found = _of_bar(bar)
    pairs = bar["pairs"].removesuffix("]")
    end = _Pairs(found.row).read(pairs)
    if not any("loss" in key.lower() for key in found.row):
        found.is_guess = True
        told = sum(not is_bookkeeping_key(key) and key.lower() not in _STEP_WORDS for key in found.row)
        if told < _FEWEST_DESCRIBED or end != len(pairs):
            return None
    return found if found.step else None


def _read_behind(text: str, part: re.Pattern[str], *, is_sure: bool) -> LineMetrics | None:
    """Values after the rate of the last bar, or after the bar; without a loss it must be a training bar."""
    bars = list(part.finditer(text))
    if not bars:
        return None
    bar = bars[-1]
    found = _of_bar(bar)
    end = _Pairs(found.row).read(bar["pairs"])
    if any("loss" in key for key in found.row):
        return found if found.step else None
    found.is_guess = True
    is_all = end == len(bar["pairs"]) and (is_sure or _OF_TRAINING.match(text[: bar.start()]) is not None)
    return found if found.step and found.row and is_all else None


def _of_bar(bar: re.Match[str]) -> LineMetrics:
    return LineMetrics(int(bar["done"]), total=int(bar["total"]), is_of_loop=True, is_of_bar=True)
