"""What does a change cost beside another version: time and memory of two installed programs, interleaved?

    python bench/beside.py OLD NEW [--rounds 5] [--wandb] [--instructions]
    python bench/beside.py --quick [RLTOP]

OLD and NEW are `rltop` commands of *installed* versions, each in an environment of its own: a checkout that may
not keep compiled modules compiles at every start. Each figure is the median of the rounds, the ratio that of the
two medians; the processor time is what a loaded machine changes least.

`--instructions` counts those of `check` with cachegrind instead (valgrind; 3 min): nothing that runs beside them
changes these. The table becomes the section `beside` of RESULTS.md.

`--quick` (`make bench-quick`, under a minute) measures one program beside what is on every machine: an
`orjson.loads` of the same lines, an interpreter that does nothing, a hello world of Textual. Beside each ratio is
that of the last release, from `budget.toml`. It never fails because of time.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import NamedTuple

import made
import run
from bench_bytes import measure
from bench_check import PARSE, spent
from bench_start import COMPLETE, newest_value
from screened import HELLO, Screened

BUDGET = Path(__file__).resolve().parent / "budget.toml"
SETTLED_S = 2.0
"""Delay after everything is shown before memory or the cost of rows is measured."""
LIVE_S = 10.0

Program = Sequence[str]


class Taken(NamedTuple):
    """The cost of one run of a program: CPU seconds without its children, and wall seconds; or an amount of a unit."""

    cpu_s: float = 0.0
    s: float = 0.0
    amount: float = 0.0


class Question(NamedTuple):
    """One row of the table: the measurement made of both programs, and the figure compared."""

    name: str
    ask: Callable[[Program], Taken]
    unit: str = ""


def checked(path: Path) -> Callable[[Program], Taken]:
    return lambda program: Taken(*spent((*program, "check", "--json", str(path)))[:2])


def all_shown(path: Path) -> Callable[[Program], Taken]:
    def ask(program: Program) -> Taken:
        with Screened((*program, str(path))) as shown:
            took_s = shown.until(lambda: COMPLETE in shown.output, timeout_s=300.0)
            return Taken(shown.cpu_s, took_s)

    return ask


def first_frame(path: Path, value: re.Pattern[bytes]) -> Callable[[Program], Taken]:
    """Until the newest value of the first key metric is on the screen."""

    def ask(program: Program) -> Taken:
        with Screened((*program, str(path))) as shown:
            return Taken(s=shown.until(lambda: value.search(shown.text()) is not None), cpu_s=shown.cpu_s)

    return ask


def held(path: Path) -> Callable[[Program], Taken]:
    """Proportional memory (PSS) of the program and its children, once everything is shown."""

    def ask(program: Program) -> Taken:
        with Screened((*program, str(path))) as shown:
            shown.until(lambda: COMPLETE in shown.output, timeout_s=300.0)
            shown.read_for(SETTLED_S)
            return Taken(amount=sum(map(pss_mb, family(shown.pid))))

    return ask


def live(path: Path, rate: float) -> Callable[[Program], Taken]:
    """CPU time over `LIVE_S` seconds with `rate` rows per second, and bytes per second to the terminal."""

    def ask(program: Program) -> Taken:
        rows = list(made.lines(300, int(rate * LIVE_S), first_step=2_001))
        growing = path.with_name("growing.jsonl")
        growing.write_bytes(path.read_bytes())
        with Screened((*program, str(growing))) as shown:
            shown.until(lambda: COMPLETE in shown.output)
            shown.read_for(SETTLED_S)
            share, size = measure(shown, rows, growing, rate, LIVE_S)
            return Taken(share * LIVE_S / 100, amount=size)

    return ask


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in family(int(child)))]


def pss_mb(pid: int) -> float:
    found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    return 0.0 if found is None else int(found[1]) * 1024 / 1e6


def written(folder: Path, steps: int, evaluations: int = 0) -> Path:
    """Write a file of `steps` rows; `evaluations`: a learning run with evaluations in every n-th row."""
    path = folder / f"{steps}-{evaluations}.jsonl"
    with path.open("wb") as file:
        rows = made.lines(300, steps, evaluations=evaluations) if evaluations else made.repeated_lines(300, steps)
        file.writelines(rows)
    return path


def instructions(program: Program, path: Path) -> float:
    """Machine instructions of `check --json`, in billions.

    Raises:
        RuntimeError: valgrind printed no count.
    """
    first = Path(program[0]).read_bytes().partition(b"\n")[0].decode()
    interpreter = shlex.split(first[2:]) if first.startswith("#!") else []
    counted = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
    done = subprocess.run(
        (*counted, *interpreter, *program, "check", "--json", str(path)),
        env={**os.environ, "PYTHONHASHSEED": "0"}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False,
    )  # fmt: skip
    found = re.search(rb"I\s+refs:\s+([\d,]+)", done.stderr)
    if found is None:
        raise RuntimeError(f"{program} under valgrind: {done.stderr[-500:]!r}")
    return int(found[1].replace(b",", b"")) / 1e9


def count(old: Program, new: Program) -> None:
    """Count the instructions of both; writes a table and a section of the results."""
    rows = ["| instructions of `check --json` (G), 300 keys | old | new | ratio |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as name:
        for words, steps, every in (
            ("1,500 rows, evaluations in each", 1_500, 1),
            ("1,500 rows, in every 10th", 1_500, 10),
            ("one row", 1, 0),
        ):
            path = written(Path(name), steps, every)
            before, after = instructions(old, path), instructions(new, path)
            rows.append(f"| {words} | {before:.2f} | {after:.2f} | **{after / before:.2f}** |")
            print(rows[-1], flush=True)
    release = tomllib.loads(BUDGET.read_text())["release"]
    stamp = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    head = (
        f"## beside\n\n{run.question(Path(__file__))}\n\n`python bench/beside.py OLD NEW --instructions` · OLD: "
        f"{release} · {stamp} · {run.commit()}\n{run.machine()}\n\n"
    )
    run.replace_section("beside", head + "\n".join(rows) + "\n")


def medians(taken: Sequence[Taken]) -> Taken:
    return Taken(*(median(column) for column in zip(*taken, strict=True)))


def asked(question: Question, programs: Sequence[Program], rounds: int) -> list[Taken]:
    """Medians for each program, measured in turn after a warm-up round."""
    taken: list[list[Taken]] = [[] for _ in programs]
    for attempt in range(rounds + 1):
        for mine, program in zip(taken, programs, strict=True):
            found = question.ask(program)
            if attempt:
                mine.append(found)
    return [medians(mine) for mine in taken]


def compare(old: Program, new: Program, rounds: int, only: str, *, has_wandb: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shown = written(folder, 5_000)
        questions = [
            Question("`check`, evaluations in every row", checked(written(folder, 5_000, 1))),
            Question("`check`, in every 10th row", checked(written(folder, 5_000, 10))),
            Question("`check`, in every 20th row", checked(written(folder, 5_000, 20))),
            Question("`check`, one row", checked(written(folder, 1))),
            Question("first frame", first_frame(shown, newest_value(5_000))),
            Question("all shown, 5,000 rows", all_shown(shown)),
            Question("all shown, 20,000 rows", all_shown(written(folder, 20_000))),
            Question("all shown, 5,000 rows of a run that learns", all_shown(written(folder, 5_000, 10))),
            Question("all shown, 20,000 rows of a run that learns", all_shown(written(folder, 20_000, 10))),
            Question("memory held (PSS), 5,000 rows", held(shown), "MB"),
        ]
        of_2000 = written(folder, 2_000, 10)
        questions += [
            Question(f"{LIVE_S:.0f} s of live rows, {rate} a second", live(of_2000, rate), "B/s") for rate in (1, 10)
        ]
        if has_wandb:
            made.write_as(wandb := folder / "run-a.wandb", 5_000)
            questions.append(Question("all shown, `.wandb` of 5,000 rows", all_shown(wandb)))
        print("| 300 keys | old CPU s | new CPU s | ratio | old s | new s | ratio |\n|---|---|---|---|---|---|---|")
        for question in questions:
            if only not in question.name:
                continue
            before, after = asked(question, (old, new), rounds)
            rows = {}
            if before.cpu_s:
                rows[question.name] = compared(before.cpu_s, after.cpu_s, "{:.3f}")
            if before.s:
                rows[question.name] += compared(before.s, after.s, "{:.3f}")
            if question.unit:
                sent = f"{question.name}: sent" if rows else question.name
                rows[sent] = compared(before.amount, after.amount, f"{{:,.1f}} {question.unit}")
            for title, cells in rows.items():
                print(f"| {title} | {' | '.join([*cells, *[''] * (6 - len(cells))])} |", flush=True)


def compared(before: float, after: float, written_as: str) -> list[str]:
    """Both figures and their ratio."""
    return [written_as.format(before), written_as.format(after), f"**{after / before:.2f}**"]


def quick(program: Program) -> None:
    """Print ratios to a baseline that every machine has, next to those of the last release."""
    budget = tomllib.loads(BUDGET.read_text())
    release, ratios = budget["release"], budget["ratios"]
    python = sys.executable
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        every, tenth, one = written(folder, 1_500, 1), written(folder, 1_500, 10), written(folder, 1)
        hello: Program = (python, "-c", HELLO)

        def greeted(what: Program) -> Taken:
            with Screened(what) as shown:
                took_s = shown.until(lambda: b"hello, world" in shown.output)
                cpu_s = shown.cpu_s
                shown.read_for(0.5)
                return Taken(cpu_s, took_s, pss_mb(shown.pid))

        def ran(what: Program) -> Taken:
            return Taken(*spent(what)[:2])

        def parse(path: Path) -> Program:
            return (python, "-c", PARSE, str(path))

        value = newest_value(1_500)
        shown = written(folder, 1_500)
        asks: list[tuple[str, Callable[[Program], Taken], Callable[[Program], Taken], Program]] = [
            ("check, every row", checked(every), ran, parse(every)),
            ("check, every 10th row", checked(tenth), ran, parse(tenth)),
            ("check, one row", checked(one), ran, (python, "-c", "")),
            ("first frame", first_frame(shown, value), greeted, hello),
            ("all shown", all_shown(shown), ran, parse(shown)),
            ("memory", held(shown), greeted, hello),
        ]
        print(f"| ratio of | to | {release} | now | |\n|---|---|---|---|---|")
        for title, ask, floor, base in asks:
            rounds = 3
            taken, floors = [], []
            for _ in range(rounds):
                taken.append(ask(program))
                floors.append(floor(base))
            mine, least = medians(taken), medians(floors)
            ratio = mine.amount / least.amount if title == "memory" else mine.cpu_s / least.cpu_s
            was = ratios.get(title)
            change = "" if was is None else f"× {ratio / was:.2f}"
            to = {"greeted": "hello world of Textual"}.get(floor.__name__, "bare parse" if len(base) > 3 else "nothing")
            print(f"| {title} | {to} | {'' if was is None else f'{was:.2f}'} | {ratio:.2f} | {change} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="RLTOP", help="OLD NEW; with --quick the one to measure")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="rows of the table whose name contains this")
    parser.add_argument("--wandb", action="store_true", help="a .wandb file too (half a minute)")
    parser.add_argument("--instructions", action="store_true", help="count instructions of check (valgrind)")
    parser.add_argument("--quick", action="store_true", help="ratios to a bare parse and a hello world, in a minute")
    arguments = parser.parse_args()
    programs = [shlex.split(each) for each in arguments.programs]
    if arguments.quick:
        quick(programs[0] if programs else (sys.executable, "-m", "rltop"))
    elif len(programs) == 2 and arguments.instructions:
        count(*programs)
    elif len(programs) == 2:
        compare(*programs, arguments.rounds, arguments.only, has_wandb=arguments.wandb)
    else:
        parser.error("name two rltop commands, OLD and NEW")


if __name__ == "__main__":
    main()
