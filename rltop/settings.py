"""The table of settings (`settings.txt`), their sources and validation.

The config file, environment variables, flags and docs/config.md all derive from this table. What a setting does is
defined by each layer's options and by `config`, which assembles them.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rltop.errors import ConfigError
from rltop.resources import read_toml
from rltop.structs import NamedTuple

if TYPE_CHECKING:
    from argparse import ArgumentParser

PREFIX = "RLTOP_"
CONFIG_VARIABLE = "RLTOP_CONFIG"
VERDICT_VARIABLES = (
    "RLTOP_RULE", "RLTOP_TITLE", "RLTOP_FAMILY", "RLTOP_LEVEL", "RLTOP_STEP", "RLTOP_SINCE_STEP", "RLTOP_METRIC",
    "RLTOP_KEY", "RLTOP_HEADLINE", "RLTOP_RUN", "RLTOP_PATH", "RLTOP_INCIDENT", "RLTOP_ADVICE", "RLTOP_PART",
)  # fmt: skip
"""Environment variables of the commands that `rltop watch` runs for an alert."""
STUCK_VARIABLES = (
    "RLTOP_STATE", "RLTOP_PHASE", "RLTOP_PHASE_KEY", "RLTOP_SINCE", "RLTOP_USUAL", "RLTOP_OUTSTANDING",
    "RLTOP_WAITED_FOR", "RLTOP_LAST_LINE", "RLTOP_SOURCE", "RLTOP_STEP", "RLTOP_HEADLINE", "RLTOP_RUN", "RLTOP_PATH",
)  # fmt: skip
"""Environment variables of the command that `rltop watch` runs when a job is stuck."""
OTHER_VARIABLES = frozenset(
    {CONFIG_VARIABLE, "RLTOP_RUNS", "RLTOP_SCORER", "RLTOP_DEBUG", *VERDICT_VARIABLES, *STUCK_VARIABLES}
)
"""Variables with this prefix that are not settings."""

RULES_TABLE = "rules"
PROFILES_TABLE = "profiles"
KEYS_TABLE = "keys"
METRICS_TABLE = "metrics"
ROWS_TABLE = "rows"
LIVE_TABLE = "live"
LIVE_LISTS = ("metrics", "prometheus", "ray", "job", "token_file")
LIVE_TEXTS = ("nodes", "via", "cacert")
"""Keys allowed in `[live]`: the flags of the live sources, without dashes."""

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})

Value = str | int | float | bool | None


class ValueType(enum.StrEnum):
    TEXT = "a string"
    CHOICE = "one of"
    WHOLE = "a whole number"
    NUMBER = "a number"
    SWITCH = "true or false"


class Setting(NamedTuple):
    """One setting.

    Attributes:
        default: None means that rltop detects it.
        flag: the command-line flag; a switch also gets `--no-…`.
        low, high: bounds of a number, inclusive.
    """

    name: str
    kind: ValueType
    default: Value
    flag: str
    help: str
    example: Value
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    @property
    def domain(self) -> str:
        """What a value must be, in words."""
        if self.kind is ValueType.CHOICE:
            return f"one of {', '.join(self.choices)}"
        if self.low is not None and self.high is not None:
            return f"{self.kind.value} from {self.low:g} to {self.high:g}"
        if self.low is not None:
            return f"{self.kind.value}, {self.low:g} or more"
        return self.kind.value


def _settings() -> Iterator[Setting]:
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line and line[0] != "#":
            name, what, default, flag, example, text = line.split(" | ")
            word, *more = what.split()
            kind = ValueType[word.upper()]
            choices = tuple(more) if kind is ValueType.CHOICE else ()
            low, high = (None, None) if choices or not more else map(float, more)
            values = _said(kind, default), flag, text, _said(kind, example)
            yield Setting(name, kind, *values, low, high, choices)


def _said(kind: ValueType, text: str) -> Value:
    match kind:
        case ValueType.SWITCH:
            return text == "true"
        case ValueType.WHOLE | ValueType.NUMBER if text != "-":
            return int(text) if text.isdecimal() else float(text)
    return None if text == "-" else text


SETTINGS = tuple(_settings())
"""Every setting, in the order of the documentation."""

BY_NAME: Mapping[str, Setting] = MappingProxyType({setting.name: setting for setting in SETTINGS})


class Gathered(NamedTuple):
    """The resolved settings, defaults included.

    Attributes:
        origins: setting → where its value was found, without defaults.
        rules: rule id → threshold or `mute` → value, from the file.
        profiles: profile → rule id → threshold or `mute` → value, from the file.
        file: the config file that was read, or None.
        rows: project → its options for rows, from the file.
        live: flag of a source, without dashes → string or list of strings, from the file.
    """

    values: Mapping[str, Value]
    origins: Mapping[str, str]
    rules: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    keymap: Mapping[str, str] = MappingProxyType({})
    profiles: Mapping[str, Mapping[str, Mapping[str, Any]]] = MappingProxyType({})
    file: Path | None = None
    meanings: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    rows: Mapping[str, Mapping[str, object]] = MappingProxyType({})
    live: Mapping[str, Any] = MappingProxyType({})


def gather(argv_options: Mapping[str, object], environ: Mapping[str, str], file: Path | None) -> Gathered:
    """Resolve every setting; precedence: flag, environment variable, config file, default.

    Args:
        argv_options: setting → value of its flag, as text or typed;
            None or absent means "not given". Other names are ignored.
        file: the config file, which must exist; None for no file.

    Raises:
        ConfigError: names the place, the key and the remedy.
    """
    values: dict[str, Value] = {setting.name: setting.default for setting in SETTINGS}
    origins: dict[str, str] = {}
    tables: dict[str, Any] = {}

    def settle(name: str, value: Value, origin: str) -> None:
        values[name], origins[name] = value, origin

    if file is not None:
        table = read_toml(file)
        tables = _tables(table, file)
        for name, raw in table.items():
            setting = BY_NAME.get(name)
            if setting is None:
                raise ConfigError(f"{file}: unknown setting `{name}`", nearest(name, [*BY_NAME, *_EXAMPLES]))
            settle(name, _from_toml(setting, raw, f"{file}: `{name}`"), str(file))
    for variable, text in environ.items():
        if not variable.startswith(PREFIX) or variable in OTHER_VARIABLES:
            continue
        setting = BY_NAME.get(variable.removeprefix(PREFIX).lower())
        if setting is not None and setting.variable == variable:
            if text:
                settle(setting.name, _from_text(setting, text, f"environment variable {variable}"), variable)
        elif close := _close(variable, [s.variable for s in SETTINGS], 0.85):
            raise ConfigError(f"environment variable {variable}: no such setting", f"did you mean {close[0]}?")
    for setting in SETTINGS:
        given = argv_options.get(setting.name)
        if given is not None:
            where = f"flag {setting.flag}"
            value = _from_text(setting, given, where) if isinstance(given, str) else _from_toml(setting, given, where)
            settle(setting.name, value, setting.flag)
    return Gathered(MappingProxyType(values), MappingProxyType(origins), file=file, **tables)


def add_flags(parser: ArgumentParser, *, is_shown: bool = True) -> None:
    """Add a flag for every setting; in the namespace None means "not given".

    Values stay text, so that an invalid one is reported as it is for the other sources.
    """
    from argparse import SUPPRESS, BooleanOptionalAction  # noqa: PLC0415 - only the command line needs it

    where = "also in the config file or as RLTOP_… environment variables" if is_shown else None
    group = parser.add_argument_group("settings", where)
    for setting in SETTINGS:
        text = setting.help.replace("%", "%%") if is_shown else SUPPRESS
        if setting.kind is ValueType.SWITCH:
            group.add_argument(setting.flag, dest=setting.name, action=BooleanOptionalAction, default=None, help=text)
        else:
            metavar = "|".join(setting.choices) or {ValueType.WHOLE: "N", ValueType.NUMBER: "X"}.get(
                setting.kind, "TEXT"
            )
            group.add_argument(setting.flag, dest=setting.name, metavar=metavar, default=None, help=text)


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint that names the closest of the `known` words, or lists all of them."""
    names = list(known)
    close = _close(word, names, 0.5)
    return f"did you mean `{close[0]}`?" if close else f"known: {', '.join(names)}"


def _close(word: str, known: list[str], cutoff: float) -> list[str]:
    """At most one of the `known` words; imports `difflib` only when something was mistyped."""
    from difflib import get_close_matches  # noqa: PLC0415

    return get_close_matches(word, known, n=1, cutoff=cutoff)


def _from_text(setting: Setting, text: str, where: str) -> Value:
    word = text.strip()
    try:
        match setting.kind:
            case ValueType.SWITCH:
                if word.lower() in _TRUE | _FALSE:
                    return word.lower() in _TRUE
                raise ValueError(word)
            case ValueType.WHOLE:
                value: Value = int(word)
            case ValueType.NUMBER:
                value = float(word)
            case _:
                value = text
    except ValueError:
        raise _wrong(setting, text, where) from None
    return _within(setting, value, where)


def _from_toml(setting: Setting, raw: Any, where: str) -> Value:
    """`raw`, from the file or a typed flag, if its type is right."""
    is_number = isinstance(raw, int | float) and not isinstance(raw, bool)
    match setting.kind:
        case ValueType.SWITCH:
            is_right = isinstance(raw, bool)
        case ValueType.WHOLE:
            is_right = is_number and isinstance(raw, int)
        case ValueType.NUMBER:
            is_right = is_number
        case _:
            is_right = isinstance(raw, str)
    if not is_right:
        raise _wrong(setting, raw, where)
    if setting.kind is not ValueType.NUMBER:
        return _within(setting, raw, where)
    try:
        return _within(setting, float(raw), where)
    except OverflowError:
        raise _wrong(setting, raw, where) from None


def _within(setting: Setting, value: Value, where: str) -> Value:
    if isinstance(value, str) and "\0" in value:
        raise ConfigError(f"{where} contains a NUL character", f"for example {toml_text(setting.example)}")
    if setting.kind is ValueType.CHOICE and value not in setting.choices:
        raise _wrong(setting, value, where)
    if isinstance(value, int | float) and not isinstance(value, bool):
        # Written so that NaN, for which every comparison is false, is refused.
        is_inside = (setting.low is None or value >= setting.low) and (setting.high is None or value <= setting.high)
        if not is_inside:
            raise _wrong(setting, value, where)
    return value


def _wrong(setting: Setting, raw: object, where: str) -> ConfigError:
    return ConfigError(
        f"{where} is {toml_text(raw)}, but must be {setting.domain}", f"for example {toml_text(setting.example)}"
    )


_EXAMPLES = {
    PROFILES_TABLE: "[profiles.moe.M1] with thresholds under it",
    RULES_TABLE: "[rules.O1] with thresholds under it",
    KEYS_TABLE: '[keys] with lines like quit = "q,ctrl+q" under it',
    METRICS_TABLE: '[metrics."/path/to/project"] with lines like "my/reward" = "reward_mean" under it',
    LIVE_TABLE: '[live] with lines like metrics = ["node-3:8000"] under it',
    ROWS_TABLE: '[rows."/path/to/project"]',
}
"""An example of each table, for error messages."""


def _tables(table: dict[str, Any], file: Path) -> dict[str, Any]:
    """Remove the tables from a config file's content; returns them, type-checked, by their names in `Gathered`."""
    own = {name: _table(table.pop(name, {}), f"{file}: `{name}`", example) for name, example in _EXAMPLES.items()}
    profiles = own[PROFILES_TABLE].items()
    return {
        "profiles": {name: _rules(rules, file, f"{PROFILES_TABLE}.{name}") for name, rules in profiles},
        "rules": _rules(own[RULES_TABLE], file, RULES_TABLE),
        "keymap": _keymap(own[KEYS_TABLE], file),
        "meanings": _meanings(own[METRICS_TABLE], file),
        "live": _live(own[LIVE_TABLE], file),
        "rows": own[ROWS_TABLE],
    }


def _table(found: object, what: str, example: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise ConfigError(f"{what} must be a table", f"write {example}")
    return found


def _rules(table: object, file: Path, name: str) -> Mapping[str, Mapping[str, Any]]:
    rules = _table(table, f"{file}: `{name}`", f"[{name}.O1] with thresholds under it").items()
    return {
        rule: _table(entries, f"{file}: `{name}.{rule}`", f"[{name}.{rule}] with thresholds under it")
        for rule, entries in rules
    }


def _keymap(table: dict[str, Any], file: Path) -> Mapping[str, str]:
    for binding, keys in table.items():
        if not isinstance(keys, str) or not keys.strip(" ,"):
            raise ConfigError(
                f"{file}: `{KEYS_TABLE}.{binding}` is {toml_text(keys)}, but must be a string",
                f'separate keys with commas: {binding} = "x,ctrl+x"; the comma key is "comma"; '
                "binding ids are in docs/keys.md",
            )
    return table


def _meanings(table: dict[str, Any], file: Path) -> Mapping[str, Mapping[str, str]]:
    """Keys → canonical metrics; those names are checked elsewhere."""
    for project, keys in table.items():
        if not isinstance(keys, dict) or not all(isinstance(name, str) for name in keys.values()):
            what = f"{file}: `{METRICS_TABLE}.{project}` must be a table of canonical names"
            raise ConfigError(what, f"write {_EXAMPLES[METRICS_TABLE]}")
    return table


def _live(table: dict[str, Any], file: Path) -> Mapping[str, Any]:
    """The live sources; a file that belongs to another user may not name hosts to contact."""
    for name, value in table.items():
        if name not in (*LIVE_LISTS, *LIVE_TEXTS):
            raise ConfigError(
                f"{file}: unknown source `{LIVE_TABLE}.{name}`", nearest(name, [*LIVE_LISTS, *LIVE_TEXTS])
            )
        texts = value if name in LIVE_LISTS and isinstance(value, list) else [value]
        if not all(isinstance(text, str) and text and "\0" not in text for text in texts):
            what = f"{file}: `{LIVE_TABLE}.{name}` is {toml_text(value)}, but must be a string"
            raise ConfigError(what, f"write {_EXAMPLES[LIVE_TABLE]}")
    if table and file.stat().st_uid not in (os.getuid(), 0):
        raise ConfigError(
            f"{file}: `{LIVE_TABLE}` says whom to contact, and the file belongs to another user",
            "copy it to a file of your own",
        )
    return {name: [value] if name in LIVE_LISTS and isinstance(value, str) else value for name, value in table.items()}


def toml_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    try:
        return "nothing" if value is None else str(value)
    except (ValueError, RecursionError):
        return "a value too long to show"
