"""Wake-ups where they can be had, and a reason where they cannot."""

from __future__ import annotations

import errno
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from fake_filesystem import os_error
from ptys import PATIENCE_S

from rltop.sources.watch import MOST_FOLDERS, Watcher

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify is Linux's")


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    made = Watcher()
    yield made
    made.close()


def until_still(woken: threading.Event) -> None:
    """Wait until the last that the kernel has to tell of a change has come."""
    while woken.is_set():
        woken.clear()
        woken.wait(0.5)


def test_a_change_wakes_and_reading_does_not(tmp_path: Path, watcher: Watcher) -> None:
    woken = threading.Event()
    assert watcher.wake_on_change(str(tmp_path), lambda paths: woken.set())
    (tmp_path / "f").write_bytes(b"one\n")
    assert woken.wait(PATIENCE_S)
    until_still(woken)
    for _ in range(20):
        (tmp_path / "f").read_bytes()
    assert not woken.wait(0.2)


def test_a_replaced_file_still_wakes(tmp_path: Path, watcher: Watcher) -> None:
    (tmp_path / "f").write_bytes(b"one\n")
    woken = threading.Event()
    watcher.wake_on_change(str(tmp_path), lambda paths: woken.set())
    (tmp_path / "g").write_bytes(b"two\n")
    (tmp_path / "g").rename(tmp_path / "f")
    assert woken.wait(PATIENCE_S)
    until_still(woken)
    with (tmp_path / "f").open("ab") as file:
        file.write(b"three\n")
    assert woken.wait(PATIENCE_S)


def test_a_folder_made_again_is_watched_again(tmp_path: Path, watcher: Watcher) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    keep = tmp_path / "keep"
    woken = threading.Event()
    assert watcher.wake_on_change(str(folder), lambda paths: woken.set())
    folder.rename(keep)
    folder.mkdir()
    assert watcher.wake_on_change(str(folder), lambda paths: woken.set())
    woken.clear()
    (folder / "f").write_bytes(b"one\n")
    assert woken.wait(PATIENCE_S)


def test_the_paths_of_a_change_are_told(tmp_path: Path, watcher: Watcher) -> None:
    told: list[str] = []
    both = threading.Event()

    def note(paths: Sequence[str]) -> None:
        told.extend(paths)
        if {str(tmp_path / "f"), str(tmp_path / "g")} <= set(told):
            both.set()

    watcher.wake_on_change(str(tmp_path), note)
    (tmp_path / "g").write_bytes(b"two\n")
    (tmp_path / "g").rename(tmp_path / "f")
    assert both.wait(PATIENCE_S), told


def test_a_missing_folder_has_a_reason(tmp_path: Path, watcher: Watcher) -> None:
    assert not watcher.wake_on_change(str(tmp_path / "no"), lambda paths: None)
    assert "No such file" in watcher.reason
    assert watcher.wake_on_change(str(tmp_path), lambda paths: None)
    assert watcher.reason == ""


def test_no_more_inotify_instances_is_no_disaster(
    tmp_path: Path, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise os_error(errno.EMFILE)

    monkeypatch.setattr("watchdog.observers.inotify.InotifyObserver.__init__", refuse)
    assert not watcher.wake_on_change(str(tmp_path), lambda paths: None)
    assert "Too many open files" in watcher.reason


def test_a_closed_watcher_watches_nothing(tmp_path: Path, watcher: Watcher) -> None:
    assert watcher.wake_on_change(str(tmp_path), lambda paths: None)
    watcher.close()
    assert not watcher.wake_on_change(str(tmp_path), lambda paths: None)


def test_of_many_folders_only_the_first_are_watched(tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(MOST_FOLDERS + 2)]
    for folder in folders:
        folder.mkdir()
    watcher = Watcher()
    try:
        watched = [watcher.wake_on_change(str(folder), lambda paths: None) for folder in folders]
        assert watched == [True] * MOST_FOLDERS + [False] * 2
        assert "already watching" in watcher.reason
        assert watcher.wake_on_change(str(folders[0]), lambda paths: None)
    finally:
        watcher.close()
