"""Titles of processes: known patterns of one's own, and nothing else of a command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from opened import told
from programs import titled
from tables import each_row

from rltop.live.probe import ProbeError, Process
from rltop.live.titles import Title, TitlesProbe, TitleTracker, own_titles, title_of


@each_row(
    ("text", "title"),
    [
        ("ray::WorkerDict.actor_rollout_update_actor", Title("WorkerDict", "actor_rollout_update_actor")),
        ("ray::WorkerDict.actor_rollout_update_actor()", Title("WorkerDict", "actor_rollout_update_actor")),
        ("ray::Outer.Inner.step", Title("Outer.Inner", "step")),
        ("ray::WorkerDict\0\0\0\0", Title("WorkerDict")),
        ("VLLM::EngineCore_DP0", Title("VLLM::EngineCore_DP0")),
        ("VLLM::Worker_TP0_EP1", Title("VLLM::Worker_TP0_EP1")),
        ("sglang::scheduler_DP0_TP3", Title("sglang::scheduler_DP0_TP3")),
        ("ray::IDLE", None),
        ("ray::DashboardAgent", None),
        ("python\0train.py\0--api-key=s3cret", None),
        ("ray::WorkerDict.step --token s3cret", None),
        ("bash\0-c\0echo ray::WorkerDict.step", None),
        ("ray::\x1b]0;x\x07Worker.step", None),
        ("ray::" + "A" * 5000, None),
        ("", None),
    ],
)
def test_only_what_is_known_is_read(text: str, title: Title | None) -> None:
    assert title_of(text) == title


def test_the_own_processes_of_this_node(monkeypatch: pytest.MonkeyPatch) -> None:
    with titled("ray::WorkerDict.actor_rollout_compute_log_prob") as pid, titled("ray::Async") as plain:
        found = {each.pid: each for each in TitlesProbe().ask(100.0)}
        busy, unknown = found[pid], found[plain]
        assert (busy.name, busy.phase, busy.key) == ("WorkerDict", "actor_rollout_compute_log_prob", "logprob")
        assert (busy.state, busy.since_s, busy.is_seen, busy.rank) == ("running", 100.0, True, None)
        # A plain title is not known, not idle.
        assert (unknown.state, unknown.phase, unknown.since_s) == ("unknown", "", None)
        monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
        assert own_titles() == []


def test_no_argument_is_kept() -> None:
    with titled("ray::WorkerDict.step", "--token=s3cret-value"):
        assert "s3cret" not in repr(own_titles())


def test_of_a_process_nothing_but_its_title_is_opened() -> None:
    with titled("ray::WorkerDict.step") as pid, told() as seen:
        assert pid in dict(own_titles())
    paths = [path for event, path in seen if event == "open"]
    assert f"/proc/{pid}/cmdline" in paths
    assert {Path(path).name for path in paths} == {"cmdline"}


def test_of_another_user_nothing_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    with titled("ray::WorkerDict.step"):
        monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
        with told() as seen:
            assert own_titles() == []
        assert not [path for event, path in seen if event == "open"]


def test_what_is_in_the_same_has_been_so_since_it_was_seen_first() -> None:
    seen = TitleTracker("processes")
    update, sync = Title("WorkerDict", "update_actor"), Title("WorkerDict", "update_weights")

    def since(title: Title, now_s: float) -> list[float | None]:
        return [each.since_s for each in seen.processes([("node-1", 7, title)], now_s)]

    assert since(update, 10.0) == [10.0]
    assert since(update, 70.0) == [10.0]
    assert since(sync, 80.0) == [80.0]
    assert since(update, 90.0) == [90.0]


def test_a_node_without_a_job_says_so(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="no process of Ray, vLLM or SGLang runs on"):
        TitlesProbe(str(tmp_path)).ask(0.0)
    with pytest.raises(ProbeError):
        TitlesProbe(str(tmp_path / "none")).ask(0.0)


def test_a_process_is_a_fact() -> None:
    assert isinstance(TitleTracker("x").processes([("h", 1, Title("A", "b"))], 0.0)[0], Process)
