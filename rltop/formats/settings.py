"""Settings files of trainers → flat settings: dotted names and values.

Nothing is executed: a pickle such as `training_args.bin` is never opened. Sizes are
limited; what exceeds the limits is left out.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from rltop import units
from rltop.errors import DecodeError
from rltop.formats.protobuf import SPAN, fields, message
from rltop.model import Counts
from rltop.regex import regex

MAX_BYTES = 2 * 1024 * 1024
"""A larger settings file is not read; of W&B and event files only the first part of this size is."""
MAX_SETTINGS = 4_000
MAX_TEXT_CHARS = 400
_MAX_DEPTH = 24
_MOST_LISTED = 12
"""Most items of a list of scalars that are shown; of a longer list, the first ones and the length."""

Value = str | int | float | bool | None
Settings = Mapping[str, Value]

_CONSOLE_LOGS = (".log", ".out", ".err", ".txt")
"""Suffixes of files in which a trainer may have printed its settings."""

_STATE = frozenset(
    {"max_steps", "num_train_epochs", "train_batch_size", "logging_steps", "eval_steps", "save_steps", "trial_params"}
)
"""Keys of `trainer_state.json` that are settings rather than state."""
_BOOKKEEPING = frozenset({"_wandb", "wandb_version", "_hydra", "hydra"})


def read_settings(name: str, data: bytes) -> dict[str, Value]:
    """The settings in a file.

    Args:
        data: its content, or its beginning if it is a log of W&B or TensorBoard.

    Raises:
        DecodeError: the content does not match the name.
    """
    if name.endswith(".wandb"):
        return flat(_of_wandb(data))
    if "tfevents" in name:
        return flat(_of_events(data))
    if name.endswith(_CONSOLE_LOGS):
        return flat(_of_console(data))
    text = data.decode("utf-8", "replace")
    found = next(read for suffix, read in _READERS if name.endswith(suffix))(text)
    if name == "trainer_state.json" and isinstance(found, dict):
        found = {key: value for key, value in found.items() if key in _STATE}
    if name == "overrides.yaml":
        pairs = (str(each).lstrip("+").partition("=") for each in found) if isinstance(found, list) else ()
        found = {name: read_yaml(value) for name, sign, value in pairs if sign and not name.startswith("~")}
    return flat(found)


def flat(found: object) -> dict[str, Value]:
    """Flatten nested settings to dotted names.

    Args:
        found: mappings and lists; without a mapping at the top there are no names, and so no settings.
    """
    settings: dict[str, Value] = {}
    for name, value in _leaves(found, "", 0) if isinstance(found, dict) else ():
        if len(settings) >= MAX_SETTINGS:
            break
        settings[name] = value
    return settings


def _leaves(value: object, name: str, depth: int) -> Iterator[tuple[str, Value]]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, dict):
        # W&B's own files write {"value": …, "desc": …}.
        if depth == 1 and "value" in value and set(value) <= {"value", "desc"}:
            value = value["value"]
        if isinstance(value, dict):
            for key, inner in value.items():
                if str(key) not in _BOOKKEEPING:
                    yield from _leaves(inner, f"{name}.{key}" if name else str(key), depth + 1)
            return
    if isinstance(value, list):
        if any(isinstance(each, dict | list) for each in value):
            for number, each in enumerate(value):
                yield from _leaves(each, f"{name}.{number}", depth + 1)
            return
        more = f", … {len(value)} in all" if len(value) > _MOST_LISTED else ""
        value = f"[{', '.join(units.setting(_plain(each)) for each in value[:_MOST_LISTED])}{more}]"
    yield name[:MAX_TEXT_CHARS], _plain(value)


def _plain(value: object) -> Value:
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else float(value) if abs(value) < 1 << 1000 else "a very large number"
    return str(value)[:MAX_TEXT_CHARS]


# -- one reader for each kind ----------------------------------------------------------------------------------------


def _of_json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"not JSON: {error}") from error


def _of_toml(text: str) -> object:
    import tomllib  # noqa: PLC0415 - few trainers write it

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"not TOML: {error}") from error


_MOST_EVENTS = 100_000
"""Limit for YAML events: the beginning and end of each list and mapping, and each scalar."""
_MOST_DIGITS = 64
_NUMBER = regex(r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_WORDS = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    ".inf": float("inf"), "-.inf": float("-inf"), ".nan": float("nan"),
}  # fmt: skip
"""Words as OmegaConf reads them: `on` is a string."""


def read_yaml(text: str) -> object:
    """The first document of a file: mappings, lists, numbers, strings, booleans and None.

    Uses only the parser's events and constructs nothing: tags are ignored, and an alias stays text, so that no file can
    expand.

    Raises:
        DecodeError: it is not YAML, too long, or nested too deeply.
    """
    import yaml  # noqa: PLC0415 - few runs have any

    events = islice(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), _MOST_EVENTS)
    is_start = (yaml.StreamStartEvent, yaml.DocumentStartEvent)
    try:
        first = next((each for each in events if not isinstance(each, is_start)), None)
        return None if first is None or isinstance(first, yaml.StreamEndEvent) else _node(first, events, 0)
    except (yaml.YAMLError, UnicodeError) as error:
        raise DecodeError(f"not YAML: {' '.join(str(error).split())}") from error


def _node(event: Any, events: Iterator[Any], depth: int) -> object:
    """The value that begins with an event; its parts are taken from `events`.

    Raises:
        DecodeError: it is too long, nested too deeply, or has a list or mapping as a key.
    """
    if depth > _MAX_DEPTH:
        raise DecodeError(f"nested deeper than {_MAX_DEPTH}")
    kind = type(event).__name__
    if kind == "SequenceStartEvent":
        return [_node(each, events, depth + 1) for each in _until("SequenceEndEvent", events)]
    if kind == "MappingStartEvent":
        found: dict[str, object] = {}
        for key in _until("MappingEndEvent", events):
            name = getattr(key, "value", None)
            if name is None:
                raise DecodeError("a key that is no text")
            found[name] = _node(next(events, key), events, depth + 1)
        return found
    if kind == "AliasEvent":
        return f"*{event.anchor}"
    return event.value if event.style else _scalar(event.value)


def _until(end: str, events: Iterator[Any]) -> Iterator[Any]:
    for event in events:
        if type(event).__name__ == end:
            return
        yield event
    raise DecodeError(f"more than {_MOST_EVENTS:,} values")


def _scalar(text: str) -> object:
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > _MOST_DIGITS or not _NUMBER.fullmatch(text):
        return text
    plain = text.replace("_", "")
    return float(plain) if any(sign in plain for sign in ".eE") else int(plain)


_READERS: tuple[tuple[str, Callable[[str], object]], ...] = (
    (".json", _of_json),
    (".toml", _of_toml),
    ("", read_yaml),
)


def _of_wandb(data: bytes) -> dict[str, object]:
    """The settings in a `.wandb` file: those of the run, and later changes."""
    from rltop.formats.wandb import (  # noqa: PLC0415 - few runs have any
        MAGIC,
        BlockLogFramer,
        settings_in,
    )

    found: dict[str, object] = {}
    for payload, _ in BlockLogFramer(Counts(), MAGIC).feed(data, 0):
        found.update(settings_in(payload))
    return found


_MOST_PRINTED = 256 * 1024
_PRINTED = regex(r"^(?P<before>[^{}'\n]{0,120})\{'\w{1,60}': ?\{'", re.MULTILINE)
"""A dictionary of dictionaries at the start of a line, possibly after a prefix of Ray's."""
_QUOTED = regex(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")


def _of_console(data: bytes) -> object:
    """The settings that veRL prints at start: a dictionary over many lines, with lines of other workers in between."""
    from rltop.formats.console.lines import strip_escapes  # noqa: PLC0415 - few settings are in a log

    text = strip_escapes(data.decode("utf-8", "replace"))
    found = _PRINTED.search(text)
    if found is None:
        return {}
    before, depth = found["before"], 0
    kept: list[str] = []
    for line in text[found.start() : found.start() + _MOST_PRINTED].splitlines():
        # All lines except the first are indented.
        if not line.startswith(f"{before} " if kept else before):
            continue
        kept.append(line[len(before) :])
        bare = _QUOTED.sub("", kept[-1])
        depth += sum(bare.count(sign) for sign in "{[(") - sum(bare.count(sign) for sign in "}])")
        if depth > _MAX_DEPTH:
            return {}
        if depth <= 0:
            try:
                return ast.literal_eval("\n".join(kept))
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                return {}
    return {}


_SUMMARY, _SUMMARY_VALUE, _TAG, _TENSOR, _TENSOR_TEXT = 5, 1, 1, 8, 8
_ARGUMENTS = (b"args/text_summary", b"hparams/text_summary")


def _of_events(data: bytes) -> dict[str, object]:
    """The arguments that transformers writes into a run's first event file, as text."""
    from rltop.formats.tensorboard import TfRecordFramer  # noqa: PLC0415 - few runs have any

    for payload, _ in TfRecordFramer(Counts()).feed(data, 0):
        for number, wire, a, b in fields(payload, 0, len(payload)):
            if number == _SUMMARY and wire == SPAN and any(tag in payload for tag in _ARGUMENTS):
                return _arguments(payload, a, b)
    return {}


def _arguments(data: bytes, start: int, stop: int) -> dict[str, object]:
    for number, wire, a, b in fields(data, start, stop):
        if number != _SUMMARY_VALUE or wire != SPAN:
            continue
        _, parts = message(data, a, b)
        _, tensor = message(parts.get(_TENSOR, b""))
        if parts.get(_TAG) in _ARGUMENTS and _TENSOR_TEXT in tensor:
            found = _of_json(tensor[_TENSOR_TEXT].decode("utf-8", "replace"))
            return found if isinstance(found, dict) else {}
    return {}
