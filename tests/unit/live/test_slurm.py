"""What Slurm says of a job: states, limits, jobs that have ended, and a `squeue` that fails, hangs or is not there."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from programs import in_path
from ptys import PATIENCE_S
from tables import each_row

from rltop.live import slurm
from rltop.live.job import limit_words
from rltop.live.judge import JobStatus
from rltop.live.probe import Job, ProbeError
from rltop.live.slurm import Command, CommandError, SlurmProbe, job_of_log

NOW_S = 1_795_646_000.0
RUNNING = "4711|RUNNING|1795645998|1795667598|64|node[1-64]|gres:gpu:h100:8|None"


def test_a_job_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = in_path(tmp_path, monkeypatch, "squeue", f'[ "$SLURM_TIME_FORMAT" = %s ] && echo "{RUNNING}"')
    assert SlurmProbe(["4711", "4712_3"], {}).ask(NOW_S) == [
        Job("squeue", NOW_S, "4711", "RUNNING", "node[1-64]", 1_795_645_998.0, 1_795_667_598.0, 512)
    ]
    # One call for all jobs.
    assert words.read_text().splitlines() == [
        "--noheader",
        "--jobs=4711,4712_3",
        "--format=%i|%T|%S|%e|%D|%N|%b|%r",
    ]


def test_a_job_that_waits_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_path(tmp_path, monkeypatch, "squeue", 'echo "4711|PENDING|1795650000|N/A|2||N/A|QOSMaxGRESPerUser"')
    (job,) = SlurmProbe(["4711"], {}).ask(NOW_S)
    assert (job.begun_s, job.ends_s, job.gpus, job.trouble) == (None, None, None, "pending: QOSMaxGRESPerUser")


@each_row("script", ["exit 0", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"])
def test_a_job_that_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    in_path(tmp_path, monkeypatch, "squeue", script)
    with pytest.raises(ProbeError, match="job 4711 is no longer in the queue: it has ended"):
        SlurmProbe(["4711"], {}).ask(NOW_S)


def test_a_container_without_squeue_knows_its_own_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    told = {"SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "node[1-2]", "SLURM_JOB_START_TIME": "1795645998",
            "SLURM_JOB_END_TIME": "1795667598"}  # fmt: skip
    (job,) = SlurmProbe(["4711"], told).ask(NOW_S)
    assert (job.source, job.ends_s, job.nodes) == ("SLURM_JOB_ID", 1_795_667_598.0, "node[1-2]")
    # Of another job it knows nothing: many people work inside an interactive one.
    with pytest.raises(CommandError, match="no squeue on this machine"):
        SlurmProbe(["99"], told).ask(NOW_S)


def test_a_squeue_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_path(tmp_path, monkeypatch, "squeue", "echo 'squeue: error: Unable to contact slurm controller' >&2; exit 1")
    with pytest.raises(CommandError, match="Unable to contact slurm controller"):
        SlurmProbe(["4711"], {}).ask(NOW_S)


def test_a_program_that_hangs_is_ended_with_what_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_path(tmp_path, monkeypatch, "squeue", f"sleep 60 & echo $! > {tmp_path}/child; wait")
    began = time.monotonic()
    with pytest.raises(CommandError, match="squeue does not answer"):
        Command(["squeue"], 0.5).output()
    assert time.monotonic() - began < 5.0
    child = int((tmp_path / "child").read_text())
    ends = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{child}/stat").exists() and " Z " not in Path(f"/proc/{child}/stat").read_text():
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_whoever_closes_ends_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = in_path(tmp_path, monkeypatch, "squeue", "sleep 60")
    probe, closed_s = SlurmProbe(["4711"], {}), list[float]()

    def close_once_it_runs() -> None:
        ends = time.monotonic() + PATIENCE_S
        while not words.exists() and time.monotonic() < ends:
            time.sleep(0.01)
        closed_s.append(time.monotonic())
        probe.close()

    threading.Thread(target=close_once_it_runs).start()
    with pytest.raises((CommandError, ProbeError)):
        probe.ask(NOW_S)
    assert time.monotonic() - closed_s[0] < 10.0


def test_what_is_closed_before_the_program_runs_ends_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_path(tmp_path, monkeypatch, "squeue", "sleep 60")
    probe, began_s = SlurmProbe(["4711"], {}), time.monotonic()
    probe.close()
    with pytest.raises((CommandError, ProbeError)):
        probe.ask(NOW_S)
    assert time.monotonic() - began_s < 10.0


def test_a_program_that_prints_without_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_path(tmp_path, monkeypatch, "squeue", "yes 4711")
    with pytest.raises(CommandError, match="prints too much"):
        SlurmProbe(["4711"], {}).ask(NOW_S)


def test_the_log_of_a_run_tells_its_job_once_it_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = in_path(tmp_path, monkeypatch, "squeue", f'echo "{RUNNING}"')
    log = ""
    probe = SlurmProbe([], {}, lambda: log)
    assert (probe.ask(NOW_S), probe.every_s < 60.0, words.exists()) == ([], True, False)
    log = "/srv/train.log"
    assert (probe.ask(NOW_S), words.exists()) == ([], False)
    log = "/srv/slurm-4711.out"
    assert [job.id for job in probe.ask(NOW_S)] == ["4711"]
    assert probe.every_s >= 60.0
    log = "/srv/slurm-4712.out"  # the job was put into the queue again
    probe.ask(NOW_S)
    asked = [word for word in words.read_text().splitlines() if word.startswith("--jobs")]
    assert asked == ["--jobs=4711", "--jobs=4712"]


def test_a_job_that_is_named_is_the_one_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = in_path(tmp_path, monkeypatch, "squeue", f'echo "{RUNNING}"')
    SlurmProbe(["4711"], {}, lambda: "/srv/slurm-12.out").ask(NOW_S)
    assert "--jobs=4711" in words.read_text().splitlines()


def test_it_is_asked_once_a_minute() -> None:
    assert SlurmProbe(["1"], {}).every_s >= 60.0
    assert slurm.ANSWER_S < 60.0


@each_row(
    ("path", "job"),
    [
        ("slurm-123.out", "123"),
        ("/srv/run/slurm-123_4.out", "123_4"),
        ("grpo-slurm-77.err", "77"),
        ("train-20260101.log", None),
        ("slurm-x.out", None),
        ("slurm-1;rm.out", None),
        ("job-5.txt", None),
    ],
)
def test_the_number_in_the_name_of_a_log(path: str, job: str | None) -> None:
    assert job_of_log(path) == job


def test_what_is_no_number_of_a_job_is_never_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = in_path(tmp_path, monkeypatch, "squeue", f'echo "{RUNNING}"')
    SlurmProbe(["--users=root", "4711", "1;id"], {}).ask(NOW_S)
    assert "--jobs=4711" in words.read_text().splitlines()


HOUR_S = 3600.0


@each_row(
    ("step", "total", "left_h", "words"),
    [
        (1_760, 1_947, 6.0, "ETA 14 h 2 m, limit in 6 h: stops near step 1,840; last checkpoint 1,750"),
        (1_760, 1_800, 6.0, "ETA 3 h, limit in 6 h"),
        (1_760, None, 6.0, "limit in 6 h: stops near step 1,840; last checkpoint 1,750"),
        (None, None, 6.0, "limit in 6 h"),
    ],
)
def test_what_a_limit_means(step: int | None, total: int | None, left_h: float, words: str) -> None:
    where = JobStatus("running", step=step, total=total, step_s=270.0)
    assert limit_words(where, NOW_S + left_h * HOUR_S, NOW_S, 1_750) == words
    assert not limit_words(where._replace(state="finished"), NOW_S + HOUR_S, NOW_S)
