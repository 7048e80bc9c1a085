"""A headless Chromium to open pages, click, type, and read pixels."""

from __future__ import annotations

import base64
import json
import os
import re
import select
import struct
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyte
from ptys import Screen

BROWSER = os.environ.get("RLTOP_BROWSER", "")
"""Path of the browser; `make live` sets it."""
SOON_S = 40.0

_LAUNCHER = """
import fcntl, os, sys
for number, pipe in enumerate([fcntl.fcntl(int(one), fcntl.F_DUPFD, 10) for one in sys.argv[1:3]], 3):
    os.dup2(pipe, number)
os.execvp(sys.argv[3], sys.argv[3:])
"""
"""The browser reads commands on descriptor 3 and answers on 4."""

Colour = tuple[int, int, int]


def pixels_of(data: bytes) -> list[list[Colour]]:
    """The rows of a PNG with eight bits per channel."""
    chunks: dict[bytes, bytes] = {}
    at = 8
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        chunks[kind] = chunks.get(kind, b"") + data[at + 8 : at + 8 + size]
        at += 12 + size
    width, height, depth, colour_type = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert depth == 8
    step = {2: 3, 6: 4}[colour_type]
    raw, stride = zlib.decompress(chunks[b"IDAT"]), width * step
    before, rows = bytearray(stride), []
    for number in range(height):
        start = number * (stride + 1)
        line = _unfiltered(raw[start], bytearray(raw[start + 1 : start + 1 + stride]), before, step)
        rows.append([(line[x], line[x + 1], line[x + 2]) for x in range(0, stride, step)])
        before = line
    return rows


def _unfiltered(kind: int, line: bytearray, above: bytearray, step: int) -> bytearray:
    for x in range(len(line)):
        left = line[x - step] if x >= step else 0
        corner = above[x - step] if x >= step else 0
        match kind:
            case 1:
                line[x] = (line[x] + left) & 255
            case 2:
                line[x] = (line[x] + above[x]) & 255
            case 3:
                line[x] = (line[x] + (left + above[x]) // 2) & 255
            case 4:
                guess = left + above[x] - corner
                nearest = min((left, above[x], corner), key=lambda one: abs(guess - one))
                line[x] = (line[x] + nearest) & 255
    return line


def rgb(colour: str) -> Colour:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


class Page:
    """A page in a headless browser, controlled through a pair of pipes.

    Attributes:
        screen: what the page was sent to draw.
        heard: unsolicited messages of the browser.
    """

    def __init__(self, profile: Path) -> None:
        theirs, self._to = os.pipe()
        self._from, ours = os.pipe()
        command = [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
            f"--user-data-dir={profile}", "--proxy-server=127.0.0.1:9", "--window-size=1280,800",
            "--remote-debugging-pipe", "about:blank",
        ]  # fmt: skip
        self._browser = subprocess.Popen(
            [sys.executable, "-c", _LAUNCHER, str(theirs), str(ours), *command],
            pass_fds=(theirs, ours), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs)
        os.close(ours)
        self._asked, self._rest, self._session, self._target = 0, b"", "", ""
        self.heard: list[dict[str, Any]] = []
        self.screen = Screen(80, 24)
        self._stream = pyte.ByteStream(self.screen)

    def open(self, address: str) -> None:
        """Navigate to an address."""
        self._target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        self.call("Network.enable")
        self.call("Page.navigate", url=address)

    def close_tab(self) -> None:
        """Close the page but not the browser, which may keep a page it only left, with its connection."""
        self._session = ""
        self.call("Target.closeTarget", targetId=self._target)

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Call a method of the browser; returns its result."""
        self._asked += 1
        session = {"sessionId": self._session} if self._session else {}
        asked = {"id": self._asked, "method": method, "params": parameters, **session}
        os.write(self._to, json.dumps(asked).encode() + b"\0")
        stop = time.monotonic() + SOON_S
        while time.monotonic() < stop:
            if (said := self._said(1.0)) is not None and said.get("id") == self._asked:
                assert "error" not in said, said
                return dict(said["result"])
        raise AssertionError(f"no answer to {method}")

    def _said(self, timeout_s: float) -> dict[str, Any] | None:
        while b"\0" not in self._rest:
            if not select.select([self._from], [], [], timeout_s)[0]:
                return None
            data = os.read(self._from, 1 << 20)
            assert data, "the browser has gone"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        said: dict[str, Any] = json.loads(line)
        if said.get("method") == "Network.webSocketCreated":
            found = re.search(r"width=(\d+)&height=(\d+)", said["params"]["url"])
            assert found is not None, said
            self.screen.resize(int(found[2]), int(found[1]))
        elif said.get("method") == "Network.webSocketFrameReceived" and said["params"]["response"]["opcode"] == 2:
            data = base64.b64decode(said["params"]["response"]["payloadData"])
            self._stream.feed(re.sub(rb"\x1b\[[<>=?][0-9;]*[a-gi-km-z$][a-z]?", b"", data))
        if "id" not in said:
            self.heard.append(said)
        return said

    def until(self, is_so: Callable[[], bool]) -> None:
        stop = time.monotonic() + SOON_S
        while not is_so():
            assert time.monotonic() < stop, "\n".join(self.screen.display)
            self._said(0.2)

    def until_text(self, text: str) -> None:
        self.until(lambda: any(text in line for line in self.screen.display))

    def press(self, key: str, text: str = "", code: int = 0) -> None:
        typed = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **typed)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def click(self, x: int, y: int) -> None:
        """Click on the page, which moves the focus."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def colours(self) -> Counter[tuple[int, int, int]]:
        """Number of pixels of each colour in a screenshot."""
        rows = pixels_of(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
        return Counter(pixel for row in rows for pixel in row)

    def close(self) -> None:
        os.close(self._to)
        self._browser.terminate()
        self._browser.wait(20)
        os.close(self._from)
