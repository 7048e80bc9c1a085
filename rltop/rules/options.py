"""The user's options for the rules.

Light to import on purpose: the configuration needs it before the first frame, whereas the rules are imported only when
something is judged or looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rltop.structs import Struct, field

RuleSettings = Mapping[str, Mapping[str, float | bool]]
"""Rule id → name of a threshold, or `enabled` → value."""


class EngineOptions(Struct):
    """The user's options for the rules.

    Attributes:
        rules: rule id → setting → value: a threshold by name, or `enabled = false` to switch the rule off.
        group_size: completions per prompt; overrides what the stream says.
        profiles: names of the active profiles; None to detect them from the run's keys.
        by_profile: profile → rule id → setting → value, as in `rules`; overrides `rules` while the profile is active.
        own: rule id → threshold → value, as set on the screen for the run; overrides everything.
        families: only rules of these families run; all if empty.
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
        """What differs from a rule's defaults, by threshold or `enabled`; a later profile overrides an earlier one."""
        found: dict[str, float | bool] = {}
        if profiles:
            from rltop.rules.profiles import PROFILES  # noqa: PLC0415 - see the head of this file

            for name in profiles:
                found.update(PROFILES[name].rules.get(rule, {}))
        for table in (self.rules, *(self.by_profile.get(name, {}) for name in profiles), self.own):
            found.update(_said_of(rule, table))
        return found

    def thresholds(self, rule: str, profiles: Sequence[str] = ()) -> dict[str, float]:
        """All thresholds of a rule by name, as they apply under `profiles`.

        Raises:
            KeyError: there is no such rule.
        """
        from rltop.rules import registry  # noqa: PLC0415 - see the head of this file

        own = self.settings(rule, profiles)
        return {name: float(own.get(name, limit)) for name, limit in registry.NAMED[rule].thresholds.items()}

    def silenced(self, profiles: Sequence[str] = ()) -> frozenset[str]:
        """Ids of the rules that the user has switched off under `profiles`, not those that a profile switches off."""
        tables = (self.rules, *(self.by_profile.get(name, {}) for name in profiles))
        named = {rule for table in tables for rule, settings in table.items() if settings.get("enabled") is False}
        return frozenset(rule for rule in named if not self.is_enabled(rule, profiles))

    def is_enabled(self, rule: str, profiles: Sequence[str] = ()) -> bool:
        """Whether neither the user nor a profile has switched it off, nor the user the rule that it belongs to."""
        own = self.settings(rule, profiles).get("enabled")
        if own is not None or not (self.rules or self.by_profile):
            return own is not False
        from rltop.rules import registry  # noqa: PLC0415 - see the head of this file

        # A profile's setting applies to the rule alone, the user's to its parts too.
        whole = registry.NAMED[rule].rule
        said = (self.rules, *(self.by_profile.get(name, {}) for name in profiles))
        found = [table[whole]["enabled"] for table in said if "enabled" in table.get(whole, {})]
        return bool(found[-1]) if found else True


def _said_of(rule: str, table: RuleSettings) -> dict[str, float | bool]:
    """What a table sets for a rule, including settings under former ids that it has taken over."""
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
