"""Run information in a `.wandb` file: names and a few settings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import orjson

from rltop.formats.protobuf import SPAN, fields

_CONFIG_RECORD, _RUN_RECORD = 5, 17
_ID, _PROJECT, _CONFIG, _DISPLAY_NAME = 1, 3, 4, 8
_UPDATE = 1
_MAX_SETTING_BYTES = 1024 * 1024

_TOTAL_STEPS = (
    ("max_steps",),
    ("total_training_steps",),
    ("trainer", "total_training_steps"),
    ("num_training_steps",),
    ("total_steps",),
)
"""Settings that hold how many steps the run wants to make."""

_GROUP_SIZE = (
    ("num_generations",),
    ("actor_rollout_ref", "rollout", "n"),
    ("n_samples_per_prompt",),
    ("rollout", "n_samples_per_prompt"),
    ("group_size",),
)
"""Settings that hold how many completions are drawn per prompt."""

_OF_TRAINER = "logging_steps"
"""A setting of transformers' Trainer, whose rows for a tracker name their step."""

_NAMES = frozenset((*(path[0] for path in (*_TOTAL_STEPS, *_GROUP_SIZE)), _OF_TRAINER))


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run as its file introduces it; None and empty: not said.

    Attributes:
        names_steps: its trainer is known to log its own step with each of its rows.
    """

    run_id: str = ""
    name: str = ""
    project: str = ""
    total_steps: int | None = None
    group_size: int | None = None
    names_steps: bool = False

    def with_run(self, data: bytes, start: int, stop: int) -> RunInfo:
        """What a run record adds.

        Raises:
            MalformedMessageError: the span is no message.
        """
        texts: dict[int, str] = {}
        config: dict[str, object] = {}
        for number, wire, a, b in fields(data, start, stop):
            if wire != SPAN:
                continue
            if number == _CONFIG:
                config.update(read_config(data, a, b))
            elif number in (_ID, _PROJECT, _DISPLAY_NAME):
                texts[number] = data[a:b].decode("utf-8", "replace")
        return replace(
            self,
            run_id=texts.get(_ID, self.run_id),
            name=texts.get(_DISPLAY_NAME, self.name),
            project=texts.get(_PROJECT, self.project),
        ).with_config(config)

    def with_config(self, config: Mapping[str, object]) -> RunInfo:
        """What settings add; later ones win."""
        total = _first_count(config, _TOTAL_STEPS)
        group = _first_count(config, _GROUP_SIZE)
        return replace(
            self,
            total_steps=self.total_steps if total is None else total,
            group_size=self.group_size if group is None else group,
            names_steps=self.names_steps or _OF_TRAINER in config,
        )


def settings_in(payload: bytes) -> dict[str, object]:
    """Every setting that a record of the file holds, by name: when the run begins, or when it changes one.

    Raises:
        MalformedMessageError: it is no message.
    """
    found: dict[str, object] = {}
    for number, wire, a, b in fields(payload, 0, len(payload)):
        if wire != SPAN:
            continue
        if number == _CONFIG_RECORD:
            found.update(read_config(payload, a, b, None))
        elif number == _RUN_RECORD:
            for inner, inner_wire, c, d in fields(payload, a, b):
                if inner == _CONFIG and inner_wire == SPAN:
                    found.update(read_config(payload, c, d, None))
    return found


def read_config(data: bytes, start: int, stop: int, names: Collection[str] | None = _NAMES) -> dict[str, object]:
    """The settings of a config record, by name.

    Raises:
        MalformedMessageError: the span is no message.
    """
    config: dict[str, object] = {}
    for number, wire, a, b in fields(data, start, stop):
        if number != _UPDATE or wire != SPAN:
            continue
        path: list[str] = []
        text = b""
        for inner, inner_wire, c, d in fields(data, a, b):
            if inner_wire == SPAN and inner in (1, 2):
                path.append(data[c:d].decode("utf-8", "replace"))
            elif inner_wire == SPAN and inner == 16 and d - c <= _MAX_SETTING_BYTES:
                text = data[c:d]
        if path and (names is None or path[0] in names) and text:
            config.update(_setting(path, text))
    return config


def _setting(path: list[str], text: bytes) -> Iterator[tuple[str, object]]:
    try:
        value: object = orjson.loads(text)
    except orjson.JSONDecodeError:
        return
    for name in reversed(path[1:]):
        value = {name: value}
    # W&B's own tools write {"value": …, "desc": …}.
    if isinstance(value, dict) and set(value) <= {"value", "desc"} and "value" in value:
        value = value["value"]
    yield path[0], value


def _first_count(config: Mapping[str, object], paths: tuple[tuple[str, ...], ...]) -> int | None:
    for path in paths:
        value: object = config
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**53:
            return value
    return None
