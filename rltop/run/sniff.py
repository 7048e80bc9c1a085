"""Does a file contain metrics? Decided from its first bytes, and for a log from its last ones too."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Sequence
from itertools import dropwhile
from pathlib import Path, PurePath

from rltop.errors import DecodeError
from rltop.files import last_bytes, open_regular
from rltop.formats.decoder import Codec, Decoder, DecoderOptions, codec_of, conflict_line
from rltop.formats.jsonl import NAMELESS, object_of, tolerant_loads
from rltop.formats.kinds import (
    BINARY,
    CONSOLE,
    CSV,
    HEAD_BYTES,
    KINDS,
    TABLES,
    WHOLE_JSON,
    AutoDecoder,
    Kind,
    bare_name,
    is_noise,
    kind_of,
)
from rltop.formats.rows import number_of
from rltop.model import Label, Record
from rltop.model.table_rows import SQLITE_MAGIC, is_job_log, may_be_database
from rltop.regex import regex
from rltop.structs import NamedTuple

SNIFF_BYTES = 256 * 1024
_BZIP2_BYTES = 1024 * 1024
"""Maximum size of a bzip2 block, which cannot be decompressed before its end."""
_FIRST_RECORD_BYTES = 4096
_SAMPLE_LINE_BYTES = 64 * 1024
_UNPACKED_BYTES = 2 * SNIFF_BYTES
_UNPACKED_SLICES = 1200
"""Limits on decompression while searching for a row: a few bytes may expand to gigabytes."""
_SAMPLE_ROWS, _SAMPLES_A_STEP = 8, 4
"""At least this many rows with the same keys per step, on average, are samples."""
_FIRST_LINES = 12
"""If this many lines are metric rows, the rest is not checked: there may be a thousand files."""
_SAMPLE_KEYS = (
    (b'"prompt":', b'"completion":'),
    (b'"prompt":', b'"response":'),
    (b'"env":', b'"traces":'),
    (b'"content":', b'"rewards":', b'"idx":'),
)
"""Keys of a completion or an episode, as verifiers and NeMo-RL write them: one per line, without a step."""
SAMPLES = (
    "lines too long for metrics: samples?",
    "many rows for one step: samples?",
    "a completion on each line and no step: samples?",
)
"""Reasons to treat a JSON lines file as samples rather than metrics."""
_JSON_TOKEN = regex(rb'"(?:[^"\\]|\\.)*"|[\[\]{},]', re.DOTALL)
_CLOSING = {ord("["): ord("]"), ord("{"): ord("}")}
_TEXTS = regex(
    rb'"(?:prompt|completion|response|question|answer|text|messages|instruction|content|query|chosen|rejected)"'
    rb'\s*:\s*["\[{]'
)
"""Typical fields of dataset rows; if such rows have no step, they are not a history."""
_SAMPLED_ROWS = 64
"""Maximum rows of a table to examine."""
_TEXT_CHARS = 20
_OF_UPDATES = regex(r"loss|grad_?norm|learning_rate|(?:^|[/_])(?:lr|kl)$", re.IGNORECASE)
_WORD, _DIGITS = regex(r"[^\W\d_]{2}"), regex(r"\d+(?:\.\d+)?")
TRAINING = regex(
    rb"\b(?:train(?:er|ing|_\w+)?|rollouts?|epochs?|rewards?|policy|checkpoints?|grpo|ppo|dpo|kto|sft|rlhf|torchrun)\b",
    re.IGNORECASE,
)
"""Words in the log of a training job, as opposed to another program that failed."""
DIED = "a console log that ends in an error before the first row"
"""Reason of a log without rows; it represents the run if there is no other file."""
_NO_ROWS = "no rows"
NO_TRACKER = "an SQLite database without runs of Trackio or MLflow"
NO_RUN = "a database without a run so far"
UNWRITTEN = "only NUL bytes so far"
"""Reason of a file that is not judged yet: on a network file system, contents may arrive without a size change."""


def sniff(path: str, *, is_hurried: bool = False) -> tuple[Kind | None, str]:
    """The kind of a file, and why it is not a metric stream (empty if it is one).

    A metric row has a step and a number. Files contain samples if their typical line exceeds 64 KiB, their rows share
    no number, or they have many rows per step. Compressed files are judged by their contents.

    Args:
        is_hurried: there are few files to judge and somebody waits (see `decode.json_text`): accept a JSON document
            unchecked.

    Raises:
        OSError: it cannot be opened or read.
        DecodeError: it is compressed and cannot be decompressed.
    """
    if os.path.isdir(path):  # noqa: PTH112 - a Path method raises without permission
        return TABLES, ""
    with open_regular(path) as file:
        head = file.read(SNIFF_BYTES) or b""
        is_all = len(head) < SNIFF_BYTES
        tail = b"" if is_all else last_bytes(file, SNIFF_BYTES)
        if not is_all and codec_of(head) is Codec.BZIP2:
            file.seek(0)
            head = file.read(_BZIP2_BYTES)
            is_all = len(head) < _BZIP2_BYTES
    if head and not head.strip(b"\0") and "tfevents" not in Path(path).name:
        # After `copytruncate`, a writer without O_APPEND leaves a hole of any size before its output.
        head = tail.lstrip(b"\0") if tail[:1] == b"\0" else tail.partition(b"\n")[2]
        if not head:
            return None, UNWRITTEN
    if head.startswith(SQLITE_MAGIC) or (not head and may_be_database(path)):
        return _kind_of_database(path)
    what, _ = why_refused(head)
    if what and not any(kind.is_sign(head[:HEAD_BYTES]) for kind in KINDS):
        return None, what
    codec = codec_of(head)
    if codec is not None:
        return _kind_of_compressed(path, head, codec, is_all=is_all)
    return _judge(path, head, tail, DecoderOptions(is_hurried=is_hurried), is_all=is_all)


def _kind_of_database(path: str) -> tuple[Kind | None, str]:
    from rltop.formats.tables import runs_in  # noqa: PLC0415 - few runs use tracker databases

    try:
        runs = runs_in(path) if Path(path).stat().st_size else []
    except DecodeError as error:
        raise DecodeError(f"an SQLite database: {error.message}", error.hint) from error
    return (None, NO_TRACKER) if runs is None else (TABLES, "" if runs else NO_RUN)


def _kind_of_compressed(path: str, head: bytes, codec: Codec, *, is_all: bool) -> tuple[Kind | None, str]:
    from rltop.formats.compressed import CompressedDecoder  # noqa: PLC0415 - most files are not compressed

    decoder = CompressedDecoder(codec, AutoDecoder(path, DecoderOptions(), layers=1))
    records = decoder.feed(head, 0, 0)
    for _ in range(_UNPACKED_SLICES):
        if records or not decoder.has_more or decoder.unpacked_bytes >= _UNPACKED_BYTES:
            break
        records = decoder.decode_more()
    if is_all and not records and not decoder.has_more:
        records = decoder.finish()
    if decoder.stopped and not records:
        raise DecodeError(decoder.stopped, "unpack it and pass the file inside")
    return None, "" if records else f"{codec}, no metrics at its beginning"


def damage_at_start(path: str, kind: Kind | None) -> str:
    """Why nothing in a file of binary records is readable; empty if something is, or may be later.

    Raises:
        OSError: it cannot be opened or read.
    """
    if kind is None or kind is TABLES or not kind.is_of_tracker:
        return ""
    decoder = kind.make(DecoderOptions())
    with Path(path).open("rb") as file:
        records = decoder.feed(file.read(_FIRST_RECORD_BYTES), 0, 0)
    return "" if records else decoder.stopped


def _judge(path: str, head: bytes, tail: bytes, options: DecoderOptions, *, is_all: bool) -> tuple[Kind | None, str]:
    """The kind of an uncompressed file, and why it is not a metric stream."""
    kind = kind_of(head, path, is_all=True)
    if kind is WHOLE_JSON:
        is_taken = options.is_hurried or bare_name(Path(path).name) == "trainer_state.json"
        return kind, "" if is_taken else _why_not_document(head if is_all else completed_json(head), options)
    if kind is CONSOLE and is_noise(head):
        return None, BINARY
    if kind is CONSOLE:
        reasons = [_why_not_console(path, data) for data in (head, tail) if data]
        looked = "" if is_all else f" in its first and last {SNIFF_BYTES >> 10} KiB"
        others = [known for known in reasons if known not in ("", DIED, _NO_ROWS)]
        why = next(iter(others), f"text without a line of metrics{looked}")
        return kind, next((known for known in ("", DIED) if known in reasons), why)
    if kind is CSV:
        return kind, _why_not_table(head, options)
    if kind is not None and kind.is_line_based:
        return kind, _why_not_lines(kind, head.replace(b"\0", b""), options, is_all=is_all)
    return kind, "" if kind is not None else "unknown format"


def _why_not_console(path: str, data: bytes) -> str:
    decoder = CONSOLE.make(DecoderOptions())
    if decoder.feed(data, 0, 0) or decoder.finish():
        return ""
    from rltop.formats.console.writers import writers_in  # noqa: PLC0415 - most logs contain a single run

    if writers_in(io.BytesIO(data)):
        return ""
    if decoder.failure and (is_job_log(path) or TRAINING.search(data)):
        return DIED
    counts = decoder.counts
    if counts.first_stepless:
        return f"its rows have no step ({Label.of(counts.first_stepless)})"
    return f"numbers in no form that is read ({Label.of(counts.first_unread)})" if counts.first_unread else _NO_ROWS


def _why_not_table(text: bytes, options: DecoderOptions) -> str:
    """Why a table without a step is not a series, but results per model, samples, or text with commas."""
    decoder = CSV.make(options)
    records = [*decoder.feed(text, 0, 0), *decoder.finish()]
    if not records or decoder.counts.numbered_rows < len(records):
        return ""
    if not any(record.schema.keys for record in records):
        return "its rows have no number"
    import csv  # noqa: PLC0415 - most files are not tables

    lines = io.StringIO(text.decode("utf-8", "replace").lstrip("\ufeff"), newline="")
    delimiter = max(",;\t", key=lines.readline().count)
    lines.seek(0)
    try:
        read = csv.reader(dropwhile(lambda line: line.startswith("#"), lines), delimiter=delimiter)
        header, *rows = [row for row, _ in zip(read, range(_SAMPLED_ROWS), strict=False) if row]
    except (csv.Error, ValueError):
        return ""
    if any(isinstance(number_of(name.strip()), float) for name in header):
        return "a table whose first line names no columns"
    return _why_separate_items([(name, cells) for name, *cells in zip(header, *rows, strict=False)], records)


def _why_separate_items(columns: Sequence[tuple[str, Sequence[object]]], records: Sequence[Record]) -> str:
    """Why rows without a step belong to separate things, each with its own name or text; else empty."""
    named = [at for at, (_, cells) in enumerate(columns) if _are_names(cells)]
    if not named or (named[0] > 1 and _is_logged(records, [columns[at][1] for at in named])):
        return ""
    return f"one row for each {Label.of(columns[named[0]][0]).raw or 'name'} and no step: results or samples"


def _why_objects(rows: Sequence[object], records: Sequence[Record]) -> str:
    objects = [row for row in rows if isinstance(row, dict)]
    keys = list(dict.fromkeys(key for row in objects for key in row))
    return _why_separate_items([(key, [row.get(key) for row in objects]) for key in keys], records)


def _is_logged(records: Sequence[Record], texts: Sequence[Sequence[object]]) -> bool:
    """Whether rows belong to a run despite their texts. With long texts, as in samples, only a loss proves it."""
    if any(len(str(min(cells, key=lambda cell: len(str(cell))))) >= _TEXT_CHARS for cells in texts):
        return any(_OF_UPDATES.search(key) for record in records for key in record.schema.keys)
    return _has_meaning(records)


def _are_names(cells: Sequence[object]) -> bool:
    """Whether they are words that differ in more than a number, unlike clock times and checkpoint names."""
    words = [cell for cell in cells if isinstance(cell, str) and _WORD.search(cell)]
    if len(set(words)) < len(cells):
        return False
    return len(cells) == 1 or len({_DIGITS.sub("#", word) for word in words}) > 1


def _why_not_document(text: bytes, options: DecoderOptions) -> str:
    """Why a JSON document is not the history of a run, but results, settings, a dataset or a vocabulary."""
    decoder = WHOLE_JSON.make(options)
    records = [*decoder.feed(text, 0, 0), *decoder.finish()]
    if not records:
        line = conflict_line(text)
        return f"git conflict markers on line {line}" if line else "a JSON document, not rows of metrics"
    if why := _why_no_series(records):
        return why
    if any(all(key.rstrip(b":") in text for key in keys) for keys in _SAMPLE_KEYS):
        return SAMPLES[2]
    if decoder.counts.numbered_rows and _TEXTS.search(text):
        return "a JSON document of texts"
    if decoder.counts.numbered_rows == len(records) and text.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        rows, _ = tolerant_loads(text)
        if why := _why_objects(rows[:_SAMPLED_ROWS] if isinstance(rows, list) else [], records):
            return why
    is_long = len(records) >= _SAMPLE_ROWS and not decoder.counts.numbered_rows
    return "" if is_long or _has_meaning(records) else "a JSON document, not rows of metrics"


def _has_meaning(records: Sequence[Record]) -> bool:
    from rltop.trainers.identify import identify  # noqa: PLC0415 - rare, and it imports every trainer

    found = identify(list(dict.fromkeys(key for record in records for key in record.schema.keys)), {})
    return bool(found.signals or found.guesses)


def completed_json(head: bytes) -> bytes:
    """The beginning of a JSON document as a valid one: cut after its last complete value, with closing brackets."""
    open_brackets, whole = bytearray(), (0, b"")
    for token in _JSON_TOKEN.finditer(head):
        sign = head[token.start()]
        if sign in b"[{":
            open_brackets.append(_CLOSING[sign])
        elif sign in b"]}":
            del open_brackets[-1:]
        elif sign in b",":
            whole = token.start(), bytes(reversed(open_brackets))
    end, brackets = whole
    return head[:end] + brackets


def _why_not_lines(kind: Kind, head: bytes, options: DecoderOptions, *, is_all: bool) -> str:
    if b"\n" not in head:
        if not is_all:
            return "one line longer than any row of metrics"
        head += b"\n"
    lines = head.split(b"\n")[:-1]
    if sorted(map(len, lines))[len(lines) // 2] > _SAMPLE_LINE_BYTES:
        return SAMPLES[0]
    if len(lines) > _FIRST_LINES and not _why_no_rows(kind, lines[:_FIRST_LINES], options):
        return ""
    return _why_no_rows(kind, lines, options)


def _why_no_rows(kind: Kind, lines: Sequence[bytes], options: DecoderOptions) -> str:
    decoder = kind.make(options)
    records = decoder.feed(b"\n".join(lines) + b"\n", 0, 0)
    if not records:
        return _lack_of(kind, decoder)
    if not any(record.schema.keys for record in records):
        return "its rows have a step and no number"
    if why := _why_no_series(records):
        return why
    if decoder.counts.numbered_rows < len(records):
        return ""
    if _are_completions(lines):
        return SAMPLES[2]
    return _why_objects([object_of(line) for line in lines[:_SAMPLED_ROWS]], records)


def _why_no_series(records: Sequence[Record]) -> str:
    seen: set[str] = set()
    if len(records) > 1 and not any(_repeats(record, seen) for record in records):
        return "rows share no numeric key"
    is_crowded = len(records) >= _SAMPLE_ROWS and _steps_begun(records) * _SAMPLES_A_STEP <= len(records)
    return SAMPLES[1] if is_crowded else ""


def _lack_of(kind: Kind, decoder: Decoder) -> str:
    if decoder.finish():
        return "too few rows without a step to be told from samples"
    if decoder.counts.lines == decoder.counts.bad_lines:
        return NAMELESS if decoder.counts.first_bad_reason == NAMELESS else f"not {kind.title}"
    first = Label.of(decoder.counts.first_stepless)
    return f"its rows have no step ({first})" if first.raw else "its rows have no step"


def _are_completions(lines: Sequence[bytes]) -> bool:
    found = sum(any(all(key in line for key in keys) for keys in _SAMPLE_KEYS) for line in lines)
    return 2 * found > len(lines)


def _steps_begun(records: Sequence[Record]) -> int:
    """Number of step starts: a row with a new step, or with only new keys for the same one (a row split over lines)."""
    begun, step, seen = 0, None, set[str]()
    for record in records:
        keys = set(record.schema.keys)
        if record.step != step:
            begun, step, seen = begun + 1, record.step, keys
        elif not keys & seen:
            begun, seen = begun + 1, seen | keys
    return begun


def _repeats(record: Record, seen: set[str]) -> bool:
    keys = set(record.schema.keys)
    if keys & seen:
        return True
    seen |= keys
    return False


class _Refused(NamedTuple):
    """A kind of file that no decoder reads.

    Attributes:
        suffixes: file suffixes that identify it without reading the file.
    """

    what: str
    signature: bytes
    suffixes: tuple[str, ...] = ()
    remedy: str = "pass the file that the trainer logs to"


_REFUSED = (
    _Refused(NO_TRACKER, SQLITE_MAGIC, remedy="pass the database of the tracker, or the metrics file of the run"),
    _Refused("a parquet table: samples or completions", b"PAR1", (".parquet",), "pass the metrics file of the run"),
    _Refused("compressed with xz", b"\xfd7zXZ\0", (".xz",), "unpack it: xz -dc FILE | rltop -"),
    _Refused("a zip archive", b"PK\x03\x04", (".zip",), "unpack it and pass the file inside"),
    _Refused("a numpy array", b"\x93NUMPY"),
)


def name_refused(name: str) -> str:
    """Description of an unsupported file by its name; empty if the name does not tell."""
    suffix = PurePath(name).suffix.lower()
    return next((one.what for one in _REFUSED if suffix in one.suffixes), "")


_OF_TRACKERS = (
    ("SwanLab", regex(r"/swanlog/(?:debug[^/]*|.*/(?:debug|logs)/.+)\Z|/run-\d{8}_\d{6}-[^/]+/debug/.+\Z")),
    ("W&B", regex(
        r"/debug-(?:internal|core|cli)\b[^/]*\Z|/wandb-(?:summary|metadata)\.json\Z|/wandb/debug[^/]*\Z"
        r"|/(?:(?:offline-)?run-\d{8}_\d{6}-[^/]+|latest-run)/logs/.+\Z"
    )),
    ("Ray", regex(r"/session_(?:latest|\d{4}-\d\d-\d\d_[^/]+)/logs/(?!worker-|job-driver-).+\Z")),
)  # fmt: skip
"""Paths where trackers and Ray write their own logs; Ray keeps the run's standard output in the same folder."""
_PARTS_OF_TRACKERS = ("/swanlog/", "/run-", "/offline-run-", "/latest-run/", "/debug-", "/wandb", "/session_")
"""Every such path contains one of these, so most paths need no further check."""


def tracker_of(path: str) -> str:
    """The tracker that wrote a file for its own use, by the path: such a file is never a run; empty if none did."""
    where = os.path.abspath(path)  # noqa: PTH100 - links must not be resolved
    if not any(part in where for part in _PARTS_OF_TRACKERS):
        return ""
    return next((whose for whose, pattern in _OF_TRACKERS if pattern.search(where)), "")


def why_refused(head: bytes) -> tuple[str, str]:
    """Description and remedy of an unsupported file by its first bytes; both empty if it may contain metrics."""
    return next(((one.what, one.remedy) for one in _REFUSED if head.startswith(one.signature)), ("", ""))
