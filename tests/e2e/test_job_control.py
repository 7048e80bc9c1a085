"""Ctrl-Z and fg, bg, kill -STOP: the shell gets its terminal, and the screen comes back whole."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from ptys import Terminal

from rltop import resources

PROGRAM = str(Path(__file__).parent / "program.py")
RECORDED = str(resources.folder("fixtures") / "verl" / "tool_slowdown" / "metrics.jsonl")
OPEN, FOOTER, PROMPT = "veRL", "Quit", "ready>"
ALERTS = "Alerts"
"""In the footer once a run that has some has been read."""
SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "dash": ["dash", "-i"],
}
OF_THE_SHELL = "2004"
"""Bracketed paste, which bash turns on at its prompt and off for a command."""


class Job:
    """The program as a job of an interactive shell."""

    def __init__(self, shell: Sequence[str], folder: Path, what: str = "plain") -> None:
        self.terminal = Terminal(
            shell, width=120, height=40, PS1=PROMPT + " ", ENV="", XDG_CONFIG_HOME=str(folder), HOME=str(folder)
        )
        self.terminal.until_text(PROMPT)
        # A shell that edits lines takes the keys a moment after it has printed its prompt.
        self.terminal.until_still(0.2)
        self.at_prompt = self.terminal.settings
        self.type(f"{sys.executable} {PROGRAM} {what} {RECORDED}")
        self.terminal.until(lambda: b"\x1b[?1049h" in self.terminal.output)
        self.pid = children(self.terminal.process.pid)[0]

    def type(self, command: str) -> None:
        # Return is not translated where the shell has found the terminal as it was left.
        self.terminal.press(command + "\n")

    @property
    def modes(self) -> dict[str, bool]:
        return {mode: is_on for mode, is_on in self.terminal.modes.items() if mode != OF_THE_SHELL}

    def is_drawn(self) -> bool:
        return all(text in self.terminal.text for text in (OPEN, FOOTER)) and PROMPT not in self.terminal.text

    def until_drawn(self) -> None:
        self.terminal.until(self.is_drawn, what="the whole screen")

    def until_stopped(self) -> None:
        prompts = self.terminal.output.count(PROMPT.encode())
        self.terminal.until(lambda: state(self.pid) == "T", what="the program to stop")
        self.terminal.until(lambda: self.terminal.output.count(PROMPT.encode()) > prompts, what="the shell")

    def suspend(self) -> None:
        self.terminal.press("\x1a")
        self.until_stopped()
        assert self.modes == {}
        assert OPEN not in self.terminal.text
        self.until_at_prompt()

    def quit(self) -> None:
        prompts = self.terminal.output.count(PROMPT.encode())
        self.terminal.press("q")
        # The old prompt is in sight again as soon as the screen has been left: the next one is waited for.
        self.terminal.until(lambda: self.terminal.output.count(PROMPT.encode()) > prompts, what="the shell")
        self.type("echo code=$?")
        self.terminal.until_text("code=0")
        assert self.modes == {}
        self.until_at_prompt()

    def until_at_prompt(self) -> None:
        self.terminal.until(lambda: self.terminal.settings == self.at_prompt, what="the settings of the prompt")


Start = Callable[..., Job]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    jobs: list[Job] = []

    def begin(shell: str = "bash", what: str = "plain") -> Job:
        if shutil.which(shell) is None:
            pytest.skip(f"there is no {shell}")
        jobs.append(Job(SHELLS[shell], tmp_path, what))
        return jobs[-1]

    yield begin
    for job in jobs:
        if Path(f"/proc/{job.pid}").exists():
            os.kill(job.pid, signal.SIGKILL)
        job.terminal.close()


@pytest.mark.parametrize("shell", SHELLS)
def test_ctrl_z_gives_the_terminal_back_and_fg_draws_the_whole_screen(start: Start, shell: str) -> None:
    job = start(shell)
    job.until_drawn()
    job.terminal.until(lambda: ALERTS in job.terminal.text.splitlines()[-1], what="the keys of what has been found")
    job.terminal.until_still(0.4)
    seen = job.terminal.text.splitlines()[-1]
    held = set(job.modes.items())
    for _ in range(2):
        job.suspend()
        job.type("fg")
        job.until_drawn()
        job.terminal.until(lambda: job.terminal.text.splitlines()[-1] == seen, what="the footer")
        job.terminal.until(lambda: set(job.modes.items()) == held, what="mouse, paste, keyboard")
    job.quit()


def test_bg_stops_the_job_again_and_a_resize_meanwhile_is_seen(start: Start) -> None:
    job = start()
    job.until_drawn()
    job.suspend()
    job.type("bg")
    job.terminal.until(lambda: b"metrics.jsonl &" in job.terminal.output, what="the shell's answer")
    job.terminal.until_still(0.2)
    assert state(job.pid) == "T"
    assert job.modes == {}
    job.terminal.resize(90, 30)
    job.type("fg")
    job.until_drawn()
    job.terminal.until(lambda: FOOTER in job.terminal.text.splitlines()[29], what="a footer in the last of 30 lines")
    job.quit()


@pytest.mark.parametrize("delay_s", [0.0, 0.2])
def test_ctrl_z_at_any_moment_of_the_start(start: Start, delay_s: float) -> None:
    job = start()
    time.sleep(delay_s)
    job.suspend()
    job.type("fg")
    job.until_drawn()
    assert state(job.pid) != "T"
    job.quit()


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_a_stop_that_nobody_announced(start: Start, shell: str) -> None:
    job = start(shell)
    job.until_drawn()
    # A second after the start the threads begin that no first frame needs.
    job.terminal.until_still(1.5)
    held, threads = set(job.modes.items()), thread_count(job.pid)
    for is_continued in (True, False):
        os.kill(job.pid, signal.SIGSTOP)
        job.until_stopped()
        if is_continued:
            # In the background it stops again, and leaves the terminal alone.
            os.kill(job.pid, signal.SIGCONT)
            job.terminal.until_still(0.2)
            assert state(job.pid) == "T" and PROMPT in job.terminal.text
        job.type("fg")
        job.until_drawn()
        job.terminal.until(lambda: set(job.modes.items()) == held, what="mouse, paste, keyboard")
        assert thread_count(job.pid) <= threads + 1
    job.quit()


def test_stops_without_a_shell_lose_no_key_start_no_threads_and_leave_the_screen_whole(tmp_path: Path) -> None:
    terminal = Terminal.python(PROGRAM, "plain", RECORDED, width=120, height=40, XDG_CONFIG_HOME=str(tmp_path))
    try:
        terminal.until_text(FOOTER)
        # A second after the start the threads begin that no first frame needs.
        terminal.until_still(1.5)
        threads = thread_count(terminal.process.pid)
        for tenths_of_ms in range(0, 600, 120):
            for shown in ("Where metrics are listed", OPEN):
                terminal.kill(signal.SIGSTOP)
                terminal.until(lambda: state(terminal.process.pid) == "T")
                terminal.kill(signal.SIGCONT)
                time.sleep(tenths_of_ms / 10_000)
                terminal.press("?")
                terminal.until(lambda shown=shown: shown in terminal.text, what=f"{shown} {tenths_of_ms}")  # type: ignore[misc]
        # As schedulers stop a whole session: nobody presses a key.
        for _ in range(2):
            terminal.kill(signal.SIGSTOP)
            terminal.until(lambda: state(terminal.process.pid) == "T")
            terminal.screen.reset()
            terminal.kill(signal.SIGCONT)
            terminal.until(lambda: OPEN in terminal.text and FOOTER in terminal.text)
            assert thread_count(terminal.process.pid) <= threads + 1
        # Nobody could continue it: Ctrl-Z stops nothing.
        shown_times = terminal.output.count(b"\x1b[?1049h")
        terminal.press("\x1a")
        terminal.until(lambda: terminal.output.count(b"\x1b[?1049h") > shown_times, what="the screen again")
        terminal.until_text(FOOTER)
        assert state(terminal.process.pid) != "T"
        terminal.quit("q")
    finally:
        terminal.close()


def test_a_stop_from_elsewhere_while_textual_is_imported(start: Start, tmp_path: Path) -> None:
    job = start(what="slow-import")
    job.terminal.until_text(OPEN)
    os.kill(job.pid, signal.SIGTSTP)
    job.until_stopped()
    assert job.modes == {}
    job.type("fg")
    job.terminal.until_text(OPEN)
    assert FOOTER not in job.terminal.text
    (tmp_path / "may-import").touch()
    job.until_drawn()
    job.quit()


def test_a_stopped_job_that_is_told_to_end_ends(start: Start) -> None:
    job = start()
    job.until_drawn()
    os.kill(job.pid, signal.SIGSTOP)
    job.until_stopped()
    job.type("kill %1")
    job.terminal.until(lambda: not Path(f"/proc/{job.pid}").exists(), what="its end")
    job.terminal.until(lambda: job.modes == {}, what="the modes of the shell")


def state(pid: int) -> str:
    """The kernel's letter for what a process is doing."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def thread_count(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))
