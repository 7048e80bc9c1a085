"""The screen in a real browser, served by textual-serve: drawn, answers keys, and ends with the page."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import BROWSER, SOON_S, Page, rgb

ROOT = Path(__file__).resolve().parents[2]
SERVER_PYTHON = os.environ.get("RLTOP_WRITERS", "")
SERVE = """
import sys
from textual_serve.server import Server
Server(sys.argv[1], host="127.0.0.1", port=int(sys.argv[2])).serve()
"""
"""As docs/screens.md has it."""
CRIT = rgb("#ff6b68")
"""Of the dark theme."""

pytestmark = pytest.mark.skipif(
    not (BROWSER and SERVER_PYTHON), reason="RLTOP_BROWSER and RLTOP_WRITERS are not set; `make live` sets them"
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = f"{sys.executable} -m rltop {ROOT / 'fixtures' / 'verl' / 'tool_slowdown'}"
    # Nothing is to follow from the terminal that the server was started in.
    environment = {**os.environ, "TERM": "dumb", "XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    with subprocess.Popen(
        [SERVER_PYTHON, "-c", SERVE, command, str(port)],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        stop = time.monotonic() + SOON_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < stop and process.poll() is None
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/", process
        process.terminate()


@pytest.fixture
def page(server: tuple[str, subprocess.Popen[bytes]], tmp_path: Path) -> Iterator[Page]:
    with contextlib.closing(Page(tmp_path / "profile")) as page:
        page.open(server[0])
        page.until_text("Quit")
        yield page


def programs_of(process: subprocess.Popen[bytes]) -> str:
    """What runs below the server, by number."""
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")


def test_the_overview_is_drawn_and_keys_work(page: Page, server: tuple[str, subprocess.Popen[bytes]]) -> None:
    page.until_text("KL to reference")
    page.until(lambda: page.colours()[CRIT] > 20)
    assert programs_of(server[1])
    page.click(1000, 9)
    page.press("?", "?")
    page.until_text("One run, from the top")
    page.press("Escape", code=27)
    page.until_text("STRAGGLERS")
    page.press("q", "q")
    page.until(lambda: not programs_of(server[1]))
    page.until(lambda: any(one.get("method") == "Network.webSocketClosed" for one in page.heard))


def test_a_page_that_is_closed_ends_the_program(page: Page, server: tuple[str, subprocess.Popen[bytes]]) -> None:
    assert programs_of(server[1])
    page.close_tab()
    page.until(lambda: not programs_of(server[1]))
