"""Arguments → configuration → the screen or the report; imports late."""

from __future__ import annotations


def main() -> int:
    """Run the program; the exit codes are in `errors`."""
    raise SystemExit(2)
