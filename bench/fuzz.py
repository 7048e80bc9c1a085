"""Can any bytes make a decoder raise, hang, grow, or say something else when they come in pieces?

    python bench/fuzz.py --python bench/.venv-fuzz/bin/python [NAME…] [--seconds N] [--seed N]

`make fuzz` calls it. Every target of `fuzz_target.py` is run by atheris from the
beginnings of the fixtures on, guided by the code that is reached; an input of more than
10 s or 512 MiB is a finding too. The table goes to the section `fuzz` of RESULTS.md,
corpora and findings to `bench/data/fuzz/`.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import fuzz_target
import run

DATA = run.HERE / "data" / "fuzz"
FORMATS = run.ROOT / "rltop" / "formats"
HANG_S = 10
MEMORY_MIB = 512
_BINARY = ("protobuf", "decoder", "rows")
_PARQUET = ("parquet",)
_TELESCOPE = ("telescope",)
READ_BY = {
    "tensorboard": ("tensorboard", *_BINARY),
    "wandb": ("wandb", *_BINARY),
    "swanlab": ("wandb", *_BINARY),
    "protobuf": ("protobuf", "wandb"),
    "compressed": ("compressed", "jsonl", "decoder", "rows"),
    "jsonl": ("jsonl", "decoder", "rows"),
    "console": (
        "console/decoder",
        "console/scan",
        "console/lines",
        "console/failures",
    ),
    "csv": ("csv", "decoder", "rows"),
    "document": ("json_document", "rows"),
    "trace": ("trace",),
    "archive": (*_TELESCOPE, *_PARQUET),
    "parquet": _PARQUET,
    "thrift": _PARQUET,
    "snappy": _PARQUET,
    "tables": (*_TELESCOPE, "rollouts/stores"),
    "completions": ("rollouts/files", *_PARQUET),
    "dump": ("rollouts/files", "rollouts/rows", "decoder"),
    "episodes": ("rollouts/files",),
    "pickled": ("rollouts/stores",),
    "database": ("rollouts/stores", "../sqlite_file"),
    "tracker": ("tables",),
    "sqlite": ("../sqlite_file", "../sources/tables"),
    "anything": ("kinds",),
}
"""The modules covered by each target."""
_STATUS = re.compile(
    r"^#(?P<runs>\d+)\s+(?P<what>INITED|DONE)\s+cov: (?P<edges>\d+) .*corp: (?P<corpus>\d+)", re.MULTILINE
)


class Outcome(NamedTuple):
    """One target: inputs tried, edges reached by the fixtures alone and in the end, inputs kept, findings."""

    runs: int
    edges: tuple[int, int]
    corpus: int
    lines: tuple[int, int]
    findings: list[Path]


def fuzz(name: str, python: str, seconds: int, seed: int) -> Outcome:
    """Run one target for `seconds` with a fresh corpus, so that a seed means the same on every machine."""
    corpus = DATA / name
    prefix = DATA / f"finding-{name}-"
    for old in [*corpus.glob("*"), *DATA.glob(f"{prefix.name}*")]:
        old.unlink()
    done = subprocess.run(
        [
            python, str(run.HERE / "fuzz_target.py"), name, str(corpus), f"-max_total_time={seconds}", f"-seed={seed}",
            f"-timeout={HANG_S}", f"-rss_limit_mb={MEMORY_MIB}", f"-artifact_prefix={prefix}",
        ],
        cwd=run.ROOT, capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    said = list(_STATUS.finditer(done.stderr))
    findings = sorted(DATA.glob(f"{prefix.name}*"))
    if done.returncode and not findings:
        raise RuntimeError(f"the fuzzer ended with exit code {done.returncode}: {done.stderr[-2000:]}")
    begun = next((int(each["edges"]) for each in said if each["what"] == "INITED"), 0)
    runs, edges, kept = (int(said[-1][what]) for what in ("runs", "edges", "corpus")) if said else (0, 0, 0)
    return Outcome(runs, (begun, edges), kept, lines_reached(name, corpus), findings)


# -- lines: what a person can look at, where the fuzzer counts edges -----------------------------------------------


def _lines_of(code: CodeType, *, is_function: bool = False) -> set[int]:
    """Lines of all functions in a module, without their `def` lines."""
    own = {line for _, _, line in code.co_lines() if line} - {code.co_firstlineno} if is_function else set()
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            own |= _lines_of(inner, is_function=inner.co_flags & 0x2 != 0)
    return own


def lines_reached(name: str, corpus: Path) -> tuple[int, int]:
    """Number of lines of the target's modules that its corpus reaches, and of all lines."""
    files = {str(FORMATS / f"{module}.py") for module in READ_BY[name]}
    reached: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        if file not in files:
            return None
        if event == "line":
            reached.add((file, frame.f_lineno))
        return trace

    inputs = [path.read_bytes() for path in sorted(corpus.glob("*"))]
    fuzz_target.PROMISES[name](b"")  # what is imported late is there before lines are counted
    sys.settrace(trace)
    try:
        for data in inputs:
            fuzz_target.PROMISES[name](data)
    except AssertionError:
        pass  # a finding; reported by the fuzzer
    finally:
        sys.settrace(None)
    every = {(file, line) for file in files for line in _lines_of(compile(Path(file).read_text(), file, "exec"))}
    return len(reached & every), len(every)


def table(outcomes: dict[str, Outcome]) -> str:
    rows = [
        "| target | inputs tried | inputs kept | edges: fixtures → end | lines reached | findings |",
        "|---|---|---|---|---|---|",
    ]
    for name, one in outcomes.items():
        share = 100 * one.lines[0] / max(1, one.lines[1])
        rows.append(
            f"| {name} | {one.runs:,} | {one.corpus} | {one.edges[0]} → {one.edges[1]} "
            f"| {one.lines[0]} of {one.lines[1]} ({share:.0f} %) | {len(one.findings)} |"
        )
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(READ_BY)}; all without")
    parser.add_argument("--python", required=True, help="an interpreter with bench/fuzz-requirements.txt")
    parser.add_argument("--seconds", type=int, default=20, help="per target")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in READ_BY]
    if unknown:
        parser.error(f"no target {', '.join(unknown)}; there are: {', '.join(READ_BY)}")
    DATA.mkdir(parents=True, exist_ok=True)
    outcomes = {}
    for name in arguments.names or READ_BY:
        print(f"{name} …", file=sys.stderr, flush=True)
        outcomes[name] = fuzz(name, arguments.python, arguments.seconds, arguments.seed)
    findings = [path for one in outcomes.values() for path in one.findings]
    for path in findings:
        print(
            f"found: python bench/fuzz_target.py {path.name.split('-')[1]} {path.relative_to(run.ROOT)}",
            file=sys.stderr,
        )
    stamp = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    question = (ast.get_docstring(ast.parse(Path(__file__).read_text())) or "").partition("\n")[0]
    how = f"{arguments.seconds} s per target, seed {arguments.seed}, from the fixtures' beginnings"
    head = f"## fuzz\n\n{question}\n\n`make fuzz` · {stamp} · {run.commit()}\n{run.machine()}\n\n{how}:\n\n"
    run.replace_section("fuzz", f"{head}{table(outcomes)}\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
