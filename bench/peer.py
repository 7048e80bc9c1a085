"""What another monitor says to rows on standard input: its detectors, its defaults, its cooldown.

    PYTHON-WITH-THE-PEER bench/peer.py rlwatch|rl-doctor FOLDER < rows.jsonl

Runs in an environment of its own and through the peer's public calls alone. Prints a
JSON array of the alerts that it would have sent, as events of `rltop check --json`.
FOLDER is where it keeps its data.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

RLWATCH_FAMILIES = {
    "entropy_collapse": "entropy",
    "kl_explosion": "kl",
    "reward_hacking": "reward",
    "reward_mean_drift": "reward",
    "advantage_variance": "advantage",
    "loss_nan": "nonfinite",
    "gradient_norm_spike": "gradient",
}
RL_DOCTOR_FAMILIES = {
    "advantage_collapse": "groups",
    "clip_saturation": "clip",
    "entropy_collapse": "entropy",
    "gradient_pathology": "gradient",
    "kl_drift": "kl",
    "length_pathology": "length",
    "plateau": "reward",
    "reward_composition": "reward",
    "reward_hacking": "reward",
}
"""Detector → families of the labels; two detectors of rl-doctor are split further below."""
LEVELS = {"warning": "warn", "critical": "crit"}
ASKED_EVERY, LEAST = 5, 8
"""Steps between queries to rl-doctor, and the fewest for an answer; by default it is silent for 60."""

Event = dict[str, Any]


def rlwatch(rows: Iterator[dict[str, Any]]) -> Iterator[Event]:
    """Every alert of its monitor, which is fed each row."""
    import rlwatch as peer

    monitor = peer.attach(framework="manual")
    for number, row in enumerate(rows, start=1):
        for alert in monitor.log_step(row.pop("step"), **row):
            family = RLWATCH_FAMILIES[alert.detector]
            yield event(number, alert.step, alert.detector, family, LEVELS[alert.severity], alert.message)
    monitor.stop()


def rl_doctor(rows: Iterator[dict[str, Any]]) -> Iterator[Event]:
    """Every new or worse finding of its live monitor, queried every `ASKED_EVERY` steps."""
    from rl_doctor.live import LiveMonitor

    monitor = LiveMonitor(check_every=ASKED_EVERY, min_steps=LEAST, on_finding=lambda finding: None)
    for number, row in enumerate(rows, start=1):
        for finding in monitor.log(row):
            family = RL_DOCTOR_FAMILIES[finding.detector]
            if finding.metrics.get("n_nonfinite"):
                family = "nonfinite"
            elif family == "length" and "truncat" in finding.summary:
                family = "truncation"
            level = LEVELS[finding.severity.name.lower()]
            yield event(number, row["step"], finding.detector, family, level, finding.summary)


def event(record: int, step: int, rule: str, family: str, level: str, message: str) -> Event:
    return {"record": record, "step": step, "rule": rule, "family": family, "level": level, "state": "firing",
            "message": message}  # fmt: skip


PEERS = {"rlwatch": rlwatch, "rl-doctor": rl_doctor}


def main() -> int:
    ask = PEERS[sys.argv[1]]
    os.chdir(sys.argv[2])
    # It also writes its alerts to standard output.
    with contextlib.redirect_stdout(sys.stderr):
        events = list(ask(json.loads(text) for text in sys.stdin))
    print(json.dumps(events))
    return 0


if __name__ == "__main__":
    sys.exit(main())
