"""The terminal is as it was before, whatever happened before Textual was there."""

from __future__ import annotations

import os
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ptys import Terminal

PROGRAM = str(Path(__file__).parent / "guarded_program.py")

Start = Callable[..., Terminal]

HARMLESS = {
    signal.SIGCHLD, signal.SIGCONT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGURG, signal.SIGWINCH,
}  # fmt: skip
IGNORED_BY_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}


@pytest.fixture
def start() -> Iterator[Start]:
    terminals: list[Terminal] = []

    def begin(what: str, **environment: str) -> Terminal:
        terminals.append(Terminal.python(PROGRAM, what, **environment))
        return terminals[-1]

    yield begin
    for terminal in terminals:
        terminal.close()


def test_the_early_frame_is_drawn_and_the_terminal_is_quiet(start: Start) -> None:
    terminal = start("hold")
    terminal.until_text("early 80x22")
    terminal.until(lambda: b"2026h" in terminal.output)
    assert terminal.modes.keys() >= {"1049", "25"}
    assert not terminal.settings[3] & (termios.ECHO | termios.ICANON)


def test_leaving_normally(start: Start) -> None:
    terminal = start("leave")
    assert terminal.wait() == 0
    terminal.assert_untouched()


def test_leaving_while_the_screen_is_being_taken(start: Start) -> None:
    terminal = start("again")
    assert terminal.wait() == 0
    terminal.assert_untouched()


def test_an_exception_shows_its_traceback_on_the_main_screen(start: Start) -> None:
    terminal = start("raise")
    assert terminal.wait() == 1
    terminal.assert_untouched()
    after = terminal.output.split(b"\x1b[?1049l")[-1]
    assert b"something broke" in after


ENDING = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP} - HARMLESS)


def test_every_signal_is_one_that_ends_or_one_that_does_not() -> None:
    assert {signal.SIGUSR1, signal.SIGALRM, signal.SIGXCPU, signal.SIGIO, signal.SIGRTMAX, signal.SIGSEGV} <= set(
        ENDING
    )


# Those that mean something to a shell, to Python or to the warden, and the last of each kind.
@pytest.mark.parametrize(
    "number",
    [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGABRT, signal.SIGUSR1, signal.SIGSEGV, signal.SIGPIPE,
     signal.SIGTERM, signal.SIGXFSZ, signal.SIGSYS, signal.SIGRTMAX],
)  # fmt: skip
def test_a_signal_between_early_frame_and_textual(start: Start, number: int) -> None:
    terminal = start("hold")
    terminal.until(lambda: b"2026h" in terminal.output)
    warden = warden_of(terminal)
    terminal.kill(number)
    if number in IGNORED_BY_PYTHON:
        terminal.kill(signal.SIGTERM)
        number = signal.SIGTERM
    assert terminal.wait() == -number
    until_gone(terminal, warden)
    terminal.assert_untouched()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_an_end_that_nothing_can_answer_in_a_job_that_was_told_more(start: Start, number: int) -> None:
    terminal = start("hold")
    terminal.until(lambda: b"2026h" in terminal.output)
    warden = warden_of(terminal)
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGUSR1):
        # As `pkill rltop` does, which means both of them.
        os.kill(warden, ignored)
    terminal.until(lambda: Path(f"/proc/{warden}/comm").read_text() == "warden\n", what="a name of its own")
    terminal.kill(number)
    assert terminal.wait() == -number
    until_gone(terminal, warden)
    terminal.assert_untouched()


@pytest.mark.parametrize(("what", "number"), [("abort", signal.SIGABRT), ("fault", signal.SIGSEGV)])
def test_a_crash(start: Start, what: str, number: int) -> None:
    terminal = start(what)
    assert terminal.wait() == -number
    terminal.until(lambda: terminal.modes == {} and terminal.settings == terminal.before, what="the terminal as it was")


def test_an_end_that_nothing_can_answer_where_there_is_no_proc() -> None:
    hidden = f"mount -t tmpfs none /proc && exec {sys.executable} {PROGRAM} hold"
    terminal = Terminal(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", hidden])
    try:
        terminal.until(lambda: b"2026h" in terminal.output or terminal.process.poll() is not None)
        if b"2026h" not in terminal.output:
            pytest.skip("no namespace of its own here")
        terminal.kill(signal.SIGKILL)
        assert terminal.wait() == -signal.SIGKILL
        terminal.until(
            lambda: terminal.modes == {} and terminal.settings == terminal.before, what="the terminal as it was"
        )
    finally:
        terminal.close()


def test_a_hang_up_that_is_ignored_stays_so() -> None:
    terminal = Terminal(["sh", "-c", f"trap '' HUP USR1; exec {sys.executable} {PROGRAM} hold"])
    try:
        terminal.until(lambda: b"2026h" in terminal.output)
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGTERM):
            terminal.kill(number)
        assert terminal.wait() == -signal.SIGTERM
        terminal.assert_untouched()
    finally:
        terminal.close()


def test_nothing_is_left_running_after_a_normal_end(start: Start) -> None:
    terminal = start("hold")
    terminal.until_text("early")
    warden = warden_of(terminal)
    terminal.quit("q")
    assert not Path(f"/proc/{warden}").exists()


def warden_of(terminal: Terminal) -> int:
    """The process that waits for the end of the program."""
    pid = terminal.process.pid
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


def until_gone(terminal: Terminal, pid: int) -> None:
    terminal.until(lambda: not Path(f"/proc/{pid}").exists() or is_zombie(pid), what="the end of the warden")


def is_zombie(pid: int) -> bool:
    """Ended, in a container whose first process does not ask for its children."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_program_that_does_not_leave_when_asked_is_ended(start: Start) -> None:
    terminal = start("stubborn")
    terminal.until(lambda: b"2026h" in terminal.output)
    terminal.kill(signal.SIGTERM)
    assert terminal.wait() == 128 + signal.SIGTERM
    terminal.assert_untouched()


def test_a_second_signal_does_not_wait(start: Start) -> None:
    terminal = start("stubborn")
    terminal.until(lambda: b"2026h" in terminal.output)
    terminal.kill(signal.SIGTERM)
    terminal.kill(signal.SIGINT)
    assert terminal.wait() in {-signal.SIGTERM, -signal.SIGINT}
    terminal.assert_untouched()


def test_a_hung_read_does_not_hold_the_frame(start: Start) -> None:
    terminal = start("hung")
    terminal.until_text("reading …")
    terminal.press("\x03")
    assert terminal.wait() == -signal.SIGINT
    terminal.assert_untouched()


def test_typed_keys_wait_for_whoever_reads_next(start: Start) -> None:
    terminal = start("take")
    terminal.until_text("early")
    terminal.press("jk\x1b[B\r\x1aq")
    terminal.until_text(f"typed {b'jk'.hex()}1b{b'[B'.hex()}0d")
    flags = termios.tcgetattr(terminal.slave)
    assert not flags[0] & termios.ICRNL
    os.set_blocking(terminal.slave, False)
    assert os.read(terminal.slave, 10) == b"\x1aq"


@pytest.mark.parametrize("what", ["hold", "hung"])
def test_early_keys_quit(start: Start, what: str) -> None:
    terminal = start(what)
    terminal.until_text("early" if what == "hold" else "reading …")
    terminal.press("jkq")
    if what == "hung":
        # Whoever would look at the keys is at work on the rows: they wait for Textual, as Ctrl-C does not.
        terminal.press("\x03")
        assert terminal.wait() == -signal.SIGINT
    else:
        assert terminal.wait() == 0
    terminal.assert_untouched()


def test_output_and_errors_may_go_elsewhere(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = f"exec {sys.executable} {PROGRAM} hold 2>{log} </dev/null"
    terminal = Terminal(["sh", "-c", command])
    try:
        terminal.until_text("early 80x22")
        terminal.kill(signal.SIGTERM)
        terminal.wait()
        terminal.assert_untouched()
        assert log.read_bytes() == b""
    finally:
        terminal.close()


def test_without_24_bit_colours_the_cube_is_used(start: Start) -> None:
    terminal = start("hold", COLORTERM="")
    terminal.until_text("early")
    assert b"38;5;" in terminal.output
    assert b"38;2;" not in terminal.output
