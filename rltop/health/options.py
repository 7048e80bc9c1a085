"""What the user may say about the rules.

Light on purpose: the configuration needs it before the first frame, the rules
themselves are imported only when something is to be judged or looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rltop.errors import ConfigError


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What the user may say about the rules.

    Attributes:
        rules: rule id → setting → value: a threshold by its name, or
            `enabled = false` to switch the rule off.
        group_size: completions per prompt, where the user knows better than the stream.
    """

    rules: Mapping[str, Mapping[str, float | bool]] = field(default_factory=dict)
    group_size: int | None = None

    def __post_init__(self) -> None:
        if self.rules:
            check_rule_settings(self.rules)

    def limits(self, rule: str) -> dict[str, float]:
        """Thresholds of a rule by name, with the user's own in their place; raises `KeyError` for an unknown rule."""
        from rltop.health import registry  # noqa: PLC0415 - see the head of this file

        own = self.rules.get(rule, {})
        return {name: float(own.get(name, limit)) for name, limit in registry.BY_ID[rule].limits.items()}


def check_rule_settings(rules: Mapping[str, Mapping[str, float | bool]]) -> None:
    """Refuse settings that no rule knows.

    Raises:
        ConfigError: an unknown rule or threshold, or a value that is not a number;
            names the setting and the nearest one that exists.
    """
    from rltop.health import registry  # noqa: PLC0415 - see the head of this file

    specs = registry.BY_ID
    for rule, settings in rules.items():
        spec = specs.get(rule)
        if spec is None:
            raise ConfigError(f"[rules.{rule}]: there is no rule {rule!r}", _did_you_mean(rule, list(specs)))
        for name, value in settings.items():
            known = [*spec.limits, "enabled"]
            if name not in known:
                raise ConfigError(f"[rules.{rule}] {name}: no such setting", _did_you_mean(name, known))
            if name == "enabled":
                if not isinstance(value, bool):
                    raise ConfigError(f"[rules.{rule}] enabled = {value!r} is not true or false", "write true or false")
            elif isinstance(value, bool) or not isinstance(value, int | float):
                raise ConfigError(f"[rules.{rule}] {name} = {value!r} is not a number", "write a plain number")


def _did_you_mean(word: str, known: Sequence[str]) -> str:
    # Imported only for who has mistyped: this module is needed before the first frame.
    from difflib import get_close_matches  # noqa: PLC0415

    near = get_close_matches(word, known, n=3, cutoff=0.4)
    return f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(known)}"
