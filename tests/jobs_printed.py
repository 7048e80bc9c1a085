"""Logs as trainers print them, from tests/unit/live/jobs.toml: their bytes, with the time of each piece."""

from __future__ import annotations

import datetime
import os
import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

TABLE = tomllib.loads((Path(__file__).parent / "unit" / "live" / "jobs.toml").read_text())
CASES: list[dict[str, Any]] = TABLE["cases"]
BEGUN_S = 1_787_184_000.0
"""2026-08-20, a quarter of an hour before midnight in some time zone."""
BEGIN_S = 100.0
_BAR = re.compile(r"\[bar:(.*?):(\d+)/(\d+):(\d+:\d+(?::\d+)?)\]$")


class Piece(NamedTuple):
    time_s: float
    data: bytes


def case_name(case: dict[str, Any]) -> str:
    return f"{case['of']}: {case['name']}"


def printed(case: dict[str, Any], zone_h: float = 8.0) -> list[Piece]:
    """The log of a job, piece by piece."""
    trainer = TABLE[case["of"]]
    step_s, lines = trainer["step_s"], [(BEGUN_S + at, text, 0) for at, text in trainer["begin"]]
    lines[1:1] = [(lines[0][0], text, 0) for text in case.get("settings", ())]
    for n in range(case["steps"]):
        lines += [(BEGUN_S + BEGIN_S + step_s * n + at, text, n) for at, text in trainer["step"]]
    begins_s, n = BEGUN_S + BEGIN_S + step_s * case["steps"], case["steps"]
    if case.get("ends"):
        lines += [(begins_s + at, text, n) for at, text in trainer["end"]]
    else:
        lines += [(begins_s + at, text, n) for at, text in trainer["step"] if at < case["break"]]
        lines += [(begins_s + at, text, n) for at, text in case.get("at", ())]
    pieces, is_in_bar = [], False
    for time_s, text, number in lines:
        said = _filled(text, time_s, number, trainer, zone_h)
        bar = _BAR.search(said)
        if bar is not None:
            said = f"{said[: bar.start()]}{_bar(*bar.groups())}"
        is_ended = bar is None or text.startswith("(")
        start = "\r" if not is_ended else "\n" if is_in_bar else ""
        pieces.append(Piece(time_s, (start + said + ("\n" if is_ended else "")).encode()))
        is_in_bar = not is_ended
    return pieces


def _filled(text: str, time_s: float, n: int, trainer: dict[str, Any], zone_h: float) -> str:
    here = datetime.datetime.fromtimestamp(time_s + 3600.0 * zone_h, datetime.UTC)
    minutes = (n + 1) * trainer["step_s"] // 60
    elapsed = f"{minutes:02d}:{(n + 1) * trainer['step_s'] % 60:02d}"
    for name, value in (
        ("{clock}", here.strftime(trainer["clock"])), ("{n}", str(n)), ("{next}", str(n + 1)), ("{minutes}", elapsed),
        ("{even}", str(2 * n)), ("{odd}", str(2 * n + 1)),
    ):  # fmt: skip
        text = text.replace(name, value)
    return text


def _bar(title: str, done: str, of: str, elapsed: str) -> str:
    share = int(done) / int(of)
    head = f"{title}: " if title else ""
    return f"{head}{share:>4.0%}|{'█' * round(10 * share):<10}| {done}/{of} [{elapsed}<00:30,  1.00it/s]"


def write(case: dict[str, Any], folder: Path, zone_h: float = 8.0) -> tuple[Path, float]:
    """Write the log; returns its path and the current time."""
    pieces = printed(case, zone_h)
    path = folder / "train.log"
    path.write_bytes(b"".join(piece.data for piece in pieces))
    os.utime(path, (pieces[-1].time_s, pieces[-1].time_s))
    return path, pieces[-1].time_s + case["silent"]
