"""Which environment variables Textual and Rich may see.

Both read dozens of them on import, and some values cause exceptions then or later. User settings of rltop are in
`settings`. Must be called before Textual is imported; imports nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

WEB_DRIVER = "textual.drivers.web_driver:WebDriver"
"""Value of `TEXTUAL_DRIVER` under `textual-serve`, which shows the screen in a browser and sets its size."""

_ALLOWED = {
    "TEXTUAL_DRIVER": (WEB_DRIVER,),
    "TEXTUAL_COLOR_SYSTEM": ("auto", "standard", "256", "truecolor"),
    "TEXTUAL_DISABLE_KITTY_KEY": ("0", "1"),
    "TEXTUAL_SMOOTH_SCROLL": ("0", "1"),
}
"""Variables that a terminal may need, with the values that work."""
_SIZES = ("COLUMNS", "LINES", "JUPYTER_COLUMNS", "JUPYTER_LINES")
"""Ignored, as the terminal itself reports its size."""
_PATIENCE = "ESCDELAY"
_LONGEST_MS = 10_000


def settle_environment(environ: MutableMapping[str, str]) -> None:
    """Remove variables that would break Textual and Rich or change how this program works."""
    for name in list(environ):
        if (name == "TEXTUAL" or name.startswith("TEXTUAL_")) and environ[name] not in _ALLOWED.get(name, ()):
            del environ[name]
    for name in () if is_served(environ) else _SIZES:
        environ.pop(name, None)
    patience = environ.get(_PATIENCE, "")
    if not (patience.isascii() and patience.isdecimal() and len(patience) < 6 and int(patience) <= _LONGEST_MS):
        environ.pop(_PATIENCE, None)


def is_served(environ: Mapping[str, str]) -> bool:
    """Whether `textual-serve` shows the screen in a browser."""
    return environ.get("TEXTUAL_DRIVER") == WEB_DRIVER
