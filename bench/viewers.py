"""What does it take to show the same run in full: rltop, terminalboard and W&B LEET?

    python bench/viewers.py --environment FOLDER [--steps 5000] [--rounds 3]

300 keys, written by wandb and by TensorBoard's own writer, read in a pseudo-terminal of
120×40. "Loaded" is when the program and its children have used less than a twentieth
of a core for two seconds; what they used until then and hold then is compared. rltop is
to be loaded before the peer that reads the same file, with less processor time: both
divided by the peer's are to be below 1. FOLDER
is an environment with bench/viewer-requirements.txt; what is not in it is left out,
and said to be. Writes the section `viewers` of bench/RESULTS.md.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import NamedTuple

import made
import run
from bounds import stands
from screened import RLTOP, Screened, memory_mb

HERE = Path(__file__).resolve().parent
LONGEST_S = 120.0
QUIET_S = 1.0
QUIET_SHARE = 0.05
IDLE_S = 8.0
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """Wall seconds and CPU seconds until loaded, megabytes held then, per cent of a core afterwards."""

    took_s: float
    cpu_s: float
    memory_mb: float
    idle: float


class Viewer(NamedTuple):
    """A program and the run that it shows."""

    name: str
    reads: str
    command: Sequence[str]
    peer: str = ""


def family(root: int) -> list[int]:
    """A process and all its descendants."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended in between
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def processor_s(pids: Sequence[int]) -> float:
    """CPU time of these processes and of their ended children."""
    total = 0.0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15])) * TICK_S
    return total


def has_ended(pid: int) -> bool:
    """Has the process ended, apart from being reaped?"""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def cost(command: Sequence[str]) -> Cost:
    """Start a program, wait until it is loaded, and measure it while idle.

    Raises:
        RuntimeError: it exited, or was not loaded within `LONGEST_S`.
    """
    with Screened(command) as program:
        quiet, before_s = 0, 0.0
        while quiet < 2:
            program.read_for(QUIET_S)
            if has_ended(program.pid):
                raise RuntimeError(f"ended: {program.text()[-200:].decode(errors='replace')}")
            spent_s = processor_s(family(program.pid))
            quiet = quiet + 1 if spent_s - before_s < QUIET_SHARE * QUIET_S and len(program.output) > 500 else 0
            before_s = spent_s
            if time.perf_counter() - program.started_s > LONGEST_S:
                raise RuntimeError(f"not loaded within {LONGEST_S:.0f} s")
        took_s = time.perf_counter() - program.started_s - 2 * QUIET_S
        pids = family(program.pid)
        held = sum(memory_mb(pid) for pid in pids)
        program.read_for(IDLE_S)
        if has_ended(program.pid):
            raise RuntimeError(f"ended: {program.text()[-200:].decode(errors='replace')}")
        idle = 100 * (processor_s(family(program.pid)) - before_s) / IDLE_S
        return Cost(took_s, before_s, held, idle)


def written(python: Path, folder: Path, steps: int) -> tuple[Path, Path, Path]:
    """Write the run as JSON lines, as a folder with an event file, and as a .wandb file."""
    lines = folder / "metrics.jsonl"
    with lines.open("wb") as file:
        file.writelines(made.lines(300, steps))
    with lines.open("rb") as file:
        subprocess.run([str(python), str(HERE / "write_viewer_runs.py"), str(folder)], stdin=file, check=True)
    return lines, folder / "events", next(folder.glob("wandb/*/*.wandb"))


def viewers(tools: Path, lines: Path, events: Path, wandb: Path) -> list[Viewer]:
    return [
        Viewer("rltop", "JSONL", (*RLTOP, str(lines))),
        Viewer("rltop", "event file", (*RLTOP, str(events)), "terminalboard"),
        Viewer("terminalboard", "event file", (str(tools / "terminalboard"), str(events))),
        Viewer("rltop", ".wandb", (*RLTOP, str(wandb)), "W&B LEET"),
        Viewer("W&B LEET", ".wandb", (str(tools / "wandb"), "leet", str(wandb))),
    ]


def table(shown: Sequence[Viewer], costs: dict[Viewer, list[Cost]], faults: dict[Viewer, str]) -> str:
    """The costs as Markdown; rltop next to the peer that reads the same file."""
    rows = [
        "| program | reads | s to loaded | CPU s to loaded | MB | % of a core, idle | by the peer's | bound | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    middle = {viewer: Cost(*map(median, zip(*found, strict=True))) for viewer, found in costs.items() if found}
    for viewer in shown:
        if viewer not in middle:
            rows.append(f"| {viewer.name} | {viewer.reads} | {faults[viewer]} | | | | | | |")
            continue
        one = middle[viewer]
        peer = next((other for who, other in middle.items() if who.name == viewer.peer), None)
        ratios = () if peer is None else (one.took_s / peer.took_s, one.cpu_s / peer.cpu_s)
        ratio = ", ".join(f"{each:.2f}" for each in ratios)
        word = stands(max(ratios), 1.0) if ratios else ""
        figures = f"{one.took_s:.1f} | {one.cpu_s:.2f} | {one.memory_mb:.0f} | {one.idle:.2f}"
        bound = "below 1" if ratios else ""
        rows.append(f"| {viewer.name} | {viewer.reads} | {figures} | {ratio} | {bound} | {word} |")
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", type=Path, required=True, help="with bench/viewer-requirements.txt installed")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=run.RESULTS)
    arguments = parser.parse_args()
    tools = arguments.environment.absolute() / "bin"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # The peers' state goes into this folder.
        os.environ |= {"HOME": name, "XDG_CONFIG_HOME": name, "XDG_CACHE_HOME": name, "WANDB_ERROR_REPORTING": "false"}
        try:
            places = written(tools / "python", folder, arguments.steps)
        except (OSError, StopIteration, subprocess.CalledProcessError) as error:
            print(f"the run could not be written, so nothing is compared: {error}", file=sys.stderr)
            return 1
        shown = viewers(tools, *places)
        costs: dict[Viewer, list[Cost]] = {viewer: [] for viewer in shown}
        faults: dict[Viewer, str] = {}
        for viewer in shown:
            if not Path(viewer.command[0]).exists():
                faults[viewer] = "not installed"
        for number in range(arguments.rounds):
            for viewer in shown:
                if viewer in faults:
                    continue
                print(f"round {number + 1}: {viewer.name}, {viewer.reads} …", file=sys.stderr, flush=True)
                try:
                    costs[viewer].append(cost(viewer.command))
                except RuntimeError as error:
                    faults[viewer] = " ".join(str(error).split())
                    print(f"{viewer.name}: {error}", file=sys.stderr)
        size_mb = [
            sum(p.stat().st_size for p in ([place] if place.is_file() else place.iterdir())) / 1e6 for place in places
        ]
    stamp = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    question = (ast.get_docstring(ast.parse(Path(__file__).read_text())) or "").partition("\n")[0]
    how = (
        f"300 keys × {arguments.steps:,} steps: JSONL {size_mb[0]:.0f} MB, event file {size_mb[1]:.0f} MB, "
        f".wandb {size_mb[2]:.0f} MB; medians of {arguments.rounds}."
    )
    head = f"## viewers\n\n{question}\n\n`make bench-peers` · {stamp} · {run.commit()}\n{run.machine()}\n\n{how}\n\n"
    run.replace_section("viewers", f"{head}{table(shown, costs, faults)}\n", arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
