"""Which environment variables Textual and Rich may see.

Both read dozens of them when they are imported, and some values end in an exception then or later. What rltop lets a
person set is in `settings`. Must be called before Textual is imported; imports nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

WEB_DRIVER = "textual.drivers.web_driver:WebDriver"
"""What `textual-serve` sets as `TEXTUAL_DRIVER`: it shows the screen in a browser, and tells its size."""

_ALLOWED = {
    "TEXTUAL_DRIVER": (WEB_DRIVER,),
    "TEXTUAL_COLOR_SYSTEM": ("auto", "standard", "256", "truecolor"),
    "TEXTUAL_DISABLE_KITTY_KEY": ("0", "1"),
    "TEXTUAL_SMOOTH_SCROLL": ("0", "1"),
}
"""What a terminal may need, and with which values it works."""
_SIZES = ("COLUMNS", "LINES", "JUPYTER_COLUMNS", "JUPYTER_LINES")
"""The terminal itself says how large it is."""
_PATIENCE = "ESCDELAY"
_LONGEST_MS = 10_000


def settle_environment(environ: MutableMapping[str, str]) -> None:
    """Take away what Textual and Rich would stumble over, and what would make another program of this one."""
    for name in list(environ):
        if (name == "TEXTUAL" or name.startswith("TEXTUAL_")) and environ[name] not in _ALLOWED.get(name, ()):
            del environ[name]
    for name in () if is_served(environ) else _SIZES:
        environ.pop(name, None)
    patience = environ.get(_PATIENCE, "")
    if not (patience.isascii() and patience.isdecimal() and len(patience) < 6 and int(patience) <= _LONGEST_MS):
        environ.pop(_PATIENCE, None)


def is_served(environ: Mapping[str, str]) -> bool:
    """Is the screen shown in a browser, by `textual-serve`?"""
    return environ.get("TEXTUAL_DRIVER") == WEB_DRIVER
