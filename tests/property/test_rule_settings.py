"""No setting of a rule that is accepted brings it down."""

from __future__ import annotations

import math
import re
from itertools import zip_longest
from pathlib import Path

import pytest
from observations import identity
from tables import each_row

import rltop.rules
from rltop.errors import ConfigError
from rltop.formats.decoder import DecoderOptions
from rltop.formats.jsonl import JsonlDecoder
from rltop.resources import folder
from rltop.rules import registry
from rltop.rules.engine import Engine
from rltop.rules.options import EngineOptions
from rltop.run.pipeline import Pipeline
from rltop.run.rule_runner import RuleRunner
from rltop.store.stream import Stream

ODD = (0, -1, 0.5, 1, 1e300, math.inf)
RUNS = [folder("fixtures") / name / "metrics.jsonl" for name in ("trl/grpo_straggler", "incidents/death_spiral")]


def accepted() -> dict[str, list[tuple[str, float]]]:
    """Rule → each of its thresholds with each value that is taken for it."""
    found: dict[str, list[tuple[str, float]]] = {}
    for rule, spec in registry.NAMED.items():
        for name in spec.thresholds:
            for value in ODD:
                try:
                    EngineOptions(rules={rule: {name: value}})
                except ConfigError as error:
                    assert f"[rules.{rule}] {name}" in error.message and error.hint
                else:
                    found.setdefault(rule, []).append((name, value))
    return found


def test_a_detector_can_be_made_with_every_value_that_is_accepted() -> None:
    for rule, settings in accepted().items():
        made = registry.NAMED[rule].detector
        for name, value in settings if made is not None else ():
            made(EngineOptions(rules={rule: {name: value}}).thresholds(rule))
        Engine(identity(), EngineOptions(rules={rule: dict(settings)}))


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.parent.name)
def test_a_recorded_run_is_judged_with_every_value_that_is_accepted(path: Path) -> None:
    data, rules = b"".join(path.read_bytes().splitlines(keepends=True)[:120]), accepted()
    for settings in zip_longest(*rules.values()):
        # A rule of which every value has had its turn was judged as it is before.
        chosen: dict[str, dict[str, float | bool]] = {
            rule: {"enabled": False} if one is None else {"enabled": True, one[0]: one[1]}
            for rule, one in zip(rules, settings, strict=True)
        }
        pipeline = Pipeline(JsonlDecoder(DecoderOptions()), Stream("", None), RuleRunner(EngineOptions(rules=chosen)))
        pipeline.take_bytes(data, 0, 0)
        pipeline.finish()


def test_whatever_a_detector_takes_for_a_whole_number_must_be_one() -> None:
    code = "".join(path.read_text() for path in sorted(Path(rltop.rules.__file__).parent.glob("*.py")))
    used = set(re.findall(r'\bint\((?:self\.)?thresholds(?:\.get\(|\[)"(\w+)"', code))
    assert len(used) > 10
    assert used <= registry.COUNTS


@each_row(
    ("rule", "name", "value", "says"),
    [
        ("P1", "warn", 0, "greater than 0"),
        ("T2", "warn", 0.0, "greater than 0"),
        ("P2", "info", 0, "greater than 0"),
        ("G1", "long", -5, "whole number"),
        ("G1", "long", 1.5, "whole number"),
        ("R4", "long", 0, "whole number"),
        ("G1", "long", math.inf, "whole number"),
        ("R1", "out_lasts", -1, "whole number"),
        ("A1", "zero_few_most", 1e7, "whole number"),
        ("O9", "wait", -1, "whole number"),
        ("O6", "warn", -math.inf, "greater than 0"),
        ("O3", "n", 31, "n cannot be more than m"),
        ("O3", "m", 26, "n cannot be more than m"),
        ("A1", "zero_least", 11, "zero_least cannot be more than zero_most"),
    ],
)
def test_a_number_that_is_no_threshold_is_refused(rule: str, name: str, value: float, says: str) -> None:
    with pytest.raises(ConfigError, match=rf"^\[rules\.{rule}\] {name} is .*{says}"):
        EngineOptions(rules={rule: {name: value}})


def test_a_line_that_is_never_crossed_is_a_threshold() -> None:
    fine = {"O6": {"warn": math.inf}, "C1": {"far": -math.inf, "warn": 0}, "O9": {"wait": 0}, "G1": {"most": 0.5}}
    EngineOptions(rules=fine)
    assert registry.threshold_fault("G1", "most", 0.5, {}) is None
    EngineOptions(rules={"O3": {"n": 31, "m": 31}})
