"""Every supported format, one row each, how a file is recognised, and the decoder that finds out what it is given.

A row says all that the rest of the program knows of a format: how its decoder is made, by what its files are found and
recognised, and what a run is to be when it has several. The forms of text (lines of JSON, a JSON document, CSV, a log)
are told apart from one another below the rows. What is compressed is recognised here, and unpacked by `compressed`. A
file that does not exist yet, a pipe and a file with the wrong name are all decoded as what they turn out to be.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import PurePath

from rltop.errors import DecodeError, SourceError, refusing
from rltop.formats.decoder import (
    BOM,
    CONFLICT,
    MAGIC_BYTES,
    Codec,
    Decoder,
    DecoderOptions,
    OuterDecoder,
    codec_of,
    without_holes,
)
from rltop.formats.jsonl import JsonlDecoder, ready_loads
from rltop.model import Counts, Record
from rltop.model.table_rows import LOG_NAME, ROWS_MAGIC, SQLITE_MAGIC
from rltop.regex import regex
from rltop.structs import NamedTuple, late

HEAD_BYTES = 4096
"""Bytes that settle the kind of a text file, or its first line if that is shorter."""
_BINARY_HEAD = 12
_FIRST_EVENT_BYTES = 1024
"""The first event of an event file names its version; it is about 40 bytes."""
_ZIP = b"PK\x03\x04"
_FIRST_TABLES = frozenset({b"prompts.parquet", b"orchestrator.parquet"})
"""With which the two kinds of archives that Telescope writes begin."""
_BLANK = b"\0 \t\r\n"
_TRACE = regex(rb'[\[{\s]*(?:\{[^{}]{0,2000})?"(?:ph"\s*:\s*"[A-Za-z]"|traceEvents"\s*:\s*\[)')
"""An event with a phase, alone or in an array, or an object of events."""
_COLUMNS = regex(
    rb"""
    \{\s*
    (?: "[^"\n]{1,80}" \s*:\s* (?: \[\s*\] | "[^"\n]{0,200}" | null | \{[^{}\[\]\n]{0,2000}\} ) \s*,\s* ){0,8}+
    (?:
      "[^"\n]{1,80}" \s*:\s* (?:
        \[\s* (?: [\[{] | (?:-?\d[\d.eE+-]*\s*,\s*){3} )
        | \{\s* (?: "\d+" \s*:\s* (?! [{\[] ) | "(?: steps? | x )" \s*:\s* \[
          | "[^"\n]{1,80}" \s*:\s* \{\s* "(?: steps? | x | values? | y )" \s*:\s* \[
          | "[^"\n]{1,80}" \s*:\s* \[\s* (?: (?:-?\d[\d.eE+-]*\s*,\s*){3} | \{\s*"(?: steps? | x )" ) )
      )
      | "\d+" \s*:\s* \{
      | "(?: columns | schema | log_history )" \s*:\s* [\[{]
    )""",
    re.VERBOSE,
)
"""A table on one line: a list of objects, or of at least four numbers, first, or first in a group; cells, rows or
columns by number. Texts, settings and columns without values may stand before it, but no number: a row has one."""
_ROWS_INSIDE = regex(
    rb'"(?:log_history|history|logs|metrics|records|rows)"\s*:\s*"?\[\s*\{|:\s*\[\s*\{\s*"(?:step|epoch)"\s*:'
)
"""Rows, or the text of rows, behind what else an object of one line holds: a trainer's state under another name."""
_CSV_HEADER = regex(
    rb"""
    (?: \s*"?[\w/@.\ -]+"?(?:,"?[\w/@.()\ -]*"?)+
      | [A-Za-z_][\w/@.()\ -]*(?:\t[A-Za-z_][\w/@.()\ -]*){2,} )
    \s*\r?$""",
    re.VERBOSE,
)
"""Names between commas, or between tabs (`progress.txt` of Spinning Up)."""


class Kind(NamedTuple):
    """One format.

    Attributes:
        make: a decoder of it, imported when the first one is made.
        file_name: what its files are called; in a directory only such files are looked into.
        is_sign: whether the first bytes (up to `HEAD_BYTES`) can only be of this format.
        note: what a person should know about how fresh its rows are; empty if they are.
        is_line_based: its last lines can be read without the ones before.
        row_starts: the same for rows that are no lines: the offsets at which rows begin in a piece of a file, which
            is given with its own offset; None where there is no way to tell.
        head_bytes: how much of the beginning is needed to read the last rows (`Decoder.take_head`).
        has_sequels: a run that is resumed goes on in another file of the same folder.
        has_spans: it says when stages began and ended, worker by worker.
        has_metrics: it holds more than times; else it is shown beside the run in whose folder it lies.
    """

    name: str
    title: str
    make: Callable[[DecoderOptions], Decoder]
    file_name: str
    is_sign: Callable[[bytes], bool] = lambda _: False
    note: str = ""
    is_line_based: bool = False
    row_starts: Callable[[bytes, int], Sequence[int]] | None = None
    head_bytes: int = 0
    has_sequels: bool = False
    has_spans: bool = False
    has_metrics: bool = True


def _is_trace(head: bytes) -> bool:
    text = head.removeprefix(BOM).lstrip(_BLANK)
    has_name = b'"ph"' in text or b'"traceEvents"' in text
    return has_name and text.startswith((b"[", b"{")) and _TRACE.match(text) is not None


def _is_telescope(head: bytes) -> bool:
    size = int.from_bytes(head[26:28], "little")
    return head.startswith(_ZIP) and head[30 : 30 + size] in _FIRST_TABLES


HEAD_OF_ROWS = 64 * 1024
"""The names of 2,000 columns, or the settings of a run and its first rows: about a millisecond."""

JSONL = Kind("jsonl", "JSON lines", JsonlDecoder, r"\.(jsonl|ndjson)\Z", is_line_based=True)
TELESCOPE = Kind(
    "telescope",
    "Telescope archives",
    lambda _: late("rltop.formats.telescope", "TelescopeDecoder")(),
    r"^(tail|block_live|block_\d+)\.zip\Z",
    is_sign=_is_telescope,
    note="the timing of a step is known once the next begins",
    has_spans=True,
)
TENSORBOARD = Kind(
    "tensorboard",
    "TensorBoard events",
    lambda _: late("rltop.formats.tensorboard", "TensorBoardDecoder")(),
    "tfevents",
    has_sequels=True,
    row_starts=late("rltop.formats.tensorboard", "row_starts"),
)
CSV = Kind(
    "csv",
    "CSV",
    lambda options: late("rltop.formats.csv", "CsvDecoder")(options.step_key, may_count_rows=options.may_count_rows),
    r"\.[ct]sv\Z|\Aprogress\.txt\Z",
    is_line_based=True,
    head_bytes=HEAD_OF_ROWS,
)
WANDB = Kind(
    "wandb",
    "W&B run",
    lambda _: late("rltop.formats.wandb", "WandbDecoder")(),
    r"\.wandb\Z",
    is_sign=lambda head: head.startswith(b":W&B"),
    note="W&B writes 32 KiB at a time: the newest steps may lag",
    has_sequels=True,
    row_starts=late("rltop.formats.wandb", "row_starts"),
    head_bytes=HEAD_OF_ROWS,
)
SWANLAB = Kind(
    "swanlab",
    "SwanLab run",
    lambda _: late("rltop.formats.wandb", "SwanLabDecoder")(),
    r"\.swanlab\Z",
    is_sign=lambda head: head.startswith(b":SWL"),
    note="SwanLab writes when its buffer is full: the newest steps may lag",
)
TABLES = Kind(
    "tables",
    "Trackio or MLflow",
    lambda options: late("rltop.formats.tables", "TableDecoder")(options.step_key),
    r"\.(db|sqlite3?)\Z",
    # Rows of a tracker's tables; a database itself is read run by run, and never as bytes.
    is_sign=lambda head: head.startswith((ROWS_MAGIC, SQLITE_MAGIC)),
)
CONSOLE = Kind(
    "console",
    "console log",
    late("rltop.formats.console.decoder", "ConsoleDecoder"),
    LOG_NAME.pattern,
    is_line_based=True,
)
WHOLE_JSON = Kind(
    "whole_json",
    "JSON document",
    lambda options: late("rltop.formats.json_document", "DocumentDecoder")(options.step_key),
    r"\.json\Z",
    note="updates only when a checkpoint is saved",
)
TRACE = Kind(
    "trace",
    "Chrome trace",
    lambda _: late("rltop.formats.trace", "ChromeTraceDecoder")(),
    r"\.json\Z",
    is_sign=_is_trace,
    note="a step is shown when it has ended",
    has_spans=True,
    has_metrics=False,
)

KINDS: tuple[Kind, ...] = (JSONL, TELESCOPE, TENSORBOARD, CSV, WANDB, SWANLAB, TABLES, CONSOLE, WHOLE_JSON, TRACE)
"""Every format that is read, compressed ones aside: those are unpacked first.

Of several files that hold one run the first in this order is shown: the most complete and freshest.
"""
_FILE_NAME = regex("|".join(kind.file_name for kind in KINDS))

_OF_ROWS = (".jsonl", ".ndjson")
"""Names that say JSON lines: decisive only where the first line is no row, being torn or a header."""
_OF_LINES = (".log", ".txt", ".out")
"""Names of what grows: an object over several lines is a row there, and the next may follow."""
_COMPRESSED_SUFFIXES = (".gz", ".bz2", ".zst")


@lru_cache(maxsize=4096)  # of many runs the files have the same name
def bare_name(name: str) -> str:
    """A file's name without the suffixes of compression and rotation: `x.jsonl.1.gz` is `x.jsonl`."""
    path = PurePath(name)
    while path.suffix in _COMPRESSED_SUFFIXES or (path.suffix[1:].isdecimal() and PurePath(path.stem).suffix):
        path = PurePath(path.stem)
    return path.name


def may_hold_metrics(name: str) -> bool:
    return _FILE_NAME.search(bare_name(name)) is not None


BINARY = "binary data of no known format"
_CONTROLS = bytes({*range(0x20), 0x7F} - set(b"\a\b\t\n\v\f\r\x1b"))
_CONTROL_SHARE = 0.03
"""A tenth of random bytes are control characters that no console writes; text in any encoding has hardly any."""


def is_noise(head: bytes) -> bool:
    """Are the first bytes of what would be a console log no text at all?

    Args:
        head: the beginning of the file; of more than `HEAD_BYTES` the rest does not count.
    """
    text = _outside_holes(head[:HEAD_BYTES])
    return _is_odd(text.partition(b"\n")[0]) and _control_count(text) > _CONTROL_SHARE * len(text)


def _is_odd(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return True
    return _control_count(line) > 0


def _control_count(text: bytes) -> int:
    return len(text) - len(text.translate(None, _CONTROLS))


def _outside_holes(head: bytes) -> bytes:
    return b"".join(part for part, _ in without_holes(head, 0))


def kind_of(head: bytes, name: str, *, is_all: bool = False) -> Kind | None:
    """The kind of a file by its first bytes; None if these are too few to tell."""
    name = bare_name(PurePath(name).name)
    head = head[:HEAD_BYTES]
    told = next((kind for kind in KINDS if kind.is_sign(head)), None)
    if told is not None:
        return told
    if "tfevents" in name:
        return TENSORBOARD
    if len(head) < _BINARY_HEAD and not is_all:
        return None
    (length,) = struct.unpack_from("<Q", head.ljust(8, b"\0"))
    if 0 < length <= _FIRST_EVENT_BYTES:
        if len(head) < _BINARY_HEAD + length and not is_all:
            return None
        if b"brain.Event" in head[_BINARY_HEAD : _BINARY_HEAD + length]:
            return TENSORBOARD
    return _kind_of_text(head, name, is_all=is_all or len(head) == HEAD_BYTES)


def _kind_of_text(head: bytes, name: str, *, is_all: bool) -> Kind | None:
    text = head.removeprefix(BOM).lstrip(_BLANK)
    if text.startswith(CONFLICT):
        text = text.partition(b"\n")[2].lstrip(_BLANK)
    if not text and not is_all:
        return None
    if text.startswith((b"[", b"{")):
        return _kind_of_json(text, name, is_all=is_all)
    line, end, _ = text.partition(b"\n")
    if not end and not is_all:
        return None
    if name.endswith(_OF_ROWS):
        return CSV if _CSV_HEADER.match(line) else JSONL
    if name.endswith((".csv", ".tsv")) or _CSV_HEADER.match(line):
        return CSV
    # What may be no text is looked at as far as it is, so that it does not matter in which pieces it comes.
    return CONSOLE if is_all or not _is_odd(_outside_holes(head).partition(b"\n")[0]) else None


def _kind_of_json(text: bytes, name: str, *, is_all: bool) -> Kind | None:
    if text.startswith(b"["):
        return _kind_of_array(text, name, is_all=is_all)
    of_docker = late("rltop.formats.console.scan", "is_of_docker")(text) if text.startswith(b'{"log":"') else False
    if of_docker or (of_docker is None and not is_all):
        return CONSOLE if of_docker else None
    rest = text[1:].lstrip(b" \t\r")
    if name == "trainer_state.json" or rest.startswith(b"\n"):
        return JSONL if name.endswith((*_OF_ROWS, *_OF_LINES)) else WHOLE_JSON
    if name.endswith(".json") and (rest or is_all):
        return _kind_of_table(text, is_all=is_all)
    # A printed Python dict: the standard output of transformers, where its bars go to another file.
    is_printed = rest.startswith(b"'") and not name.endswith((*_OF_ROWS, ".json"))
    return CONSOLE if is_printed else JSONL if rest or is_all else None


def _kind_of_table(text: bytes, *, is_all: bool) -> Kind | None:
    """A `.json` file whose first line holds an object: a table if that begins with rows or a column and is all."""
    line, end, behind = text.partition(b"\n")
    has_rows = _COLUMNS.match(text) or _ROWS_INSIDE.search(line)
    if behind.strip() or (is_all and not has_rows):
        return JSONL
    if is_all:
        return WHOLE_JSON
    return JSONL if end and not has_rows else None


def _kind_of_array(text: bytes, name: str, *, is_all: bool) -> Kind | None:
    """A bracket first: a document of rows, a line that is no row, or a log that begins with a time or a rank."""
    line, end, behind = text.partition(b"\n")
    inside = line[1:].strip()
    if not inside:
        return WHOLE_JSON if end or is_all else None
    if inside.startswith(b"{"):
        if not name.endswith(_OF_ROWS) or (end and not inside.endswith(b"]")):
            return WHOLE_JSON
        return JSONL if behind.strip() else WHOLE_JSON if is_all else None
    if inside.startswith(b"[") and name.endswith(".json"):
        return WHOLE_JSON
    if not end and not is_all:
        return None
    return JSONL if name.endswith(_OF_ROWS) or _is_json(line) else CONSOLE


def _is_json(line: bytes) -> bool:
    try:
        ready_loads(line)
    except ValueError:
        return False
    return True


MOST_LAYERS = 4
"""Layers of compression that are taken off one another; each costs a decoder, and nobody packs a log more often."""


class AutoDecoder(OuterDecoder):
    """Holds the first bytes back until they tell their kind.

    Attributes:
        kind: what it turned out to be, or None so far.
    """

    def __init__(self, name: str, options: DecoderOptions, layers: int = 0) -> None:
        """Nothing is known yet.

        Args:
            layers: how many layers of compression have been taken off what it is given.
        """
        self.kind: Kind | None = None
        self._layers = layers
        self._refusal = ""
        self._name = name
        self._options = options
        self._damage = ""
        self._held = b""
        self._start: tuple[int, int] = (0, 0)
        self._inner: Decoder | None = None
        self._earlier = Counts()

    @property
    def counts(self) -> Counts:  # type: ignore[override]  # the other decoder's
        if self._inner is None or not self._earlier.lines:
            return self._earlier if self._inner is None else self._inner.counts
        total = Counts()
        total.add(self._earlier)
        total.add(self._inner.counts)
        return total

    @property
    def stopped(self) -> str:
        """Why it cannot be unpacked, what has ended it, or as the decoder of its kind says."""
        return self._damage or self._refusal or super().stopped

    def feed(self, data: bytes, offset: int, generation: int) -> list[Record]:
        """Decode what has come, or hold it until its kind is known."""
        if self._inner is not None:
            return self._guarded(lambda inner: inner.feed(data, offset, generation))
        if self._refusal:
            return []
        if not self._held:
            self._start = (offset, generation)
        self._held += data
        return self._settle(is_all=False)

    @property
    def has_more(self) -> bool:
        return self._inner is not None and not self._damage and self._inner.has_more

    def go_on(self) -> list[Record]:
        return self._guarded(lambda inner: inner.go_on())

    def flush(self) -> list[Record]:
        return self._guarded(lambda inner: inner.flush())

    @property
    def holds_back(self) -> bool:
        """Is there a beginning of which the kind is not known, or what the decoder of its kind keeps back?"""
        return bool(self._held) or (self._inner is not None and self._inner.holds_back)

    def finish(self) -> list[Record]:
        records = self._settle(is_all=True) if self._inner is None and self._held else []
        return [*records, *self._guarded(lambda inner: inner.finish())]

    def reset(self, *, is_restart: bool = True) -> None:
        """A new file begins. A compressed one may be followed by a plain one: kind is found out again."""
        self._held, self._refusal, self._damage = b"", "", ""
        if self._inner is None:
            return
        if self.kind is None:
            self._earlier.add(self._inner.counts)
            self._inner = None
        else:
            self._inner.reset(is_restart=is_restart)

    def _settle(self, *, is_all: bool) -> list[Record]:
        head = self._held
        if len(head) < MAGIC_BYTES and not is_all:
            return []
        codec = codec_of(head)
        if codec is not None:
            try:
                self._inner = self._unpacked(codec)
            except SourceError as error:
                return self._refused(error)
        else:
            self.kind = kind_of(head, self._name, is_all=is_all)
            if self.kind is None:
                return []
            if self.kind is CONSOLE and is_noise(head):
                return self._refused(SourceError(BINARY))
            self._inner = self.kind.make(self._options)
        self._held = b""
        return self._guarded(lambda inner: inner.feed(head, *self._start))

    def _guarded(self, read: Callable[[Decoder], list[Record]]) -> list[Record]:
        """What the decoder of its kind makes of it; damage that it does not see through itself ends the file."""
        if self._inner is None or self._damage:
            return []
        try:
            with refusing("cannot read any further"):
                return read(self._inner)
        except DecodeError as error:
            self._damage = error.message
            counts = self._inner.counts
            counts.refuse(counts.lines + 1, error.message)
            return []

    def _unpacked(self, codec: Codec) -> Decoder:
        from rltop.formats.compressed import CompressedDecoder  # noqa: PLC0415

        if self._layers >= MOST_LAYERS:
            raise SourceError(f"compressed more than {MOST_LAYERS} times", "decompress it first")
        return CompressedDecoder(codec, AutoDecoder(self._name, self._options, self._layers + 1))

    def _refused(self, error: SourceError) -> list[Record]:
        """It cannot be unpacked: said, counted, and nothing of it is kept; the next file may be another."""
        self._refusal = error.message
        self._earlier.refuse(self._earlier.lines + 1, error.message)
        self._held = b""
        return []
