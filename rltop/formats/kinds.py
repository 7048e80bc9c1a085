"""The table of supported formats, format detection, and the decoder that detects its format.

A row has everything that the rest of the program knows about a format: how to make its decoder, how its files are found
and recognised, and its rank if a run has several. The kinds of text (JSON lines, JSON document, CSV, console log) are
told apart below the table. Compression is recognised here and handled by `compressed`. A file that does not exist yet,
a pipe and a file with the wrong name are decoded as what their content turns out to be.
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
    ClosedDecoder,
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
"""Bytes, or the first line if that is shorter, that determine the kind of a text file."""
_BINARY_HEAD = 12
_FIRST_EVENT_BYTES = 1024
"""Limit for the first event of an event file, which contains the version and has about 40 bytes."""
_ZIP = b"PK\x03\x04"
_FIRST_TABLES = frozenset({b"prompts.parquet", b"orchestrator.parquet"})
"""First members of the two kinds of archives that Telescope writes."""
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
columns by number. Strings, settings and empty columns may come before it, but no number, since that would be a row."""
_ROWS_INSIDE = regex(
    rb'"(?:log_history|history|logs|metrics|records|rows)"\s*:\s*"?\[\s*\{|:\s*\[\s*\{\s*"(?:step|epoch)"\s*:'
)
"""Rows, or a string of rows, anywhere in a one-line object, such as a trainer state under another file name."""
_CSV_HEADER = regex(
    rb"""
    (?!.*(?:[^\s,]+\ ){6}) (?!\s*[A-Za-z_]+\ \d+,.*[A-Za-z_]\ -?\d+\.\d) (?: \s*"?[\w/@.\ -]+"?(?:,"?[\w/@.()\ -]*"?)+
      | [A-Za-z_][\w/@.()\ -]*(?:\t[A-Za-z_][\w/@.()\ -]*){2,} )
    \s*\r?$""",
    re.VERBOSE,
)
"""Names separated by commas or tabs (`progress.txt` of Spinning Up); more than six words between commas are prose."""


class Kind(NamedTuple):
    """One format.

    Attributes:
        make: makes a decoder, which is imported only then.
        file_name: pattern for the names of its files; in a directory only these are examined.
        is_sign: can the first bytes (up to `HEAD_BYTES`) only be of this format?
        note: what a user should know about delayed rows; empty if there is no delay.
        is_line_based: the last lines can be read without the ones before.
        row_starts: the same for rows that are not lines: takes a piece of a file and its offset, and returns the
            offsets at which rows begin; None if they cannot be found.
        head_bytes: size of the beginning that is needed to read the last rows (`Decoder.take_head`).
        has_sequels: a resumed run continues in another file of the same folder.
        has_title: its first records name the run (`Decoder.title`).
        is_document: one value holds all rows, and is written anew with each of them.
        is_folder: a run is a folder of such files, two levels above them.
        is_by_folder: the files of a folder are one stream, whatever their names; those in folders below are its parts.
        owns_folder: all other files in its folder belong to the run.
        is_of_tracker: written by a tracker beside the trainer's own file, perhaps before any row.
        has_spans: it has begin and end times of stages, per worker.
        has_metrics: it holds more than times; otherwise it is shown together with the run in the same folder.
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
    has_title: bool = False
    is_document: bool = False
    is_folder: bool = False
    is_by_folder: bool = False
    owns_folder: bool = False
    is_of_tracker: bool = False
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
"""The names of 2,000 columns, or the settings and first rows of a run; takes about a millisecond."""

JSONL = Kind("jsonl", "JSON lines", JsonlDecoder, r"\.(jsonl|ndjson)\Z", is_line_based=True)
TELESCOPE = Kind(
    "telescope",
    "Telescope archives",
    lambda _: late("rltop.formats.telescope", "TelescopeDecoder")(),
    r"^(tail|block_live|block_\d+)\.zip\Z",
    is_sign=_is_telescope,
    note="the timing of a step is known once the next begins",
    is_folder=True,
    has_spans=True,
)
TENSORBOARD = Kind(
    "tensorboard",
    "TensorBoard events",
    lambda _: late("rltop.formats.tensorboard", "TensorBoardDecoder")(),
    "tfevents",
    has_sequels=True,
    is_by_folder=True,
    is_of_tracker=True,
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
    has_title=True,
    owns_folder=True,
    is_of_tracker=True,
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
    has_title=True,
    is_of_tracker=True,
)
TABLES = Kind(
    "tables",
    "Trackio or MLflow",
    lambda options: late("rltop.formats.tables", "TableDecoder")(options.step_key),
    r"\.(db|sqlite3?)\Z",
    # Rows of a tracker's tables; a database itself is read run by run, never as bytes.
    is_sign=lambda head: head.startswith((ROWS_MAGIC, SQLITE_MAGIC)),
    is_of_tracker=True,
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
    note="a JSON document: its next rows come when it is saved again",
    is_document=True,
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
"""Every supported format; compressed files are decompressed first.

If several files hold one run, the first in this order is shown: the most complete and freshest one.
"""
_FILE_NAME = regex("|".join(kind.file_name for kind in KINDS))

_OF_ROWS = (".jsonl", ".ndjson")
"""Suffixes for JSON lines; they decide only if the first line is no row, because it is partial or a header."""
_OF_LINES = (".log", ".txt", ".out")
"""Suffixes of growing files, in which a multi-line object is a row, and more may follow."""
_COMPRESSED_SUFFIXES = (".gz", ".bz2", ".zst")


@lru_cache(maxsize=4096)  # many runs have files of the same name
def bare_name(name: str) -> str:
    """A file name without the suffixes of compression and rotation: `x.jsonl.1.gz` becomes `x.jsonl`."""
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
    """Are the first bytes binary data rather than the text of a console log?

    Args:
        head: the beginning of the file; only the first `HEAD_BYTES` are examined.
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
    """The kind of a file by its first bytes; None if more are needed."""
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
    # As long as the first object has not ended, it may be an event of a trace.
    is_open = text.lstrip(b"[ \t\r\n")[:1] in (b"{", b"") and b"}" not in text
    if is_open and not is_all:
        return None
    if text.startswith((b"[", b"{")):
        return _kind_of_json(text, name, is_all=is_all)
    line, end, _ = text.partition(b"\n")
    if not end and not is_all:
        return None
    # Possibly binary data waits for the full head, so that the result does not depend on how the bytes are split.
    is_odd = _is_odd(_outside_holes(head).partition(b"\n")[0])
    if name.endswith(_OF_ROWS) and (not is_odd or b'\n{"' in head or (is_all and not is_noise(head))):
        return CSV if _CSV_HEADER.match(line) else JSONL
    if name.endswith((".csv", ".tsv")) or _CSV_HEADER.match(line):
        return CSV
    return CONSOLE if is_all or not is_odd else None


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
    # A printed Python dict: stdout of transformers, when progress bars go to another file.
    is_printed = rest.startswith(b"'") and not name.endswith((*_OF_ROWS, ".json"))
    return CONSOLE if is_printed else JSONL if rest or is_all else None


def _kind_of_table(text: bytes, *, is_all: bool) -> Kind | None:
    """A `.json` file that begins with an object: a document if its only line holds rows or begins with a column."""
    line, end, behind = text.partition(b"\n")
    has_rows = _COLUMNS.match(text) or _ROWS_INSIDE.search(line)
    if behind.strip() or (is_all and not has_rows):
        return JSONL
    if is_all:
        return WHOLE_JSON
    return JSONL if end and not has_rows else None


def _kind_of_array(text: bytes, name: str, *, is_all: bool) -> Kind | None:
    """Text that begins with `[`: a document of rows, a JSON line that is no row, or a log that begins with a tag."""
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
"""Most layers of compression; each needs a decoder, and no log is compressed more often."""


class AutoDecoder(OuterDecoder):
    """Holds the first bytes back until they determine the kind of the file.

    Attributes:
        kind: the detected kind; None until then.
    """

    def __init__(self, name: str, options: DecoderOptions, layers: int = 0) -> None:
        """Start without a known kind.

        Args:
            layers: layers of compression already removed.
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
    def counts(self) -> Counts:  # type: ignore[override]  # delegates to the inner decoder
        if self._inner is None or not self._earlier.lines:
            return self._earlier if self._inner is None else self._inner.counts
        total = Counts()
        total.add(self._earlier)
        total.add(self._inner.counts)
        return total

    @property
    def stopped(self) -> str:
        """Why it cannot be decompressed, what damage ended it, or the inner decoder's reason."""
        return self._damage or self._refusal or super().stopped

    def feed(self, data: bytes, offset: int, generation: int) -> list[Record]:
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

    def decode_more(self) -> list[Record]:
        return self._guarded(lambda inner: inner.decode_more())

    def flush(self) -> list[Record]:
        return self._guarded(lambda inner: inner.flush())

    @property
    def holds_back(self) -> bool:
        """Is data of unknown kind held, or does the inner decoder hold something back?"""
        return bool(self._held) or (self._inner is not None and self._inner.holds_back)

    def finish(self) -> list[Record]:
        records = self._settle(is_all=True) if self._inner is None and self._held else []
        return [*records, *self._guarded(lambda inner: inner.finish())]

    def close(self) -> None:
        """Drop what only further data need."""
        if self._inner is not None:
            self._inner = ClosedDecoder(self._inner)

    def reset(self, *, is_restart: bool = True) -> None:
        """A new file starts. Compression is detected again, since a plain file may follow a compressed one."""
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
        """Call the inner decoder; an unexpected exception is counted and ends the file."""
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
        """Report and count a file that cannot be decompressed, and drop its data; the next file may be readable."""
        self._refusal = error.message
        self._earlier.refuse(self._earlier.lines + 1, error.message)
        self._held = b""
        return []
