"""Writes docs/rltop.1, which the wheel installs, from the parsers: `python docs/generate_man.py`."""

from __future__ import annotations

from pathlib import Path

from rltop import __version__
from rltop.cli.arguments import every_parser
from rltop.cli.completions import man_page

TARGET = Path(__file__).with_name("rltop.1")


def page() -> str:
    """The whole page."""
    return man_page(every_parser(), __version__)


if __name__ == "__main__":
    TARGET.write_text(page())
