"""The batch script of docs/unattended.md, run for real: only the cluster is made up."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAN_ROWS = "".join(f'{{"step": {step}, "loss": 0.0, "grad_norm": NaN, "reward": 0.5}}\n' for step in range(31, 34))
HEALTHY_ROWS = "".join(
    f'{{"step": {step}, "loss": 0.1{step % 7}, "grad_norm": 1.{step % 5}, "reward": 0.5}}\n' for step in range(1, 31)
)


def script() -> str:
    """The script as the page shows it."""
    (found,) = re.findall(
        r"```bash\n(.*?)^```", (ROOT / "docs" / "unattended.md").read_text(), re.DOTALL | re.MULTILINE
    )
    return str(found)


def executable(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(("more", "is_cancelled"), [(NAN_ROWS, True), ("", False)], ids=["collapse", "healthy"])
def test_the_batch_script_cancels_a_collapsed_job_and_no_other(tmp_path: Path, more: str, is_cancelled: bool) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    cancelled = tmp_path / "cancelled"
    executable(tools / "scancel", f'#!/bin/sh\necho "$@" >> {cancelled}\n')
    executable(tools / "rltop", f'#!/bin/sh\nexec {sys.executable} -m rltop "$@"\n')
    (tmp_path / "healthy").write_text(HEALTHY_ROWS)
    (tmp_path / "more").write_text(more)
    # The trainer waits for its watcher, as one that takes minutes to load a model does, and ends when it is cancelled.
    train = executable(
        tmp_path / "train.sh",
        '#!/bin/sh\nlog="${1%/*}/watch.log"\n'
        'n=0; until grep -q watching "$log" 2>/dev/null || [ $n -ge 1000 ]; do sleep 0.02; n=$((n + 1)); done\n'
        f'cat {tmp_path}/healthy > "$1"\n'
        "sleep 0.4\n"
        f'cat {tmp_path}/more >> "$1"\n'
        f"[ -s {tmp_path}/more ] || exit 0\n"
        f"n=0; until [ -e {cancelled} ] || [ $n -ge 1000 ]; do sleep 0.02; n=$((n + 1)); done\nexit 9\n",
    )
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("RLTOP_")},
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SLURM_JOB_ID": "4711",
        "TRAIN": str(train),
        "LINGER": "0.5",
    }
    done = subprocess.run(
        ["bash", "-c", script()], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    log = (tmp_path / "logs" / "4711" / "watch.log").read_text()
    assert done.returncode == (9 if is_cancelled else 0), done.stderr + log
    assert cancelled.exists() == is_cancelled, log
    if is_cancelled:
        assert set(cancelled.read_text().split()) == {"4711"}
        verdicts = (tmp_path / "logs" / "4711" / "verdicts.txt").read_text()
        assert "loss logged as 0.0 while grad_norm is NaN" in verdicts
    assert "watching" in log and "Traceback" not in log + done.stderr
    assert (tmp_path / "logs" / "4711" / "check.txt").read_text()
