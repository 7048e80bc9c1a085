"""What rlwatch says to rows on standard input: its detectors, its defaults, its cooldown.

    PYTHON-WITH-RLWATCH bench/peer_rlwatch.py FOLDER < rows.jsonl

Runs in an environment of its own and through its public calls alone. Prints a JSON
array of the alerts that it would have sent, as events of `rltop check --json`. FOLDER
is where it keeps its data.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys

FAMILIES = {
    "entropy_collapse": "entropy",
    "kl_explosion": "kl",
    "reward_hacking": "reward",
    "reward_mean_drift": "reward",
    "advantage_variance": "advantage",
    "loss_nan": "nonfinite",
    "gradient_norm_spike": "gradient",
}
"""Its detectors → the families of the labels."""
LEVELS = {"warning": "warn", "critical": "crit"}


def main() -> int:
    os.chdir(sys.argv[1])
    import rlwatch

    events = []
    # It writes its alerts to standard output as well.
    with contextlib.redirect_stdout(sys.stderr):
        monitor = rlwatch.attach(framework="manual")
        for number, text in enumerate(sys.stdin, start=1):
            row = json.loads(text)
            step = row.pop("step")
            events += [
                {
                    "record": number,
                    "step": alert.step,
                    "rule": alert.detector,
                    "family": FAMILIES[alert.detector],
                    "level": LEVELS[alert.severity],
                    "state": "firing",
                    "message": alert.message,
                }
                for alert in monitor.log_step(step, **row)
            ]
        monitor.stop()
    print(json.dumps(events))
    return 0


if __name__ == "__main__":
    sys.exit(main())
