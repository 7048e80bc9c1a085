"""Imported by trainers: a metric file for training loops that write none.

    from rltop.integrations import JsonlCallback  # transformers, TRL, unsloth
    from rltop.integrations import JsonlWriter  # your own training loop

Standard library only; `rltop callback` prints the same as one file, for environments without rltop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rltop.integrations.jsonl import JsonlCallback, JsonlWriter

__all__ = ["JsonlCallback", "JsonlWriter"]


def __getattr__(name: str) -> Any:
    """Import a writer on first use.

    Raises:
        ImportError: `JsonlCallback`, and transformers is not installed.
        AttributeError: any other name.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rltop.integrations import jsonl  # noqa: PLC0415

    return getattr(jsonl, name)
