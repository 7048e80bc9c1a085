"""The keys that actions have now, as texts name them.

Owns how a sentence speaks of a key. Which action has which keys, under whatever
settings, is found out in `ui.bindings`, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from rltop.structs import Struct

NO_KEY = "no key"
"""What stands for the key of an action that has none: "no key opens it" is true, and a sentence."""


class KeyNames(Struct):
    """Action → its keys as a person reads them, the one to name first; an action without a key has none."""

    names: Mapping[str, Sequence[str]]

    def every(self, action: str) -> Sequence[str]:
        """All keys of an action."""
        return self.names.get(action, ())

    def clause(self, action: str, text: str) -> str:
        """`text` with the key for its "{}"; empty where there is no key to speak of."""
        return text.format(self.every(action)[0]) if self.every(action) else ""

    def tell(self, text: str) -> str:
        """`text` with the key of each action that it names in braces: "{open} opens it"."""
        return text.format_map({action: keys[0] if keys else NO_KEY for action, keys in self.names.items()})


NO_KEYS = KeyNames(MappingProxyType({}))
"""Where nobody can press any: sentences leave out what they would say of them."""
