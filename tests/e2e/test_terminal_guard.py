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


def test_an_exception_shows_its_traceback_on_the_main_screen(start: Start) -> None:
    terminal = start("raise")
    assert terminal.wait() == 1
    terminal.assert_untouched()
    after = terminal.output.split(b"\x1b[?1049l")[-1]
    assert b"something broke" in after


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_between_early_frame_and_textual(start: Start, number: int) -> None:
    terminal = start("hold")
    terminal.until(lambda: b"2026h" in terminal.output)
    terminal.kill(number)
    assert terminal.wait() == -number
    terminal.assert_untouched()


def test_ctrl_c_between_early_frame_and_textual(start: Start) -> None:
    terminal = start("hold")
    terminal.until_text("early")
    terminal.press("\x03")
    assert terminal.wait() == -signal.SIGINT
    terminal.assert_untouched()


def test_a_program_that_does_not_leave_when_asked_is_ended(start: Start) -> None:
    terminal = start("stubborn")
    terminal.until(lambda: b"2026h" in terminal.output)
    terminal.kill(signal.SIGTERM)
    assert terminal.wait(timeout_s=5) == 128 + signal.SIGTERM
    terminal.assert_untouched()


def test_a_second_signal_does_not_wait(start: Start) -> None:
    terminal = start("stubborn")
    terminal.until(lambda: b"2026h" in terminal.output)
    terminal.kill(signal.SIGTERM)
    terminal.kill(signal.SIGINT)
    assert terminal.wait(timeout_s=5) in {-signal.SIGTERM, -signal.SIGINT}
    terminal.assert_untouched()


def test_a_hung_read_does_not_hold_the_frame(start: Start) -> None:
    terminal = start("hung")
    terminal.until_text("reading …", timeout_s=5)
    terminal.press("\x03")
    assert terminal.wait(timeout_s=5) == -signal.SIGINT
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
        assert terminal.wait(timeout_s=5) == -signal.SIGINT
    else:
        assert terminal.wait(timeout_s=5) == 0
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
