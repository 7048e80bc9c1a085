"""Finds the few lines of a console log that are worth parsing.

Searches a whole block for each of a few byte strings, so that other text costs only this search; lines are extracted
only around a match. Carriage returns end lines like line feeds, but only line feeds are counted. A dictionary that a
terminal wrapped over several lines is joined again. In other wrapped lines, a number that was split is joined, and a
pair whose name was split is left out.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import orjson

from rltop.formats.decoder import HOLE_BYTES, MAX_LINE_BYTES, without_holes
from rltop.model import Counts
from rltop.regex import regex
from rltop.structs import NamedTuple


class HitKind:
    """What a line may be; plain integers, because enum operations would cost more than all other work per line."""

    METRIC = 1
    BAR = 2
    ERROR = 4
    TABLE = 8
    TREE = 16
    MORE = 32
    """Follows a possible metric line, and may continue it."""


_DICTIONARY = b"{'"
_INDENTED = b"{\n"
_METRIC = (
    b"step:", b"Step ", b"step ", b"Step:", _DICTIONARY, b'{"', b"STEP ", b"step=", b"Step=",
    b"loss=", b"loss:", b"Loss:", b"Loss=", b"update=", b"pdate ", b"reward=", b"reward:", b"Reward:",
    b"reward score:", b"_scores (", b"ppl:", b"loss ", b"teration", b"pisode ", b"pisode:", b"it/s, ", b"s/it, ",
    b"reward'", b"[batch=", _INDENTED,
)  # fmt: skip
_BAR = (b"%|", b"s/it]", b"it/s]")
"""In a notebook's shell, no bar is drawn between the percentage and the numbers."""
_TABLE = ("│".encode(), "┘".encode(), "╛".encode(), "╯".encode(), "• ".encode(), b" |\n", b"--------\n", b"-+\n")
_ERROR = (
    b"Error", b"rror:", b"Exception", b"Interrupt", b"Exit", b" memory", b"OOM", b"oom", b"NCCL error", b"nccl",
    b"EXHAUSTED", b"Watchdog", b"fault", b"Bus error", b"DUE TO", b"Killed", b"Terminated", b"died with",
    b"exitcode", b"CANCELLED", b"SIGINT", b"got signal", b"death signal", b" (SIG", b"\tray::", b"raysubmit",
    b"HYDRA_FULL_ERROR", b"Could not override", b": No module named", b"can't open file",
    b"[prompt]", b"[response]", b"[ground_truth]", b"[score]",
)  # fmt: skip
NEEDLES: tuple[tuple[bytes, int], ...] = (
    *((needle, HitKind.METRIC) for needle in _METRIC),
    *((needle, HitKind.BAR) for needle in _BAR),
    *((needle, HitKind.ERROR) for needle in _ERROR),
    *((needle, HitKind.TABLE) for needle in _TABLE),
)
"""Every line of a kind contains one of its byte strings."""


STAMP = (
    r"(?:20\d\d-[01]\d-[0-3]\dT[\d:]{8}(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)(?: std(?:out|err) ++[FP])?"
    r"|[A-Z][a-z]{2} [ 1-3]\d [\d:]{8}(?:\.\d{6})?)(?: [\w.-]{1,64} [\w.@-]{1,64}\[\d{1,8}\]:)? "
    r"|\[(?:[\w.-]{1,120}@)?\d{1,5},\d{1,5}\]<std(?:out|err)>: ?"
)
"""Prefixes of `kubectl logs --timestamps`, `docker logs -t`, containerd, the journal and `mpirun --tag-output`.

`P` of containerd means that the line continues in the next one.
"""
LAUNCHED = (
    r"\([^()\n]{0,80}pid=[^()\n]{1,80}\)|\[[^\[\]\n]{0,24}[Rr]ank ?\d{1,6}\]:?|\[default\d{1,5}\]:"
    r"|\[pod/[^\[\]\n]{1,120}\]|[\w.-]{1,40}-\d{1,4} {1,8}\|(?=\s)|\d{1,5}:(?=\s)|\[\d{1,5}\](?=\s)"
)
"""Prefixes of launchers: Ray, SkyPilot, torchrun, `kubectl logs --prefix`, compose, srun, MPICH."""
_COLORS = rb"(?:\x1b\[[0-9;]*m)*"
_STAMP = regex(b"(?:%b)" % STAMP.encode())
_STAMPED = regex(b"\n(?:%b)" % STAMP.encode())
_DOCKER_SIGN = b'{"log":"'
_DOCKER = regex(
    rb'^\{"log":"(?P<text>(?:[^"\\\n]|\\.)*+)","stream":"(?P<stream>std(?:out|err))",'
    rb'(?:"attrs":\{[^{}\n]{0,4096}\},)?"time":"(?P<time>[\d:TZ.+-]{1,40})"\}(?=[ \r]*$)',
    re.MULTILINE,
)
"""A line as Docker's `json-file` driver stores it; if its text lacks a line feed, it continues in the next one."""
_FRONT = regex(rb"(?:(?:\x1b\[[0-9;]*m|[ \t])*(?:%b)%b)+ ?" % (LAUNCHED.encode(), _COLORS))
_IN_FRONT = b"(?:%b)?%b" % (_FRONT.pattern, _COLORS)
_TITLE = regex(
    _IN_FRONT + rb"(?:[ \t]*(?:[=#*~-]{2,80} )?(?:Step|[Ii]teration) \d{1,15}(?:/\d{1,15})?(?: [=#*~-]{2,80})?[ \t]*"
    rb"|[^\n]{0,200}=== \[[^\[\]\n]{1,80}\] - METRICS STEP \d{1,15} ==="
    rb"|(?:\[[Ee]poch=\d{1,9}\])?\[batch=\d{1,15}/\d{1,15}\]:|%bLearning iteration \d{1,15}/\d{1,15}%b)(?=\n)"
    % (2 * (rb"(?:[ \t]|\x1b\[[0-9;]*m)*",))
)
_TREE_LINE = regex(
    _IN_FRONT + rb"[ \t]{0,64}[A-Za-z_][^\s:]{0,127}(?: [^\s:]{1,63}){0,4} ?:(?: [^\s:]{1,40})?[ \t]*(?=\n|\Z)"
)
_BLANK = regex(_IN_FRONT + rb"[ \t]*(?=\n)")
_MOST_OF_TREE, _MOST_BETWEEN = 1024, 8
"""Most lines of a metric tree below its title, and most consecutive lines of other processes within it."""
MAX_METRIC_BYTES = 1024 * 1024
"""Longer lines are not metric lines."""
_MORE_LINES, _FULL_LINES = 3, 8
"""Lines after a metric line that may belong to it; up to `_FULL_LINES` of the same length may come before them."""
_WRAPPED_LINES = 64
_OPEN_BYTES = 64 * 1024
_WRAPPED_BYTES = 16 * 1024
"""A dictionary that stays open for longer was not wrapped by a terminal."""
_HEAD_BYTES = 4096
"""Bytes kept of a line that is too long for metrics: bars and errors are at its beginning."""


class Hit(NamedTuple):
    """A line worth parsing.

    Attributes:
        number: line number, from 1.
        is_ended: False if the line was not ended, or was wrapped by a terminal: its last value may be incomplete.
        columns: its width if no earlier metric line was wider, so that a terminal may have wrapped it here; else 0.
        part: number of the part of a wrapped line, from 1; 0 if it is not known to be one.
        end: its end in the file, without the line feed.
    """

    line: bytes
    offset: int
    number: int
    kind: int
    is_ended: bool
    columns: int = 0
    part: int = 0
    end: int = 0


class LineScanner:
    """Extracts the lines worth parsing from a stream, however it is split.

    Attributes:
        lines: line feeds seen in the file, plus 1 if a line without one was finished.
    """

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._parts: list[bytes] = []
        self._held = 0
        self._start = 0
        self._end = 0
        self._is_skipping = self._is_cut = False
        self._number = 1
        self._open, self._open_start = b"", 0
        self._tree_lines = self._between = 0
        self._more_lines = self._full_lines = self._length = self._widest = 0

    def feed(self, data: bytes, offset: int) -> Iterator[Hit]:
        """Yield the relevant lines that `data` completes; a hole ends a line as in `LineFramer`."""
        if b"\0" in data:
            self._counts.nul_bytes += data.count(b"\0")
            for part, start in without_holes(data, offset):
                yield from self._cut(part, start)
        else:
            yield from self._cut(data, offset)

    def _cut(self, data: bytes, offset: int) -> Iterator[Hit]:
        if self._open and (offset - self._end >= HOLE_BYTES or (offset > self._end and not self._parts)):
            yield from self._scan_open()
        if (self._parts or self._is_skipping) and offset - self._end >= HOLE_BYTES:
            before = self._number, self._counts.lines
            yield from self.finish()
            self._number, self._counts.lines = before
        elif self._parts and offset > self._end:
            self._parts.append(bytes(offset - self._end))  # to keep the offsets of the lines after it
        self._end = offset + len(data)
        cut = max(data.rfind(b"\n"), data.rfind(b"\r"))
        if cut < 0:
            self._hold(data, offset)
            return
        if self._is_skipping:
            yield from self._scan_open()
            first = _end_of_line(data)
            self._number += data.count(b"\n", 0, first + 1)
            self._counts.lines += data.count(b"\n", 0, first + 1)
            self._is_skipping = False
            body, start = data[first + 1 : cut + 1], offset + first + 1
        elif self._is_cut:
            first = _end_of_line(data)
            yield from self._scan_open()
            yield from self._scan(self._parts[0] + data[first : first + 1], self._start)
            self._is_cut = False
            body, start = data[first + 1 : cut + 1], offset + first + 1
        elif self._parts:
            body, start = b"".join((*self._parts, data[: cut + 1])), self._start
        else:
            body, start = data[: cut + 1], offset
        self._parts, self._held = [], 0
        if self._open:
            body, start, self._open = self._open + body, self._open_start, b""
        body = stamped(body)
        at = _open_line(body)
        if at < len(body):
            self._open, self._open_start = body[at:], start + at
        yield from self._scan(body[:at], start)
        if cut + 1 < len(data):
            self._hold(data[cut + 1 :], offset + cut + 1)

    @property
    def pending(self) -> bytes:
        return b"".join(self._parts)

    @property
    def is_inside(self) -> bool:
        """Is there a line, or a multi-line dictionary, whose end has not come?"""
        return bool(self._parts or self._open)

    def finish(self) -> Iterator[Hit]:
        """Yield the unfinished last line if it is relevant, and forget it."""
        if self._is_cut or not self._parts:
            yield from self._scan_open()
        body, start = stamped(b"".join(self._parts)), self._start
        self._parts, self._held, self._is_skipping = [], 0, False
        if body:
            if self._open:
                body, start, self._open = self._open + body, self._open_start, b""
            yield from self._scan(body, start)
            self._is_cut = False
            self._counts.lines += 1
            self._number += 1

    def flush(self) -> Iterator[Hit]:
        """Yield a row that a terminal may have wrapped, because no data has come for a while."""
        if self._open and _open_steps(unstamped(self._open)[0]) == 0:
            yield from self._scan_open()

    def reset(self) -> None:
        self._parts, self._held, self._is_skipping, self._number = [], 0, False, 1
        self._is_cut, self._open, self._tree_lines, self._more_lines, self._widest = False, b"", 0, 0, 0

    def _scan_open(self) -> Iterator[Hit]:
        body, self._open = self._open, b""
        if body:
            is_cut, self._is_cut = self._is_cut, False
            yield from self._scan(body, self._open_start)
            self._is_cut = is_cut

    def _hold(self, part: bytes, offset: int) -> None:
        if self._is_skipping:
            return
        if not self._parts:
            self._start = offset
        self._held += len(part)
        if self._held > MAX_LINE_BYTES:
            self._counts.oversize_lines += 1
            self._parts, self._held, self._is_skipping, self._is_cut = [], 0, True, False
        elif self._held > MAX_METRIC_BYTES:
            if not self._is_cut:
                self._parts, self._is_cut = [b"".join((*self._parts, part))[:_HEAD_BYTES]], True
        elif part:
            self._parts.append(part)

    def _scan(self, raw: bytes, start: int) -> Iterator[Hit]:
        body, stamps = unstamped(raw.replace(b"\r", b"\n") if b"\r" in raw else raw)
        found: dict[int, int] = {}
        wanted = ~HitKind.METRIC if self._is_cut else ~0
        for needle, kind in NEEDLES:
            at = body.find(needle)
            while at >= 0:
                begin = body.rfind(b"\n", 0, at) + 1
                found[begin] = found.get(begin, 0) | kind
                end = body.find(b"\n", at)
                at = body.find(needle, end) if end >= 0 else -1
        self._find_trees(body, found)
        self._find_more(body, found)
        counted = behind = 0
        inside: set[int] = set()
        for begin in sorted(found):
            if begin < behind or begin in inside:  # inside a dictionary that was joined
                continue
            place = stamps.begin_of(begin)
            self._number += raw.count(b"\n", counted, place)
            counted = place
            text, at, begins = _own_lines(body, begin)
            behind = _end_of_value(text, at)
            end = text.find(b"\n", max(at, behind))
            line = text[at:] if end < 0 else text[at:end]
            columns = 0 if behind > at else self._widest_columns(line, found[begin])
            if behind > at and _VALIDATION not in line:
                line = _joined(line)
            elif found[begin] & HitKind.METRIC and behind <= at:
                line, behind, _ = _unwrapped(text, at, line)
                end = -1 if behind == len(text) else behind or end
            columns = 0 if behind > at else columns
            last = stamps.end_of(len(body) if end < 0 else end)
            if begins:
                own = text.count(b"\n", 0, max(0, behind))
                inside.update(begins[1 : own + 1])
                last, behind = stamps.end_of(_line_end(body, begins[own])), 0
            if b"\0" in line:
                line = line.replace(b"\0", b"")
            yield Hit(line, start + place, self._number, found[begin] & wanted, end >= 0, columns, end=start + last)
        self._number += raw.count(b"\n", counted)
        self._counts.lines += raw.count(b"\n")

    def _widest_columns(self, line: bytes, kind: int) -> int:
        is_joined = line.rstrip().endswith(b"}") or _STEPS.search(line) is not None
        columns = _columns(line) if kind & (HitKind.METRIC | HitKind.MORE) and not is_joined else 0
        if kind & HitKind.METRIC:
            self._widest = max(self._widest, columns)
        return columns if _NARROW <= columns <= _WIDEST and columns >= self._widest else 0

    def _find_more(self, body: bytes, found: dict[int, int]) -> None:
        """Mark the lines after possible metric lines; this may continue in the next block."""
        begins = [begin for begin in sorted(found) if found[begin] & HitKind.METRIC]
        at = 0 if self._more_lines else -1
        for begin in (*begins, len(body)):
            while at >= 0 and self._more_lines and at < begin:
                end = body.find(b"\n", at)
                if end != at:
                    found[at] = found.get(at, 0) | HitKind.MORE
                    is_full = self._full_lines > 0 and end - at == self._length
                    self._full_lines -= is_full
                    self._more_lines -= not is_full
                at = end + 1 or len(body)
            if begin < len(body):
                end = body.find(b"\n", begin)
                self._more_lines, self._full_lines, self._length = _MORE_LINES, _FULL_LINES, end - begin
                at = end + 1 or len(body)

    def _find_trees(self, body: bytes, found: dict[int, int]) -> None:
        """Mark the lines of trees below `Step N`, and the line that ends them; this may continue in the next block."""
        titles = [at for at, kind in found.items() if kind & HitKind.METRIC and _TITLE.match(body, at)]
        at = 0 if self._tree_lines else -1
        for title in (*sorted(titles), len(body)):
            if at >= 0:
                self._mark_tree(body, at, title, found)
            if title < len(body):
                found[title] |= HitKind.TREE
                self._tree_lines, self._between = _MOST_OF_TREE, 0
                at = body.find(b"\n", title) + 1

    def _mark_tree(self, body: bytes, at: int, end: int, found: dict[int, int]) -> None:
        while self._tree_lines and at < end:
            is_end = self._tree_lines < _MOST_OF_TREE and _BLANK.match(body, at) is not None
            if is_end or _TREE_LINE.match(body, at):
                found[at] = found.get(at, 0) | HitKind.TREE
                self._between = 0
            else:
                self._between += 1
            is_over = is_end or self._between > _MOST_BETWEEN
            self._tree_lines = 0 if is_over else self._tree_lines - 1
            at = body.find(b"\n", at) + 1 or end


class Stamps(NamedTuple):
    """Text removed from lines: offsets in the remaining text, and bytes removed up to there."""

    places: Sequence[int] = ()
    cut: Sequence[int] = (0,)

    def begin_of(self, at: int) -> int:
        """Map the start of a line in the remaining text to the original bytes."""
        return at + self.cut[bisect_left(self.places, at)] if self.places else at

    def end_of(self, at: int) -> int:
        return at + self.cut[bisect_right(self.places, at)] if self.places else at


def is_of_docker(head: bytes) -> bool | None:
    """Does a file begin with a line in Docker's format? None if the line is incomplete."""
    return head.startswith(_DOCKER_SIGN) and (_DOCKER.match(head) is not None or (None if b"\n" not in head else False))


def stamped(lines: bytes) -> bytes:
    """Convert lines from Docker's format to containerd's, keeping their length; other lines are unchanged."""
    if not (lines.startswith(_DOCKER_SIGN) or b"\n" + _DOCKER_SIGN in lines):
        return lines
    return _DOCKER.sub(_as_of_containerd, lines)


def _as_of_containerd(line: re.Match[bytes]) -> bytes:
    text = line["text"].removesuffix(b"\\n")
    mark = b"F " if len(text) < len(line["text"]) else b"P "
    if b"\\" in text:
        try:
            text = orjson.loads(b'"%b"' % text).encode().replace(b"\n", b" ")
        except orjson.JSONDecodeError:
            return line[0]
    stamp = b"%b %b " % (line["time"], line["stream"])
    return stamp.ljust(len(line[0]) - len(mark) - len(text)) + mark + text


def unstamped(body: bytes) -> tuple[bytes, Stamps]:
    """Lines without timestamps; those that containerd has split are joined."""
    first = _STAMP.match(body)
    found = [*([first] if first is not None else ()), *_STAMPED.finditer(body)]
    if not found:
        return body, Stamps()
    parts, places, cut, behind, kept, is_part = [], [], [0], 0, 0, False
    for stamp in found:
        is_next = is_part and body.find(b"\n", behind, stamp.start()) < 0
        begin = stamp.start() + (stamp[0].startswith(b"\n") and not is_next)
        parts.append(body[behind:begin])
        kept += begin - behind
        behind, is_part = stamp.end(), stamp[0].endswith(b" P ")
        places.append(kept)
        cut.append(behind - kept)
    return b"".join((*parts, body[behind:])), Stamps(places, cut)


def _own_lines(body: bytes, begin: int) -> tuple[bytes, int, Sequence[int]]:
    """The lines in which a value that the line at `begin` leaves open may continue.

    After a line with a launcher prefix, only lines of the same process are used, without the prefix.

    Returns:
        The lines, where the first one begins in them, and where each begins in `body`, if some were left out.
    """
    front = _FRONT.match(body, begin)
    stop = begin if front is None else _line_end(body, begin)
    most = 0 if front is None else _most_open(body, begin, stop)
    if front is None or not most:
        return body, begin, ()
    own, begins, line = [body[begin : stop + 1]], [begin], stop + 1
    for _ in range(_OTHERS * most):
        if line >= len(body):
            return b"".join(own), 0, begins
        stop = _line_end(body, line)
        if body.startswith(front[0].rstrip(b" "), line):
            own.append(body[min(line + len(front[0]), stop) : stop + 1])
            begins.append(line)
            if len(own) > most:
                break
        line = stop + 1
    return b"".join((*own, _NO_VALUE)), 0, begins


def _most_open(body: bytes, begin: int, stop: int) -> int:
    """Most lines over which an open value may continue; 0 if none is open, or it has rules of its own."""
    if body.endswith(b"{", begin, stop):
        return 0 if body.find(_VALIDATION, begin, stop) >= 0 else _PRINTED_LINES
    opening = max(body.rfind(_DICTIONARY, begin, stop), body.rfind(_TENSOR, begin, stop))
    is_open = opening >= 0 and body.find(b"}", opening, stop) < 0
    return _WRAPPED_LINES if is_open or (stop - begin <= _LONGEST and _STEPS.search(body, begin, stop)) else 0


def _joined(lines: bytes) -> bytes:
    if lines.endswith(b"{", 0, lines.find(b"\n")):
        return b"".join(map(bytes.strip, lines.split(b"\n")))
    return lines.replace(b"\n", b"")


def _line_end(body: bytes, at: int) -> int:
    end = body.find(b"\n", at)
    return len(body) if end < 0 else end


def _end_of_line(data: bytes) -> int:
    return min(at for at in (data.find(b"\n"), data.find(b"\r")) if at >= 0)


def _end_of_value(body: bytes, begin: int) -> int:
    """Where a value that the line at `begin` leaves open is closed; 0 if none is open, -1 if its end is missing."""
    return (
        _end_of_validation(body, begin)
        or _end_of_dictionary(body, begin)
        or _end_of_indented(body, begin)
        or _end_of_tensor(body, begin)
    )


def _end_of_validation(body: bytes, begin: int) -> int:
    """Where `validation metrics: {` ends, which is printed over many lines, mixed with those of other processes."""
    stop = _line_end(body, begin)
    if body.find(_VALIDATION, begin, stop) < 0:
        return 0
    opening = _PRINTED.search(body, begin, stop)
    if opening is None or body.find(b"}", opening.end(), stop) >= 0:
        return 0
    for _ in range(_PRINTED_LINES):
        line = stop + 1
        if line >= len(body):
            return -1
        stop = _line_end(body, line)
        if _PRINTED_END.search(body, max(line, stop - _PRINTED_END_BYTES), stop):
            return stop
    return 0


def _end_of_tensor(body: bytes, begin: int) -> int:
    """Where the last of several multi-line tensors is closed; otherwise as `_end_of_dictionary`."""
    behind = line = begin
    while True:
        stop = _line_end(body, line)
        opening = body.rfind(_TENSOR, line, stop)
        if opening < 0 or body.find(b")", opening, stop) >= 0:
            return behind if behind > begin else 0
        close = body.find(b")", stop)
        inside = len(body) if close < 0 else close
        if inside - stop > _WRAPPED_BYTES or not _NUMBERS.fullmatch(body, stop, inside):
            return behind if behind > begin else 0
        if close < 0:
            return -1
        behind = line = close + 1


def _end_of_dictionary(body: bytes, begin: int) -> int:
    """Where a dictionary that the line at `begin` leaves open is closed; 0 if none is open, -1 if not yet."""
    stop = _line_end(body, begin)
    opening = body.rfind(_DICTIONARY, begin, stop)
    if opening < 0 or body.find(b"}", opening, stop) >= 0 or body.find(b"':", opening, stop) < 0:
        return 0
    for _ in range(_WRAPPED_LINES):
        line = stop + 1
        if line >= len(body):
            return -1
        stop = _line_end(body, line)
        close = body.find(b"}", line, stop)
        if body.find(b"{", line, stop) >= 0 or (close < 0 and stop - begin > _WRAPPED_BYTES):
            return 0
        if close >= 0:
            return close + 1
    return 0


def _end_of_indented(body: bytes, begin: int) -> int:
    """Where an object opened at the end of the line is closed in column 0; otherwise like `_end_of_dictionary`."""
    end = body.find(b"\n", begin)
    if not body.endswith(b"{", begin, max(begin, end)):
        return 0
    line = end + 1
    while line - begin <= _WRAPPED_BYTES:
        if body.startswith(b"}", line):
            return line + 1
        end = body.find(b"\n", line)
        if line < len(body) and not body.startswith((b" ", b"\t"), line):
            return 0
        if end < 0:
            return -1
        line = end + 1
    return 0


_VALIDATION = b" validation metrics: {"
_PRINTED = regex(rb"[\"'](?:Initial|Final) validation metrics: \{")
_PRINTED_END = regex(rb"\}[\"']\)?[ \t\r]*\Z")
_PRINTED_LINES = 1024
_OTHERS = 4
"""Lines of other processes that may be in between, as a multiple of the lines allowed."""
_NO_VALUE = b"{\0"
"""A line that cannot continue any open value."""
_PRINTED_END_BYTES = 80
_TENSOR = b"tensor(["
_NUMBERS = regex(rb"[-+\d.eE,\s\[\]naif]*+(?:[a-z_]{1,13}(?:=[^()]{0,80})?)?")
"""The rest of a tensor as far as it has come: numbers, and arguments such as `device='cuda:0'`."""
_STEPS = regex(rb"(?<![A-Za-z_./@-])step:\d{1,15} - ")
_COLOR = regex(rb"\x1b\[[0-9;]*m")
_NARROWEST, _WIDEST, _LONGEST = 60, 400, 2048
"""Widths of terminals; a row of another width was not wrapped by one, unless it ends in a separator."""
_GOES_ON = regex(rb"[ \t]*(?:- )?[^\s'\"{}]+(?: - [^\s'\"{}]+)*(?: -)?[ \t]*\Z")
_REST_OF_PAIR = regex(rb"[\w./@-]{0,80}:?(?:np\.\w+\()?[\d.eE+-]{1,32}\)?\s*\Z")


def _unwrapped(body: bytes, begin: int, line: bytes) -> tuple[bytes, int, bool]:
    """Join a row `step:N - key:value - …` that a terminal has wrapped, as far as that is certain.

    A line of further pairs is joined if there is a separator, or if the line before is as wide as the first.

    Returns:
        The row, where its last line ends (0 if it has only one), and whether more may follow.
    """
    width = _columns(line)
    may_go_on = _NARROWEST <= width <= _WIDEST or (width < _NARROWEST and line.rstrip().endswith(b" -"))
    if not may_go_on or b"step:" not in line or not _STEPS.search(line):
        return line, 0, False
    row, last, behind = line, line, 0
    at = begin + len(line) + 1
    for _ in range(_WRAPPED_LINES):
        if at >= len(body):
            return row, behind, True
        end = _line_end(body, at)
        more = body[at:end]
        if not _GOES_ON.match(more) or _STEPS.search(more):
            break
        is_soft = b":" in more and (last.endswith(b" -") or more.startswith(b"- "))
        is_hard = _columns(last) == width and (b" - " in more or _REST_OF_PAIR.match(more) is not None)
        if not is_soft and not is_hard:
            break
        row += (b" " if is_soft else b"") + more
        last, behind, at = more, end, end + 1
    return row, behind, False


def _columns(line: bytes) -> int:
    line = _COLOR.sub(b"", line) if b"\x1b" in line else line
    return len(line) if line.isascii() else len(line.decode("utf-8", "replace"))


_NARROW = 40
"""Width of a narrow pane."""
_NUMBER = rb"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf)%?"
_WHOLE_NUMBER = regex(_NUMBER)
_LAST_OF_NUMBER = regex(rb"(?<=[\s=:])[-+]?[\d.]*(?:[eE][-+]?\d*|n|na|i|in)?\Z")
_FIRST_OF_NUMBER = regex(rb"(?=[^\s|,;)])[-+\d.eEnaif]{0,24}%?(?=[\s|,;)\]]|\Z)")
_LAST_OF_NAME = regex(rb"(?:[|,;)\]%]|\d|nan|inf)[\s|,;(]+[A-Za-z_][^=:|,;]{0,64}(?:\s?[=:]\s?)?\Z")
_FIRST_OF_NAME = regex(rb"[^=:|,;\d]{0,64}(?:[=:]|\b)\s{0,16}" + _NUMBER + rb"[A-Za-z/]{0,8}(?=[\s|,;)\]]|\Z)")
_SEPARATED = regex(rb"[|,; ]\n|\n[|,; ]")
_BEGINS = regex(rb"\s*(?:\[|\(|\d{4}-|(?i:global_?|train_?)?(?i:step|iter|update|epoch|episode)(?:ation)?s?\b)")
"""A line that begins like this is not the rest of another."""


def parted(hit: Hit, more: Hit) -> tuple[Hit, Hit]:
    """Repair two lines if a terminal may have split them.

    A split number is joined if more text follows it. Otherwise the pair is left out: a split name could be that
    of another metric, and a number alone on its line could be any output.

    Returns:
        The reliable part of the first line, and the second line without what belongs to the first.
    """
    line, rest, part = hit.line, more.line, max(1, hit.part)
    is_next = more.offset - hit.end in (1, 2)  # a line end is \n or \r\n
    if not is_next or _columns(rest) > hit.columns or more.kind & (HitKind.BAR | HitKind.ERROR | HitKind.TREE):
        return hit, more
    if _BEGINS.match(rest) and not line.rstrip().endswith((b",", b";", b"|")):
        return hit, more
    last, first = _LAST_OF_NUMBER.search(line), _FIRST_OF_NUMBER.match(rest)
    if last and first and b"%|" not in rest and _WHOLE_NUMBER.fullmatch(last[0] + first[0]):
        if first.end() < len(rest.rstrip()):
            return hit._replace(line=line + first[0], part=part), _behind(more, first.end(), part + 1)
        return hit._replace(is_ended=False, part=part), _behind(more, len(rest), part + 1)
    pair = _FIRST_OF_NAME.match(rest) if _LAST_OF_NAME.search(line) or rest[:1] in b"=:" else None
    if pair is None:
        is_cut = _SEPARATED.search(line[-2:] + b"\n" + rest[:2]) is not None
        return (hit._replace(part=part), _behind(more, 0, part + 1)) if is_cut else (hit, more)
    return hit._replace(is_ended=False, part=part), _behind(more, pair.end(), part + 1)


def _behind(hit: Hit, at: int, part: int) -> Hit:
    return hit._replace(line=hit.line[at:], offset=hit.offset + at, part=part)


def _open_line(body: bytes) -> int:
    """Start of the first line left open at the end of `body`: an open dictionary, or a wrapped row.

    The length of `body` if there is none.
    """
    parted_at = _parted_line(body)
    if parted_at < len(body):
        return parted_at
    start = body.find(b"\n", max(0, len(body) - _OPEN_BYTES)) + 1 if len(body) > _OPEN_BYTES else 0
    end = body[start:]
    lines, stamps = unstamped(end.replace(b"\r", b"\n") if b"\r" in end else end)
    found = behind = len(lines)
    for sign in (_VALIDATION, _DICTIONARY, _INDENTED, _TENSOR):
        while (opening := lines.rfind(sign, 0, behind)) >= 0:
            begin = lines.rfind(b"\n", 0, opening) + 1
            if _end_of_value(*_own_lines(lines, begin)[:2]) >= 0:
                break
            found = behind = begin  # this open value may itself follow one that was left open before
        behind = found
    found = found if found < len(lines) else _open_steps(lines)
    return start + stamps.begin_of(found) if found < len(lines) else len(body)


def _parted_line(body: bytes) -> int:
    """Start of the last line if containerd has split it and its end is missing; else the length of `body`."""
    begin = behind = len(body)
    while begin and len(body) - begin <= MAX_METRIC_BYTES:
        begin = body.rfind(b"\n", 0, begin - 1) + 1
        stamp = _STAMP.match(body, begin)
        if stamp is None or not stamp[0].endswith(b" P "):
            break
        behind = begin
    return behind


def _open_steps(lines: bytes) -> int:
    """Start of a row that a terminal may have wrapped and whose rest may come; the length if there is none."""
    behind = len(lines)
    while (at := lines.rfind(b"step:", max(0, len(lines) - _WRAPPED_BYTES), behind)) >= 0:
        begin = lines.rfind(b"\n", 0, at) + 1
        if _STEPS.match(lines, at):
            own, first, _ = _own_lines(lines, begin)
            return begin if _unwrapped(own, first, own[first : _line_end(own, first)])[2] else len(lines)
        behind = at
    return len(lines)
