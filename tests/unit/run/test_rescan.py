"""What appears while a directory is followed."""

from __future__ import annotations

import json
import sys
import threading
import types

import pytest
import zstandard

from rltop.clock import Clock, FakeClock
from rltop.run.discover import FirstScan, Rescanner, discover, run_being_sought
from rltop.run.session import Session
from rltop.run.sniff import sniff
from rltop.sources.feed import DirectFeed
from tests.binary_files import block_log, history, run_record
from tests.run_folders import trinity, write_events


def rows(path, first=1, last=40):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"step": i, "loss": 1.0 / i}) + "\n" for i in range(first, last + 1)))
    return path


class Follower:
    """A session over a directory that is looked at again when asked."""

    def __init__(self, folder):
        self.clock = FakeClock()
        found = discover([str(folder)]).found
        self.rang = 0
        self.scanner = Rescanner([str(folder)], found, self.clock, self._ring)
        self.session = Session(found, lambda path, lines: DirectFeed(path, clock=self.clock, last=lines), self.clock)
        self.session.take_rescan = self.scanner.take
        self.read()

    def _ring(self):
        self.rang += 1

    def read(self):
        while self.session.step(1_000.0):
            self.clock.advance(1.0)
        self.clock.advance(1.0)
        while self.session.step(1_000.0):
            pass

    def look(self):
        self.scanner.look()
        self.read()

    @property
    def runs(self):
        return {str(run.name): run for run in self.session.runs}


def test_a_run_that_appears_is_followed_and_those_there_keep_their_places(tmp_path):
    rows(tmp_path / "a" / "metrics.jsonl")
    follower = Follower(tmp_path)
    first = follower.session.runs[0]
    rows(tmp_path / "b" / "metrics.jsonl", last=7)
    follower.look()
    assert follower.session.runs[0] is first
    assert follower.runs["b"].main.stream.rows == 7


def test_a_look_that_finds_nothing_new_rings_no_bell_and_opens_nothing(tmp_path, monkeypatch):
    path = rows(tmp_path / "a" / "metrics.jsonl")
    follower = Follower(tmp_path)
    follower.look()
    monkeypatch.setattr("rltop.run.discover.sniff", None)
    rows(path, last=60)
    follower.look()
    assert follower.rang == 0
    assert follower.session.runs[0].main.stream.last_step == 60


def test_a_file_without_metrics_is_judged_again_when_it_has_grown(tmp_path):
    rows(tmp_path / "a" / "metrics.jsonl")
    log = tmp_path / "b" / "train.log"
    log.parent.mkdir()
    log.write_text("loading\n")
    follower = Follower(tmp_path)
    follower.look()
    assert len(follower.session.runs) == 1
    log.write_text("loading\n" + "".join(f"step:{i} - loss:0.5 - reward:1.0\n" for i in range(1, 30)))
    follower.look()
    assert len(follower.session.runs) == 2


def test_the_event_file_of_a_restart_goes_on_where_the_last_one_ended(tmp_path):
    folder = tmp_path / "job" / "tb"
    write_events(folder, [(i, 1.7e9 + i, {"loss": 1.0 / i}) for i in range(1, 31)], begun_s=1_700_000_000)
    follower = Follower(tmp_path)
    run = follower.session.runs[0]
    write_events(folder, [(i, 1.7e9 + 50 + i, {"loss": 2.0 / i}) for i in range(21, 51)], begun_s=1_700_000_100)
    follower.look()
    assert follower.session.runs == [run]
    assert (run.main.stream.last_step, list(run.main.stream.restarts)) == (50, [21])


def test_a_stream_that_appears_joins_its_run(tmp_path):
    whole = trinity(tmp_path / "whole", steps=10)
    folder = tmp_path / "job" / "monitor" / "tensorboard"
    folder.mkdir(parents=True)
    (whole / "monitor/tensorboard/explorer").rename(folder / "explorer")
    follower = Follower(tmp_path / "job")
    assert [run.main.stream.last_step for run in follower.session.runs] == [15]
    (whole / "monitor/tensorboard/trainer").rename(folder / "trainer")
    follower.look()
    (run,) = follower.session.runs
    assert (run.main.stream.name, run.main.stream.last_step) == ("trainer", 10)
    assert [(part.role, part.stream.last_step) for part in run.other_streams] == [("explorer", 15)]


def test_the_link_to_the_latest_run_is_followed_when_it_is_pointed_elsewhere(tmp_path):
    first, second = (rows(tmp_path / name / f"{name}.jsonl", last=last) for name, last in (("one", 10), ("two", 20)))
    link = tmp_path / "latest-run"
    link.symlink_to(first.parent)
    follower = Follower(link)
    assert [str(run.name) for run in follower.session.runs] == ["one"]
    link.unlink()
    link.symlink_to(second.parent)
    follower.look()
    assert [(str(run.name), run.main.stream.last_step) for run in follower.session.runs] == [("two", 20)]


def test_a_directory_that_is_gone_is_no_news(tmp_path):
    path = rows(tmp_path / "a" / "metrics.jsonl")
    follower = Follower(tmp_path / "a")
    path.unlink()
    path.parent.rmdir()
    follower.look()
    assert follower.rang == 0
    assert len(follower.session.runs) == 1


def test_streams_whose_runs_are_named_late_become_one_run(tmp_path):
    home = tmp_path / "job"
    files = {}
    for role, run_id in (("explorer", "aaaaaaaa"), ("trainer", "bbbbbbbb")):
        folder = home / "wandb" / f"offline-run-20260101_10000{len(files)}-{run_id}"
        folder.mkdir(parents=True)
        rows_of_it = [history({"_step": i, "reward": 0.5, "loss": 0.1}) for i in range(1, 6)]
        files[folder / f"run-{run_id}.wandb"] = block_log(run_record({}, f"job_{role}"), *rows_of_it)
    for path, data in files.items():
        path.write_bytes(data[:7])
    follower = Follower(tmp_path)
    before = list(follower.session.runs)
    assert len(before) == 2
    for path, data in files.items():
        path.write_bytes(data)
    follower.look()
    (run,) = follower.session.runs
    assert {one.replaced_by for one in before} == {run}
    assert (run.main.stream.name, run.main.stream.last_step) == ("trainer", 5)
    assert [(part.role, part.stream.last_step) for part in run.other_streams] == [("explorer", 5)]


def test_a_log_that_is_compressed_meanwhile_keeps_no_new_run_from_appearing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    first = rows(tmp_path / "a" / "metrics.jsonl")
    follower = Follower(tmp_path)
    packed = first.with_name("metrics.jsonl.1.zst")
    packed.write_bytes(zstandard.ZstdCompressor().compress(first.read_bytes()))
    first.write_text("")
    rows(tmp_path / "b" / "metrics.jsonl", last=7)
    follower.look()
    assert follower.runs["b"].main.stream.rows == 7
    ((path, reason),) = follower.scanner.left_out
    assert path == str(packed)
    assert "zstandard cannot be imported" in reason


def test_what_was_left_out_rings_once_and_is_read_when_it_can_be(tmp_path):
    rows(tmp_path / "a" / "metrics.jsonl")
    follower = Follower(tmp_path)
    link = tmp_path / "b" / "metrics.jsonl"
    link.parent.mkdir()
    link.symlink_to("later.jsonl")
    follower.look()
    follower.look()
    assert (follower.rang, follower.scanner.left_out) == (1, [(str(link), "broken symlink")])
    rows(link.with_name("later.jsonl")).rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").rename(link)
    follower.look()
    assert "b" in follower.runs
    assert follower.scanner.left_out == []


def test_a_file_that_vanishes_during_the_look_is_no_gap(tmp_path, monkeypatch):
    rows(tmp_path / "a" / "metrics.jsonl")
    going = rows(tmp_path / "b" / "metrics.jsonl")

    def late(path, **options):
        if path == str(going):
            going.unlink()
        return sniff(path, **options)

    monkeypatch.setattr("rltop.run.discover.sniff", late)
    found = discover([str(tmp_path)])
    assert [str(each.name) for each in found.found] == ["a"]
    assert found.left_out == []
    assert found.passed_over == [(str(going), "deleted since the directory was listed")]


class Slowly:
    """Makes every look into a file wait to be let through."""

    def __init__(self, monkeypatch):
        self.gate = threading.Semaphore(0)
        monkeypatch.setattr("rltop.run.discover.sniff", self._sniff)

    def _sniff(self, path, **options):
        self.gate.acquire()
        return sniff(path, **options)

    def let_through(self, count, look):
        before = look.so_far.opened
        self.gate.release(count)
        for _ in range(1_000):
            if look.so_far.opened >= before + count or look.worker.join(0.001):
                return


def test_a_first_look_that_takes_long_says_how_far_it_is_and_goes_on(tmp_path, monkeypatch):
    slowly = Slowly(monkeypatch)
    for i in range(5):
        rows(tmp_path / f"r{i}" / "metrics.jsonl")
    monkeypatch.setattr("rltop.run.discover.PROGRESS_S", 0.02)
    look = FirstScan([str(tmp_path)], Clock())
    assert not look.worker.join(0.01)
    found = [run_being_sought([str(tmp_path)], look.so_far)]
    has_news = threading.Event()
    scanner = Rescanner([str(tmp_path)], found, Clock(), has_news.set, first=look)
    session = Session(found, lambda path, lines: DirectFeed(path, last=lines), Clock())
    session.take_rescan = scanner.take
    slowly.let_through(3, look)
    scanner.start()
    for _ in range(200):
        has_news.wait(0.05)
        has_news.clear()
        session.step(10.0)
        if "3 files read" in session.runs[0].main.state_note:
            break
    assert f"scanning {tmp_path}" in session.runs[0].main.state_note
    assert "3 files read" in session.runs[0].main.state_note
    has_news.clear()
    slowly.let_through(2, look)
    for _ in range(200):
        if len(session.runs) == 5:
            break
        has_news.wait(0.05)
        has_news.clear()
        session.step(10.0)
    scanner.close()
    session.drain()
    assert [run.main.stream.last_step for run in session.runs] == [40] * 5


def test_a_look_without_an_answer_is_said_to_have_none(tmp_path, monkeypatch):
    slowly = Slowly(monkeypatch)
    rows(tmp_path / "a" / "metrics.jsonl")
    clock = FakeClock()
    look = FirstScan([str(tmp_path)], clock)
    assert not look.worker.join(0.05)
    assert look.silent_s == 0.0
    clock.advance(12.0)
    assert look.silent_s == 12.0
    assert "no answer from the file system for 12 s" in run_being_sought(["x"], look.so_far, look.silent_s).awaits
    slowly.let_through(1, look)
    assert look.worker.join(5.0)
    assert look.silent_s == 0.0
    assert len(look.result().found) == 1


def test_a_slow_look_at_a_file_that_is_not_there_goes_on_until_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr("rltop.run.discover.AWAITED_S", 0.01)
    path = tmp_path / "metrics.jsonl"
    look = FirstScan([str(path)], Clock())
    has_news = threading.Event()
    found = [run_being_sought([str(path)], look.so_far)]
    scanner = Rescanner([str(path)], found, Clock(), has_news.set, first=look)
    session = Session(found, lambda path, lines: DirectFeed(path, last=lines), Clock())
    session.take_rescan = scanner.take
    scanner.start()
    for _ in range(200):
        has_news.wait(0.05)
        has_news.clear()
        session.step(10.0)
        if "nothing at" in session.runs[0].main.state_note:
            rows(path)
        if not session.runs[0].main.is_awaited:
            break
    scanner.close()
    session.drain()
    assert [run.main.stream.last_step for run in session.runs] == [40]


def test_a_fault_in_looking_again_shows_and_ends_nothing(tmp_path, monkeypatch):
    rows(tmp_path / "a" / "metrics.jsonl")
    follower = Follower(tmp_path)
    monkeypatch.setattr("rltop.run.grouping.group", None)
    follower.look()
    assert follower.rang == 1
    assert "rescan failed: TypeError" in follower.scanner.left_out[0][0]


@pytest.mark.parametrize(("runs", "least_s", "most_s"), [(5, 10.0, 10.0), (100, 20.0, 40.0)])
def test_few_names_are_looked_at_again_soon_however_busy_the_machine_is(tmp_path, monkeypatch, runs, least_s, most_s):
    for i in range(runs):
        rows(tmp_path / f"run{i}" / "metrics.jsonl", last=2)
    clock, waits, is_over = FakeClock(), [], threading.Event()

    def slow(paths, seen):
        clock.advance(1.0)
        return discover(paths, seen)

    def wait(timeout_s):
        waits.append(timeout_s)
        if len(waits) > 2:
            is_over.set()
        return is_over.is_set()

    found = discover([str(tmp_path)]).found
    monkeypatch.setattr("rltop.run.discover.discover", slow)
    with monkeypatch.context() as patched:
        patched.setattr("rltop.run.discover.threading.Event", lambda: types.SimpleNamespace(wait=wait, set=is_over.set))
        scanner = Rescanner([str(tmp_path)], found, clock, lambda: None)
    scanner.start()
    assert is_over.wait(30.0)
    assert least_s <= waits[-1] <= most_s
