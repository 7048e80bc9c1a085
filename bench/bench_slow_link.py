"""How long from a key to what it does, over a link that is slow, far away and full of buffers?

    python bench/bench_slow_link.py [--seconds 30]

20 KB/s, 100 ms there and back, 256 KB of buffer in between, 4 rows a second of 300
keys. A relay between the program and the terminal plays the link: what the terminal
answers and what is typed goes the same way back. Outside a multiplexer, and inside
tmux, where rltop holds to a fixed rate because tmux answers for the terminal.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import made
from bounds import stands
from pictures import selection_ms
from screened import RLTOP, Screened

BYTES_A_S = 20_000
ONE_WAY_S = 0.050
BUFFER = 256 * 1024
ROWS_HZ = 4.0
KEY_EVERY_S = 1.5
FIRST_STEPS = 500
BOUND_S = 0.5
QUERY, ANSWER = b"\x1b[?2026$p", b"\x1b[?2026;2$y"


class FarTerminal:
    """The terminal at the far end of the link: bytes, keys and answers arrive late.

    Attributes:
        output: bytes that the terminal has received.
        arrivals: times, each with the number of bytes received until then.
    """

    def __init__(self, program: Screened) -> None:
        self._program = program
        self._taken = 0
        self._free_s = time.perf_counter()
        self._under_way: deque[tuple[float, bytes]] = deque()
        self._typed: deque[tuple[float, bytes]] = deque()
        self.output = bytearray()
        self.arrivals: list[tuple[float, int]] = []
        self.most_waiting = 0

    def press(self, keys: bytes) -> None:
        """Type at the terminal."""
        self._typed.append((time.perf_counter() + ONE_WAY_S, keys))

    def run_for(self, seconds: float) -> None:
        """Run the link."""
        end_s = time.perf_counter() + seconds
        while (now_s := time.perf_counter()) < end_s:
            while self._typed and self._typed[0][0] <= now_s:
                self._program.press(self._typed.popleft()[1])
            self._send(now_s)
            self._receive(now_s)
            if self._waiting(now_s) < BUFFER:
                self._program.read(0.004)
            else:
                time.sleep(0.004)

    def _waiting(self, now_s: float) -> float:
        """Number of bytes in the buffer."""
        return max(0.0, self._free_s - now_s) * BYTES_A_S

    def _send(self, now_s: float) -> None:
        piece = bytes(self._program.output[self._taken :])
        self._taken += len(piece)
        # In packets, so that a large frame does not arrive all at once at its end.
        for start in range(0, len(piece), 1400):
            packet = piece[start : start + 1400]
            self._free_s = max(self._free_s, now_s) + len(packet) / BYTES_A_S
            self._under_way.append((self._free_s + ONE_WAY_S, packet))
        self.most_waiting = max(self.most_waiting, round(self._waiting(now_s)))

    def _receive(self, now_s: float) -> None:
        while self._under_way and self._under_way[0][0] <= now_s:
            data = self._under_way.popleft()[1]
            asked_from = max(0, len(self.output) - len(QUERY) + 1)
            self.output += data
            self.arrivals.append((now_s, len(self.output)))
            for _ in range(self.output.count(QUERY, asked_from)):
                self.press(ANSWER)


def measure(command: Sequence[str], path: Path, seconds: float) -> tuple[list[float], int, float, int]:
    """Milliseconds of each key with a visible effect, keys pressed, bytes per second, most bytes in the buffer."""
    made.write_repeated(path, FIRST_STEPS)
    rows = made.repeated_lines(300, round((seconds + 20) * ROWS_HZ), FIRST_STEPS + 1)
    pressed: list[float] = []
    with Screened(command, answers=False) as program, path.open("ab", buffering=0) as file:
        terminal = FarTerminal(program)
        terminal.run_for(10.0)
        size, start_s = len(terminal.output), time.perf_counter()
        row_s, key_s = start_s, start_s + 1.0
        while (now_s := time.perf_counter()) < start_s + seconds:
            if now_s >= row_s:
                file.write(next(rows))
                row_s += 1.0 / ROWS_HZ
            if now_s >= key_s:
                pressed.append(now_s)
                terminal.press(b"k" if len(pressed) % 2 == 0 else b"j")
                key_s += KEY_EVERY_S
            terminal.run_for(max(0.005, min(row_s, key_s) - time.perf_counter()))
        rate = (len(terminal.output) - size) / (time.perf_counter() - start_s)
        terminal.run_for(2.0)
        return selection_ms(terminal, pressed), len(pressed) - 1, rate, terminal.most_waiting


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0)
    arguments = parser.parse_args()
    print("| where | keys seen | median s | bound | | worst s | B/s | most in the buffer |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        plain, inside = Path(folder) / "plain.jsonl", Path(folder) / "inside.jsonl"
        settings = Path(folder) / "tmux.conf"
        settings.write_text("set -g status off\n")
        tmux = shutil.which("tmux")
        server = ("-L", f"rltop-bench-{os.getpid()}", "-f", str(settings))
        places: list[tuple[str, Sequence[str], Path]] = [("outside a multiplexer", (*RLTOP, str(plain)), plain)]
        if tmux is not None:
            places.append(("inside tmux", (tmux, *server, "new-session", *RLTOP, str(inside)), inside))
        for name, command, path in places:
            try:
                took, pressed, rate, waiting = measure(command, path, arguments.seconds)
            finally:
                if tmux is not None and command[0] == tmux:
                    subprocess.run([tmux, *server, "kill-server"], check=False, capture_output=True)
            middle_s = median(took) / 1e3 if took else float("inf")
            bound, word = ("", "") if command[0] == tmux else (f"{BOUND_S:.1f}", stands(middle_s, BOUND_S))
            worst_s = max(took, default=float("inf")) / 1e3
            figures = f"{middle_s:.2f} | {bound} | {word} | {worst_s:.2f} | {rate:,.0f} | {waiting:,}"
            print(f"| {name} | {len(took)} of {pressed} | {figures} |")
        if tmux is None:
            print("| inside tmux | tmux is not installed | | | | | | |")


if __name__ == "__main__":
    main()
