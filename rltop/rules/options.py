"""What the user may say about the rules.

Light on purpose: the configuration needs it before the first frame, the rules
themselves are imported only when something is to be judged or looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rltop.structs import Struct, field

RuleSettings = Mapping[str, Mapping[str, float | bool]]
"""Rule id → a threshold by its name, or `enabled` → value."""


class EngineOptions(Struct):
    """What the user may say about the rules.

    Attributes:
        rules: rule id → setting → value: a threshold by its name, or `enabled = false` to switch the rule off.
        group_size: completions per prompt, where the user knows better than the stream.
        profiles: names of the profiles that hold; None: those that the run gives away by its keys.
        by_profile: profile → rule id → setting → value, as in `rules`; wins over `rules` where the profile holds.
        own: rule id → threshold → value, as set on the screen for the run; wins over everything.
        families: those of the rules that are asked; empty: all.
    """

    rules: RuleSettings = field(default_factory=dict)
    group_size: int | None = None
    profiles: tuple[str, ...] | None = None
    by_profile: Mapping[str, RuleSettings] = field(default_factory=dict)
    own: RuleSettings = field(default_factory=dict)
    families: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.rules or self.profiles or self.by_profile or self.own:
            from rltop.rules import registry  # noqa: PLC0415 - see the head of this file

            registry.check_rule_settings(self.rules)
            registry.check_profiles(self.profiles or (), self.by_profile)
            registry.check_rule_settings(self.own)

    def settings(self, rule: str, profiles: Sequence[str] = ()) -> dict[str, float | bool]:
        """What differs from a rule's defaults, by threshold or `enabled`: of two profiles the later wins."""
        found: dict[str, float | bool] = {}
        if profiles:
            from rltop.rules.profiles import PROFILES  # noqa: PLC0415 - see the head of this file

            for name in profiles:
                found.update(PROFILES[name].rules.get(rule, {}))
        for table in (self.rules, *(self.by_profile.get(name, {}) for name in profiles), self.own):
            found.update(_said_of(rule, table))
        return found

    def thresholds(self, rule: str, profiles: Sequence[str] = ()) -> dict[str, float]:
        """Thresholds of a rule by name as they hold under `profiles`, all of them.

        Raises:
            KeyError: there is no such rule.
        """
        from rltop.rules import registry  # noqa: PLC0415 - see the head of this file

        own = self.settings(rule, profiles)
        return {name: float(own.get(name, limit)) for name, limit in registry.NAMED[rule].thresholds.items()}

    def silenced(self, profiles: Sequence[str] = ()) -> frozenset[str]:
        """Ids of the rules that the user switches off under `profiles`; not those that a profile brings along."""
        tables = (self.rules, *(self.by_profile.get(name, {}) for name in profiles))
        named = {rule for table in tables for rule, settings in table.items() if settings.get("enabled") is False}
        return frozenset(rule for rule in named if not self.is_enabled(rule, profiles))

    def is_enabled(self, rule: str, profiles: Sequence[str] = ()) -> bool:
        """Whether neither the user nor a profile has switched it off, nor the user the rule that it is a part of."""
        own = self.settings(rule, profiles).get("enabled")
        if own is not None or not (self.rules or self.by_profile):
            return own is not False
        from rltop.rules import registry  # noqa: PLC0415 - see the head of this file

        # What a profile brings along is meant for the rule itself, what the user says of it for its parts too.
        whole = registry.NAMED[rule].rule
        said = (self.rules, *(self.by_profile.get(name, {}) for name in profiles))
        found = [table[whole]["enabled"] for table in said if "enabled" in table.get(whole, {})]
        return bool(found[-1]) if found else True


def _said_of(rule: str, table: RuleSettings) -> dict[str, float | bool]:
    """What a table sets of a rule, under the ids that it has taken over too."""
    if not table:
        return {}
    from rltop.rules import registry  # noqa: PLC0415 - see the head of this file

    found = {
        now: table[id_][name]
        for id_, names in registry.TAKEN_OVER.items()
        if id_ in table
        for name, (heir, now) in names.items()
        if heir == rule and now != "-" and name in table[id_]
    }
    return found | dict(table.get(rule, {}))
