"""The step that has not ended, in header and STEP, and the page of what every source tells of the job."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from examples import examples
from fake_run import run_of
from hypothesis import given
from hypothesis import strategies as st
from painted import check_rows, text_of
from ptys import PATIENCE_S
from tables import each_row

from rltop.clock import FakeClock
from rltop.live.judge import JobStatus, grouped
from rltop.live.probe import Device, Fact, Facts, InferenceEngine, Job, Process
from rltop.model import Label, Level, RunState
from rltop.pages.header import build_header, clock_text
from rltop.pages.overview import OverviewPage, build_overview, paint_overview
from rltop.pages.page import Moment
from rltop.pages.where import OpenStep, WherePage, build_open, paint_open, paint_where
from rltop.rows.glyphs import ASCII, UNICODE, cell_width
from rltop.run.options import IngestOptions
from rltop.run.places import FoundRun
from rltop.run.preferences import Goal
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot
from rltop.run.whereabouts import Whereabouts
from rltop.sources.feed import DirectFeed

NOW_S = 1_787_190_000.0
SIZES = ((40, 12), (80, 24), (120, 40), (200, 60))


class Source:
    """A source that tells what it is given."""

    every_s, patience_s, source = 1.0, 5.0, "http://node-1:8265"

    def __init__(self, facts: Sequence[Fact]) -> None:
        self.facts = facts

    def ask(self, now_s: float) -> Sequence[Fact]:
        return self.facts

    def close(self) -> None:
        pass


def job(folder: Path, log: str, quiet_s: float, facts: Sequence[Fact] = (), **settings: Any) -> Any:
    """A run of 20 steps of 90 s, the log beside it, and sources that have answered."""
    rows = [{"step": n, "time": NOW_S - quiet_s - 90.0 * (20 - n), "loss": 0.5} for n in range(1, 21)]
    run: Any = run_of("".join(f"{json.dumps(row)}\n" for row in rows).encode(), age_s=quiet_s, **settings)
    path = folder / "train.log"
    path.write_text(log)
    os.utime(path, (NOW_S - quiet_s + 60.0, NOW_S - quiet_s + 60.0))
    clock = FakeClock(NOW_S)
    run.whereabouts = Whereabouts(run, str(path), clock, lambda: None, lambda log: [Source(facts)])
    ends = time.monotonic() + PATIENCE_S
    while run.whereabouts.probes.version < 2:
        assert time.monotonic() < ends
        run.whereabouts.poll()
        time.sleep(0.002)
    return run


def workers(others: str, odd: str, count: int = 512) -> list[Fact]:
    return [
        Process(
            "http://node-1:8265", NOW_S - 3.0, "WorkerDict", odd if rank == count - 3 else others, "train",
            NOW_S - 800.0, rank=rank, pid=4_000 + rank, host=f"node-{rank // 8}",
        )
        for rank in range(count)
    ]  # fmt: skip


HANGS = "Rollout generation:  98%|████| 504/512 [00:36<00:05, 8.0it/s]\n"


def test_header_headline_and_step_tell_the_step_that_does_not_end(tmp_path: Path) -> None:
    run = job(tmp_path, HANGS, 840.0, state=RunState.STUCK)
    view = build_overview(Snapshot(run), width=120, height=40)
    text = text_of(paint_overview(view, 120, 40, UNICODE)).splitlines()
    said = "step 21 open for 14 m (usually 90.0 s): generating, 8 of 512 outstanding"
    assert said in text[0]
    assert "stuck" in text[0]
    assert text[1].strip() == f"▲ stuck: {said}; look at the process"
    (bar,) = [line for line in text if "21 open: generating" in line]
    assert "│" in bar
    narrow = text_of(paint_overview(build_overview(Snapshot(run), width=80, height=24), 80, 24, UNICODE)).splitlines()
    assert "step 21 open for 14 m" in narrow[0]


def test_the_header_tells_the_limit_of_the_job_beside_the_arrival_and_what_it_has_cost(tmp_path: Path) -> None:
    ends_s = NOW_S + 6 * 3_600.0
    facts = [Job("squeue", NOW_S, "123", "RUNNING", "node[1-8]", NOW_S - 7_200.0, ends_s, gpus=64)]
    run = job(tmp_path, HANGS, 30.0, facts, total_steps=600)

    def head(width: int) -> str:
        view = build_overview(Snapshot(run), width=width, height=40)
        return text_of(paint_overview(view, width, 40, UNICODE)).splitlines()[0]

    at = clock_text(ends_s, NOW_S)
    # 240 steps in six hours at 90 s each; 19 steps on 64 devices so far.
    arrival = clock_text(NOW_S - 30.0 + 580 * 90.0, NOW_S)
    assert f"ETA {arrival}   ▲ limit {at}: stops near 260" in head(150)
    assert f"elapsed 28 m 30 s, 30.4 GPU-hours   ETA 14 h 30 m, at {arrival}" in head(200)
    assert f"▲ limit {at}" in head(80)
    run.goal = Goal(until_s=NOW_S + 3_600.0)
    assert f"limit {clock_text(NOW_S + 3_600.0, NOW_S)}: stops near 60" in head(150)


@each_row("quiet_s", [30.0, 85.0, 840.0])
def test_header_and_page_name_the_same_step_at_which_the_limit_stops_it(quiet_s: float, tmp_path: Path) -> None:
    ends_s = NOW_S + 3_670.0
    run = job(tmp_path, HANGS, quiet_s, [Job("squeue", NOW_S, "123", "RUNNING", "node", NOW_S - 7_200.0, ends_s)])
    stops = build_header(Snapshot(run), None).stops_at
    assert stops is not None
    assert f"stops near step {stops}" in text_of(
        WherePage().rows(Moment(snapshot=Snapshot(run), glyphs=UNICODE), 120, 40)
    )


def test_what_sources_call_things_is_escaped_on_the_page(tmp_path: Path) -> None:
    evil = "a\x1b]0;x\x07\u202e"
    facts: list[Fact] = [
        Process(evil, NOW_S, evil, evil, "train", NOW_S - 9.0, pid=7, host=evil, cause=evil),
        Process(evil, NOW_S, evil, state="dead", pid=8, host=evil, cause=evil),
        InferenceEngine(evil, NOW_S, evil, 8.0, trouble=evil),
        Device(evil, NOW_S, evil, evil, use=0.5, trouble=evil),
        Job(evil, NOW_S, evil, evil, evil, NOW_S - 9.0, NOW_S + 9.0, trouble=evil),
    ]
    run = job(tmp_path, f"{HANGS}{evil}\n", 840.0, facts)
    rows = WherePage().rows(Moment(snapshot=Snapshot(run), glyphs=UNICODE), 200, 60)
    pieces = [piece.text for row in rows for piece in row.line]
    assert sum("\\x1b]0;x\\x07\\u202e" in text for text in pieces) >= 9
    assert not any(char in text for text in pieces for char in "\x1b\x07\u202e")


def test_a_step_that_goes_as_usual_is_a_bar_alone(tmp_path: Path) -> None:
    run = job(tmp_path, HANGS, 66.0)
    opened = build_open(Snapshot(run))
    assert (opened.level, opened.step, opened.usual_s) == (Level.OK, 21, 90.0)
    view = build_overview(Snapshot(run), width=120, height=40)
    text = text_of(paint_overview(view, 120, 40, UNICODE)).splitlines()
    assert "step 20" in text[0]
    assert "open for" not in text[0]
    assert any("21 open: generating" in line for line in text)


@pytest.mark.parametrize(
    "settings", [{"state": RunState.FINISHED}, {"state": RunState.DIED, "failure": Label.of("OSError: x")}]
)
def test_nothing_is_open_in_a_run_that_is_over_or_at_an_earlier_step(tmp_path: Path, settings: Any) -> None:
    run = job(tmp_path, HANGS, 840.0, **settings)
    assert build_open(Snapshot(run)) is None
    assert build_open(Snapshot(job(tmp_path, HANGS, 840.0), 7)) is None
    run.whereabouts = None
    assert build_open(Snapshot(run)) is None


def test_the_page_names_the_one_that_the_others_wait_for(tmp_path: Path) -> None:
    facts = [
        *workers("update_actor", "compute_log_prob"),
        InferenceEngine("http://node-1:8000", NOW_S - 2.0, "vLLM 000", 8, 0, 0.4, 0.0, trouble="no new token for 45 s"),
        InferenceEngine("http://node-2:8000", NOW_S - 2.0, "vLLM 001", 1, 0, 0.1, 500.0),
        Device("http://node-1:9400", NOW_S - 9.0, "node-1", "0", 0.02, 60e9, 80e9, 90.0, 40.0),
        Job("squeue", NOW_S - 40.0, "123", "RUNNING", "node[1-64]", NOW_S - 7_200.0, NOW_S + 3_600.0),
    ]
    run = job(tmp_path, HANGS, 840.0, facts)
    said = build_overview(Snapshot(run), width=120, height=40).sentence.text.raw
    faults = "vLLM 000 no new token for 45 s; the others wait for 1 in compute_log_prob (training): rank 509 on node-63"
    assert said.endswith(f"training; {faults}; py-spy dump --pid 4509 on node-63 shows where it hangs")
    page = WherePage()
    lines = text_of(page.rows(Moment(snapshot=Snapshot(run), glyphs=UNICODE), 120, 40)).splitlines()
    text = "\n".join(lines)
    assert "the others wait for 1 in compute_log_prob (training): rank 509 on node-63" in text
    outside = next(at for at, line in enumerate(lines) if "compute_log_prob" in line and line.startswith(" ▲   1"))
    assert "511" in lines[outside + 1]
    assert "update_actor" in lines[outside + 1]
    engines = [line for line in lines if "vLLM 00" in line]
    assert "no new token for 45 s" in engines[0]
    for said in (
        "node-1 0",
        "2 %",
        "JOB  123",
        "limit in 1 h",
        "stops near step 61",
        "train.log",
        "504/512",
        "8265",
        "<5 s",
    ):
        assert said in text, said


@each_row("size", SIZES)
@each_row("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_no_row_is_too_wide(tmp_path: Path, size: tuple[int, int], glyphs: Any) -> None:
    hostile = [
        Process("x" * 300, NOW_S, "W\x1b[31mx" * 30, "m\n" * 90, "", NOW_S, host="h" * 300, rank=n) for n in range(9)
    ]
    run = job(tmp_path, "\x1b]0;title\x07" + "w" * 5_000 + "\n" + HANGS, 840.0, hostile)
    rows = WherePage().rows(Moment(snapshot=Snapshot(run), glyphs=glyphs), *size)
    rows = [*rows, *paint_overview(build_overview(Snapshot(run), width=size[0]), size[0], None, glyphs)]
    check_rows(rows, size[0], glyphs)


def test_five_hundred_ranks_are_grouped_and_painted_within_a_key(tmp_path: Path) -> None:
    run = job(tmp_path, HANGS, 840.0, workers("update_actor", "compute_log_prob"))
    page, moment = WherePage(), Moment(snapshot=Snapshot(run), glyphs=UNICODE)
    page.rows(moment, 120, 40)
    took = []
    for _ in range(5):
        began = time.process_time()
        page.rows(moment, 120, 40)
        took.append(time.process_time() - began)
    assert min(took) < 0.03


def test_the_page_says_what_it_waits_for(tmp_path: Path) -> None:
    run = job(tmp_path, "", 840.0)
    run.whereabouts = None
    assert "looking for the console log" in text_of(
        WherePage().rows(Moment(snapshot=Snapshot(run), glyphs=UNICODE), 80, 24)
    )
    clock, played = FakeClock(NOW_S), IngestOptions(follows_jobs=False)
    session = Session([FoundRun(run.path.raw, run.name)], lambda path, _: DirectFeed(path), clock, played)
    shown = text_of(WherePage().rows(Moment(snapshot=Snapshot(session.runs[0]), glyphs=UNICODE), 80, 24))
    assert "played back" in shown and "looking" not in shown


def test_a_job_that_tells_no_time_is_said_to_be_over_and_not_since_when() -> None:
    def said(where: JobStatus) -> str:
        return text_of(paint_where(where, Facts(), (), NOW_S, 80, UNICODE))

    text = said(JobStatus("finished", source="metrics.jsonl"))
    assert "finished" in text and "metrics.jsonl" in text
    assert "So far only" not in text
    assert "So far only" in said(JobStatus("running", source="x"))
    assert "last progress" not in text
    assert "last progress 100 s ago" in said(JobStatus("finished", source="x", moved_s=NOW_S - 100.0))
    named = said(JobStatus("finished", source="/experiments" * 9 + "/train.log", moved_s=NOW_S - 100.0))
    assert re.search(r" /exp\S+…\S+/train\.log, last progress 100 s ago$", named, re.MULTILINE)


def test_where_nothing_changes_the_overview_is_not_painted_anew(tmp_path: Path) -> None:
    run = job(tmp_path, HANGS, 840.0)
    page, moment = OverviewPage(), Moment(snapshot=Snapshot(run), glyphs=UNICODE)
    assert page.face(moment) == page.face(moment)


@given(
    elapsed=st.floats(0, 1e6), usual=st.none() | st.floats(0, 1e5), axis=st.floats(0, 1e5), width=st.integers(40, 250)
)
def test_the_bar_fits_and_its_tick_stands_where_it_is_usual(
    elapsed: float, usual: float | None, axis: float, width: int
) -> None:
    view = OpenStep(21, elapsed, usual, "generating", "8 of 512", is_stuck=False, is_unusual=False)
    text = text_of([paint_open(view, axis, 38 if width > 60 else 28, width, UNICODE)])
    assert cell_width(text) <= width
    assert ("│" in text) == bool(usual)


@each_row("phase", ["waiting for samples", "waiting for a policy version", "computing log-probabilities"])
@each_row(("width", "bar_at"), [(80, 28), (120, 38), (200, 46)])
def test_the_phase_of_the_open_step_is_not_cut(phase: str, width: int, bar_at: int) -> None:
    view = OpenStep(1_840, 840.0, 90.0, phase, "8 of 512", is_stuck=True, is_unusual=True)
    text = text_of([paint_open(view, 90.0, bar_at, width, UNICODE)])
    assert phase in text
    assert "1,840 open" in text


@examples(30)
@given(
    st.lists(
        st.builds(
            Process,
            source=st.just("s"),
            time_s=st.just(0.0),
            name=st.sampled_from(["W", "V"]),
            phase=st.sampled_from(["", "a", "b"]),
            state=st.sampled_from(["running", "idle", "dead", "unknown"]),
        ),
        max_size=30,
    )
)
def test_every_process_is_in_one_group_and_most_are_never_outside(processes: list[Process]) -> None:
    groups = grouped(processes)
    assert sum(len(group.members) for group in groups) == len(processes)
    for name in ("W", "V"):
        outside = sum(each.name == name for group in groups if group.is_outside for each in group.members)
        assert 2 * outside < max(1, sum(each.name == name for each in processes))
    dead = [at for at, group in enumerate(groups) if group.state == "dead"]
    assert dead == list(range(len(dead)))
