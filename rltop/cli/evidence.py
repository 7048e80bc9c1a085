"""The evidence that maintainers ask for when a job hangs or dies, in a single file to pass on.

Phase, processes, engines, versions, settings, ends of the logs, and stacks if requested. Secrets are blanked and
counted; of a log, only lines that look like trainer output are kept.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rltop import __version__
from rltop.cli.output import write_output
from rltop.cli.resolve_paths import load_config, sources_of
from rltop.cli.where import query_sources, read_path, status_of, text_of
from rltop.clock import Clock
from rltop.errors import EXIT_OK, RltopError, cannot_write, reason_of
from rltop.files import first_bytes, last_bytes, names_in, open_regular, replace_file
from rltop.formats.console.failures import read_error
from rltop.formats.console.lines import strip_escapes, without_prefix
from rltop.live.judge import JobStatus
from rltop.live.lines import LINES
from rltop.live.log import clock_of
from rltop.live.slurm import Command, CommandError
from rltop.live.titles import own_titles
from rltop.live.traces import OWN_KEY
from rltop.model import Label
from rltop.regex import regex
from rltop.report.markdown import plain
from rltop.run.places import folder_of, logs_near
from rltop.run.run_settings import settings_near

if TYPE_CHECKING:
    from argparse import Namespace


BLANK = "[blanked]"
_SECRET_NAME = r"(?=[\w.-]*(?:key|token(?!i[sz])|secret|passw(?:or)?d|passphrase|credential|cookie))[\w.-]++"
_HARMLESS = regex(r"-?\d{1,12}(?:\.\d{1,12})?(?:e[+-]?\d{1,3})?|true|false|none|null", re.IGNORECASE)
"""Values after a name such as `max_tokens` that are no secrets."""
_NAME = regex(_SECRET_NAME, re.IGNORECASE)


def _shapes() -> Iterator[tuple[str, re.Pattern[str]]]:
    for row in Path(__file__).with_name("secrets.txt").read_text(encoding="utf-8").split("\n\n")[1].splitlines():
        kind, pattern = row.split(" | ", 1)
        yield kind, regex(pattern)


_SHAPES = tuple(_shapes())


class Redactor:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def text(self, text: str) -> str:
        for kind, pattern in _SHAPES:
            text = pattern.sub(self._blank(kind), text)
        return _ASSIGNED.sub(self._assigned, text)

    def value(self, name: str, value: object) -> str:
        """The value of a setting, blanked if its name or its pattern suggests a secret."""
        text = str(value)
        if _NAME.fullmatch(name.rpartition("/")[2].rpartition(".")[2]) and text and not _HARMLESS.fullmatch(text):
            self.counts["values by their names"] += 1
            return BLANK
        return self.text(text)

    def _blank(self, kind: str) -> Callable[[re.Match[str]], str]:
        def blank(match: re.Match[str]) -> str:
            if BLANK in match[0]:
                return match[0]
            self.counts[kind] += 1
            return (match.groupdict().get("keep") or "") + BLANK

        return blank

    def _assigned(self, match: re.Match[str]) -> str:
        value = match["value"].strip("\"'")
        # A value ends at a bracket, even that of an earlier blank.
        if _HARMLESS.fullmatch(value) or BLANK[:-1] in value or len(match["value"]) < 3:
            return match[0]
        self.counts["values by their names"] += 1
        return f"{match['keep']}{BLANK}"


_ASSIGNED = regex(
    rf"(?P<keep>(?:(?<![\w.-]){_SECRET_NAME}(?:\\{{0,3}}[\"'])?\s{{0,3}}(?:=>|[:=])\s{{0,3}}|"
    rf"\([\"']{_SECRET_NAME}[\"'],\s{{0,3}}|(?<![\w.-])--{_SECRET_NAME}\s+))"
    r"(?P<value>\\{1,3}\"[^\"\n]*\"|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|[^\s\"',;}\])]+)",
    re.IGNORECASE,
)


LOG_LINES, LOG_BYTES, LINE_CHARS = 200, 512 * 1024, 400
HEAD_BYTES = 256 * 1024
"""Size of a log's beginning that is searched for versions."""
MOST_STACKS = 8
STACK_S = 15.0
MOST_SETTINGS = 2_000
_LEVEL = regex(r"\W{0,3}(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b")
_PAIR = regex(r"[A-Za-z]{2}[\w./-]*[/_][\w./@-]*['\"]?\s?[:=]\s?-?\d")
_SAMPLE = regex(
    r"(?i)(?:\[|\b)(?:prompts?|responses?|completions?|samples?|questions?|answers?|ground[_ ]truths?|solutions?|"
    r"rollouts?|generat(?:ions?|ed)|texts?|inputs?|outputs?|messages?|contents?|conversations?|quer(?:y|ies))"
    r"(?:\]|(?: \([^()]{1,60}\))?['\"]?\s?[:=]\s*['\"\[({]*\s*(?:[^\W\d]|<))|"
    r"<[|\uff5c]\w{1,40}[|\uff5c]>|</?think>|\[/?INST\]"
)
"""Signs of sample text, even in a line from a trainer."""
_PROSE = regex(r"(?i)prompt|template|instruction|question|message")
"""Settings that may be text for a model if they are longer than a word."""
_WORD = regex(r"[\w./@:+\[\]-]{1,128}")  # a key, or a short identifier such as a host
_FRAME = regex(r"\s+File \"[^\"]{1,300}\", line \d+")
_PACKAGES = (
    "vllm|sglang|torch|transformers|trl|verl|ray|nemo[-_]rl|prime[-_]rl|skyrl|openrlhf|slime|miles|megatron[-_]core|"
    "deepspeed|flash[-_]attn|flashinfer[-_\\w]*|triton|accelerate|peft|nccl|cuda|cudnn|nvidia[-_]nccl[-_]cu\\d+|python"
)
_VERSION = regex(
    rf"(?i)\b({_PACKAGES})\b(?: API server)?(?:['\"]?\s*(?:version|==|[:=@v])\s*['\"]?)+(\d+(?:\.\w+)+(?:[.+-]\w+)*)"
)
_FLIGHT = regex(r"(?i).*(?:nccl_trace|flight_?recorder|fr_trace|nccl_debug).*")
"""Names of NCCL flight recorder dumps. They are pickles: listed, never opened."""


def evidence(arguments: Namespace) -> int:
    """Write the bundle and report what was blanked.

    Raises:
        RltopError: there is no such run, or the file cannot be written.
    """
    if len(arguments.paths) != 1:
        raise RltopError("--evidence is about one run", "name one run directory, metric file or log")
    if not arguments.output.endswith(".md"):
        raise RltopError("--evidence is written as Markdown", "write to a file that ends in .md")
    path = arguments.paths[0]
    redactor = Redactor()
    config = load_config(arguments)
    read = read_path(path, config)
    asked = query_sources(read, sources_of(arguments, config.live), arguments.wait)
    now_s = Clock().wall()
    found = status_of(read, now_s, asked)
    beside = [*([found.log] if os.path.isfile(found.log) else []), *logs_near(path)]  # noqa: PTH113
    logs = [log for log in {os.path.realpath(log): log for log in reversed(beside)}.values() if _is_text(log)][::-1]
    left_out: Counter[str] = Counter()
    home = folder_of(path)
    dumps = [str(home / name) for name in sorted(names_in(home)) if _FLIGHT.fullmatch(name)]
    ends = [_end_of(log, redactor, left_out, with_text=arguments.with_text) for log in logs]
    body = [
        *_section("Where it is", _where(path, found, now_s, with_text=arguments.with_text), redactor),
        *_section("Versions", list(_versions(path, logs)), redactor),
        *_settings(path, redactor, left_out, with_text=arguments.with_text),
        *(line for log, lines in zip(logs, ends, strict=True) for line in _section(f"End of {log}", lines)),
        *(_section("Stacks", list(_stacks(left_out)), redactor) if arguments.stack else ()),
        *_section("Dumps of NCCL's flight recorder, not opened", dumps, redactor),
    ]
    told = _summary_of_blanks(redactor, left_out)
    when = f"{datetime.fromtimestamp(now_s, UTC):%Y-%m-%d %H:%M:%S UTC}"
    head = [
        f"# Evidence: {plain(Label.of(redactor.text(path)).display)}",
        "",
        f"rltop {__version__}, {when}. {told[:1].upper()}{told[1:]}. Read it before you pass it on.",
        "",
    ]
    try:
        data = ("\n".join([*head, *body]) + "\n").encode("utf-8", "backslashreplace")
        replace_file(os.path.expanduser(arguments.output), data, is_private=True)  # noqa: PTH111
    except OSError as error:
        raise cannot_write(arguments.output, error) from error
    write_output(
        f"wrote {Label.of(arguments.output)}, readable by you alone: {told}.\n"
        "Nothing was sent anywhere. Read it before you pass it on.\n"
    )
    return EXIT_OK


def _where(path: str, found: JobStatus, now_s: float, *, with_text: bool) -> list[str]:
    if not with_text and not _is_of_trainer(found.last_line):
        found = found._replace(last_line="")
    return text_of(path, found, now_s).splitlines()


def _summary_of_blanks(redactor: Redactor, left_out: Counter[str]) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in redactor.counts.most_common())
    blanked = f"{redactor.counts.total()} blanked ({kinds})" if redactor.counts else "nothing was blanked"
    parts = ", ".join(f"{number:,} {what}" for what, number in left_out.items() if number)
    return f"{blanked}; left out: {parts or 'nothing'}"


def _section(title: str, lines: Sequence[str], redactor: Redactor | None = None) -> Iterator[str]:
    if not lines:
        return
    shown = [Label.of(line if redactor is None else redactor.text(line)).display for line in lines]
    longest = max((len(run) for line in shown for run in regex(r"`+").findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (f"## {plain(Label.of(title).display)}", "", fence, *shown, fence, "")


def _settings(path: str, redactor: Redactor, left_out: Counter[str], *, with_text: bool) -> Iterator[str]:
    settings = settings_near(path)
    lines = []
    for name, value in sorted(settings.values.items())[:MOST_SETTINGS]:
        shown = str(redactor.value(name, value))
        if not with_text and _PROSE.search(name) and len(shown.split()) > 1:
            shown = f"[{len(shown)} characters left out: they may be a prompt; --with-text keeps them]"
            left_out["settings that may be a prompt"] += 1
        lines.append(_cut(f"{name} = {shown}", left_out, "settings"))
    left_out[f"settings behind the first {MOST_SETTINGS:,}"] += max(0, len(settings.values) - MOST_SETTINGS)
    yield from _section("Settings", lines)


def _cut(line: str, left_out: Counter[str], what: str) -> str:
    if len(line) <= LINE_CHARS:
        return line
    left_out[f"ends of {what} behind {LINE_CHARS} characters"] += 1
    return f"{line[:LINE_CHARS]}…"


def _versions(path: str, logs: Sequence[str]) -> Iterator[str]:
    home = folder_of(path)
    files = [Path(log) for log in logs]
    files += [home / name / "requirements.txt" for name in ("", "files", "wandb/latest-run/files")]
    found: dict[str, str] = {}
    for file in files:
        try:
            text = first_bytes(file, HEAD_BYTES).decode("utf-8", "replace")
        except OSError:
            continue
        for name, version in _VERSION.findall(text):
            found.setdefault(name.lower().replace("_", "-"), version)
    yield from (f"{name} {version}" for name, version in sorted(found.items()))


_MAGIC_BYTES = 64
"""Tracker files, event files and databases have a NUL byte here."""


def _is_text(path: str) -> bool:
    try:
        with open_regular(path) as file:
            return b"\0" not in (file.read(_MAGIC_BYTES) or b"")
    except OSError:
        return True  # its section says why it cannot be read


def _end_of(path: str, redactor: Redactor, left_out: Counter[str], *, with_text: bool) -> list[str]:
    try:
        with open_regular(path) as file:
            data = last_bytes(file, LOG_BYTES)
            before = file.tell() - len(data)
    except OSError as error:
        return [f"cannot be read: {reason_of(error)}"]
    # Blank before splitting into lines: a key may span several.
    whole = redactor.text(strip_escapes(data.decode("utf-8", "replace")).replace("\r\n", "\n"))
    lines = [line.rpartition("\r")[2].rstrip() for line in whole.split("\n")]
    lines = [line for line in lines if line.strip()]
    kept: list[str] = []
    if before or len(lines) > LOG_LINES:
        earlier = sum(len(line.encode()) + 1 for line in lines[:-LOG_LINES])
        kept.append(
            f"[the last {min(LOG_LINES, len(lines))} lines; some {before + earlier:,} bytes before them are left out]"
        )
        left_out[f"bytes of logs before their last {LOG_LINES} lines"] += before + earlier
        lines = lines[-LOG_LINES:]
    run = 0
    was_frame = False
    for line in lines:
        is_frame = _FRAME.match(line) is not None
        if with_text or is_frame or was_frame or _is_of_trainer(line):
            if run:
                kept.append(f"[{run} lines left out: they may be text of samples; --with-text keeps them]")
            kept.append(_cut(line, left_out, "lines"))
            run = 0
        else:
            run += 1
            left_out["lines of logs that may be text of samples"] += 1
        was_frame = is_frame
    if run:
        kept.append(f"[{run} lines left out: they may be text of samples; --with-text keeps them]")
    return kept


def _is_of_trainer(line: str) -> bool:
    """Whether a line looks like output of a trainer or an engine, rather than the text of a sample."""
    text = without_prefix(line)
    if _SAMPLE.search(text):
        return False
    return (
        _is_row(text)
        or clock_of(text) is not None
        or _LEVEL.match(text) is not None
        or text.startswith("Traceback (most recent call last)")
        or any(kind.sign in text and kind.pattern.search(text) for kind in LINES)
        or read_error(text) is not None
        or "NCCL" in text[:LINE_CHARS]
        or "%|" in text[:LINE_CHARS]
        or len(_PAIR.findall(text[:LINE_CHARS])) >= 3
    )


def _is_row(text: str) -> bool:
    """Whether a line is a JSON object of numbers, or a phase of `JsonlWriter`, whose other values are identifiers."""
    if not text.startswith("{") or not text.endswith("}"):
        return False
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return False
    said = {key: value for key, value in row.items() if isinstance(value, str)}
    is_told = not said or (OWN_KEY in row and all(_WORD.fullmatch(said[key]) for key in said if key != "error"))
    numbers = [value for value in row.values() if isinstance(value, int | float)]
    return bool(numbers) and is_told and len(numbers) + len(said) == len(row) and all(map(_WORD.fullmatch, row))


def _stacks(left_out: Counter[str]) -> Iterator[str]:
    """Stacks of the user's own job processes, from py-spy, without pausing them and without values."""
    found = sorted(own_titles(), key=lambda each: not each[1].method)
    titles = found[:MOST_STACKS]
    left_out[f"stacks of processes behind the first {MOST_STACKS}"] += len(found) - len(titles)
    if not titles:
        yield "no process of Ray, vLLM or SGLang runs on this node under your name"
    for pid, title in titles:
        yield f"pid {pid}: {title.name} {title.method}".rstrip()
        try:
            told = Command(["py-spy", "dump", "--nonblocking", "--pid", str(pid)], STACK_S).output().splitlines()
            # The first line is the complete command line.
            yield from (line for line in told if not line.startswith("Process "))
        except CommandError as error:
            yield f"  {reason_of(error)}"
            if "no py-spy" in reason_of(error):
                return
