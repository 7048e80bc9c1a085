"""Answers the scorer in the place of `rltop`, and keeps what was answered.

    python bench/score_answer.py KEPT [--peer NAME --peer-python PYTHON] check --json FILE

The answer is that of `rltop check --json FILE`, or, with a peer and its interpreter,
what that says to the same rows (`peer.py`). A copy goes into the folder KEPT, with the
label that lies beside the file, and is the answer when the same is asked again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rltop.cli.open_session import read_whole, runs_of
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.model import Event, NonFinite, Observation
from rltop.report.document import check_document
from rltop.rules.engine import Engine
from rltop.run import rule_runner
from rltop.run.snapshot import Snapshot

HERE = Path(__file__).resolve().parent
RLWATCH = {
    "entropy": ("entropy",),
    "kl_divergence": ("kl_ref", "kl_old"),
    "reward_mean": ("reward_mean", "score_mean"),
    "reward_std": ("reward_std",),
    "loss": ("loss", "policy_loss"),
    "grad_norm": ("grad_norm",),
}
"""Argument of the peer's `log_step` → our names for it, of which the first logged one is used.

No trainer logs the deviation of its advantages, which one of its detectors needs.
"""
RL_DOCTOR = {
    "reward_mean": ("score_mean", "reward_mean"),
    "reward_std": ("reward_std",),
    "reward_max": ("reward_max",),
    "reward_min": ("reward_min",),
    "eval_score": ("val_score",),
    "zero_var_group_frac": ("zero_std_frac",),
    "advantage_mean": ("adv_mean",),
    "entropy": ("entropy",),
    "kl": ("kl_ref", "kl_old"),
    "pg_clipfrac": ("clip_frac",),
    "grad_norm": ("grad_norm",),
    "lr": ("lr",),
    "policy_loss": ("policy_loss", "loss"),
    "response_len_mean": ("response_len_mean",),
    "response_len_max": ("response_len_max",),
    "response_len_clip_ratio": ("truncated_frac",),
    "value_explained_var": ("explained_var",),
    "throughput": ("throughput",),
    "time_per_step": ("time_step",),
}
"""Its canonical field → our names for it, so that gaps in its aliases are no handicap."""
FIELDS = {"rlwatch": RLWATCH, "rl-doctor": RL_DOCTOR}
_NOT_FINITE = {NonFinite.POS_INF: math.inf, NonFinite.NEG_INF: -math.inf}


class Recorder(Engine):
    """An engine that records every row it sees."""

    seen: list[Observation] = []  # noqa: RUF012 - one run per process

    def observe(self, observation: Observation) -> list[Event]:
        """Record the row, then judge it."""
        Recorder.seen.append(observation)
        return super().observe(observation)


def rows(fields: Mapping[str, tuple[str, ...]]) -> Iterator[dict[str, Any]]:
    """Rows as the peer expects them, without late evaluations."""
    for seen in Recorder.seen:
        row: dict[str, Any] = {"step": seen.step}
        for field, names in fields.items():
            for name in names:
                if name in seen.values:
                    row[field] = seen.values[name]
                    break
                if name in seen.nonfinite:
                    row[field] = _NOT_FINITE.get(seen.nonfinite[name], math.nan)
                    break
        if len(row) > 1 and not seen.is_late:
            yield row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kept", type=Path)
    parser.add_argument("--peer", choices=FIELDS)
    parser.add_argument("--peer-python")
    parser.add_argument("command", choices=["check"])
    parser.add_argument("--json", action="store_true", required=True)
    parser.add_argument("path", type=Path)
    arguments = parser.parse_args()
    name = hashlib.sha1(str(arguments.path).encode()).hexdigest()
    kept = arguments.kept / f"{name}.json"
    if kept.exists():
        print(kept.read_text())
        return 0
    rule_runner.Engine = Recorder  # type: ignore[misc]
    run = read_whole(runs_of(str(arguments.path))[0], Config(), FakeClock()).runs[0]
    document = check_document(Snapshot(run))
    if arguments.peer:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [arguments.peer_python, str(HERE / "peer.py"), arguments.peer, folder],
                input="".join(json.dumps(row) + "\n" for row in rows(FIELDS[arguments.peer])),
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode:
            sys.exit(done.stderr[-2000:])
        document |= {"verdicts": [], "events": json.loads(done.stdout)}
    label = json.loads((arguments.path.parent / "label.json").read_text())
    kept.write_text(json.dumps({**document, "label": label}))
    print(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())
