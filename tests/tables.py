"""A table of cases as a single test that names every failing row."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def each_row(
    names: str | Sequence[str], rows: Iterable[Any], *, ids: Callable[[Any], object] | Iterable[object] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Like `pytest.mark.parametrize`, for rows that cost less than the overhead of a test (2 ms of CPU time).

    Each row gets its own `tmp_path` and `monkeypatch`, and starts with empty captured output; other fixtures are
    made once per table. Rows are skipped together or not at all. If there are no rows, or one has a mark, each row
    is a test.
    """
    argnames = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = list(rows)
    params = [row if isinstance(row, type(pytest.param())) else None for row in table]
    if not table or any(param is not None and param.marks for param in params):
        return pytest.mark.parametrize(names, table, ids=ids)
    values = [
        param.values if param is not None else (row,) if len(argnames) == 1 else tuple(row)
        for param, row in zip(params, table, strict=True)
    ]
    told = list(ids) if ids is not None and not callable(ids) else [None] * len(table)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def all_rows(**fixtures: Any) -> None:
            failed: list[BaseException] = []
            for number, row in enumerate(values):
                try:
                    with pytest.MonkeyPatch.context() as monkeypatch:
                        test(**_of_a_row(fixtures, number, monkeypatch), **dict(zip(argnames, row, strict=True)))
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
                    shown = told[number] or ", ".join(repr(value)[:120] for value in row)
                    error.add_note(f"row {number}: {shown}")
                    failed.append(error)
            if len(failed) == len(values) and all(isinstance(each, pytest.skip.Exception) for each in failed):
                raise failed[0]
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(values)} rows", failed)

        kept = [each for name, each in signature.parameters.items() if name not in argnames]
        all_rows.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return all_rows

    return decorate


def _of_a_row(fixtures: dict[str, Any], number: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    own = dict(fixtures)
    if "tmp_path" in own:
        own["tmp_path"] = own["tmp_path"] / str(number)
        own["tmp_path"].mkdir()
    if "capsys" in own:
        own["capsys"].readouterr()
    if "monkeypatch" in own:
        own["monkeypatch"] = monkeypatch
    return own
