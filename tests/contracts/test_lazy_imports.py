"""What starts fast stays fast: heavy libraries are imported only by what draws.

Each case runs in an interpreter of its own and reports which modules it holds.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("textual", "rich", "plotext", "watchdog", "numpy", "pandas", "prometheus_client", "pytest")
RUN = ROOT / "fixtures" / "trl" / "grpo_restart" / "metrics.jsonl"

PROBE = """
import json, sys
sys.argv = ["rltop", *{arguments!r}]
try:
    {statement}
except SystemExit as end:
    code = end.code
else:
    code = 0
print()
print(json.dumps({{"code": code, "modules": sorted(sys.modules)}}))
"""

ROOMS_WITHOUT_TEXTUAL = sorted(
    f"rltop.{path.parent.name}"
    for path in (ROOT / "rltop").glob("*/__init__.py")
    if path.parent.name not in ("app", "screen")
)

BEFORE_TEXTUAL = [f"rltop.screen.{name}" for name in ("early", "guard", "modes")]
"""What is at work on the terminal before Textual is imported."""


def modules_after(statement: str, *arguments: str) -> tuple[object, set[str]]:
    """Exit code and loaded modules of an interpreter that ran `statement`."""
    code = PROBE.format(arguments=list(arguments), statement=statement)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    return report["code"], set(report["modules"])


def heavy(modules: set[str]) -> set[str]:
    return {name for name in HEAVY if name in modules}


def test_the_package_imports_nothing_at_all() -> None:
    bare = modules_after("pass")[1]
    assert modules_after("import rltop")[1] - bare == {"rltop"}


def modules_of(room: str) -> list[str]:
    folder = ROOT / room.replace(".", "/")
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in sorted(folder.rglob("*.py"))
        # watch.py is where watchdog lives; it is imported only when something is to be watched.
        if path.name not in {"__init__.py", "watch.py"}
    ]


def test_no_room_without_textual_loads_anything_heavy() -> None:
    names = [name for room in ROOMS_WITHOUT_TEXTUAL for name in modules_of(room)]
    _, modules = modules_after(f"import {', '.join(BEFORE_TEXTUAL + names)}")
    assert not heavy(modules)


def test_help_loads_nothing_heavy() -> None:
    code, modules = modules_after("from rltop.cli import main; sys.exit(main())", "--help")
    assert code == 0
    assert not heavy(modules)


def test_check_loads_nothing_heavy() -> None:
    code, modules = modules_after("from rltop.cli import main; sys.exit(main())", "check", "--json", str(RUN))
    assert code in (0, 1)
    assert not heavy(modules)
    assert not modules & {"rltop.pages.overview", "statistics"}


def test_check_of_a_short_file_needs_no_fast_parser(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b"".join(RUN.read_bytes().splitlines(keepends=True)[:20]))
    code, modules = modules_after("from rltop.cli import main; sys.exit(main())", "check", "--json", str(path))
    assert code in (0, 1)
    assert not modules & {"orjson", "inspect", "dataclasses"}, "see formats.jsonl"


def test_check_in_words_needs_no_overview() -> None:
    code, modules = modules_after("from rltop.cli import main; sys.exit(main())", "check", str(RUN))
    assert code in (0, 1)
    assert not heavy(modules) | {"rltop.pages.overview"} & modules


def test_watch_loads_nothing_heavy_until_something_is_to_be_watched() -> None:
    _, modules = modules_after("import rltop.cli.watch, rltop.rules.registry, rltop.run.rule_runner")
    assert not heavy(modules)


def test_the_one_shot_view_loads_nothing_heavy() -> None:
    code, modules = modules_after("from rltop.cli import main; sys.exit(main())", "--once", str(RUN))
    assert code == 0
    assert not heavy(modules)


FIRST_FRAME = """
    import rltop.cli.plain, rltop.cli.screen, rltop.cli.show
    from rltop.cli.early import early_rows
    from rltop.cli.resolve_paths import look
    from rltop.clock import Clock
    from rltop.config import Config
    assert early_rows(look(sys.argv[1:]).found[0], Config(), Clock(), 120, 38)
"""
"""What happens between the command and the first frame."""


def test_nothing_stands_between_the_command_and_the_first_frame() -> None:
    _, modules = modules_after(FIRST_FRAME.strip(), str(RUN))
    late = {"textual", "rich", "plotext", "watchdog", "statistics", "random", "difflib", "asyncio", "datetime"}
    assert not modules & late
    assert not modules & {"argparse", "dataclasses", "inspect", "orjson", "shutil"}, "see cli.plain, structs, json_text"
    rules = {name for name in modules if name.startswith("rltop.rules.")}
    assert rules <= {"rltop.rules.options"}, "nothing is judged before the first frame"
    assert "rltop.app.app" not in modules
    assert len(modules - modules_after("pass")[1]) <= MOST_MODULES


@pytest.mark.parametrize("run", ["incidents/healthy_at_the_cap", "incidents/nan_at_83"])
def test_an_alert_that_nobody_reads_about_loads_no_words(run: str) -> None:
    judged = """
    from rltop.app.main_loop import title_of
    from rltop.cli.open_session import read_whole
    from rltop.clock import FakeClock
    from rltop.config import Config
    from rltop.pages.overview import build_overview
    from rltop.run.snapshot import Snapshot
    (run,) = read_whole(sys.argv[1], Config(), FakeClock()).runs
    snapshot = Snapshot(run)
    assert build_overview(snapshot, width=120, height=40)
    assert ("CRIT" in title_of(run)) == ("nan" in sys.argv[1])
    assert bool(snapshot.standing) == ("nan" in sys.argv[1])
    """
    _, modules = modules_after(judged.strip(), str(ROOT / "fixtures" / run / "metrics.jsonl"))
    assert "rltop.rules.words" in modules
    assert "tomllib" not in modules


def test_a_run_and_its_snapshot_know_no_rule_until_something_is_judged() -> None:
    _, modules = modules_after("import rltop.run.run, rltop.run.run_stream, rltop.run.snapshot")
    assert {name for name in modules if name.startswith("rltop.rules.")} <= {"rltop.rules.options"}


MOST_MODULES = 191
"""Modules before the first frame; each one costs about a third of a millisecond."""


SHARED_FORMATS = {"decoder", "jsonl", "kinds", "rows"}
"""What a run of JSON lines needs: any other format is found out by these."""
FORMATS: dict[str, tuple[str, set[str]]] = {
    "jsonl": ("trl/grpo_restart/metrics.jsonl", set()),
    "tensorboard": ("tensorboard/events.out.tfevents.1795000001.node-1.1.simple", {"tensorboard", "protobuf"}),
    "wandb": ("wandb/own_step.wandb", {"tracker_steps", "wandb", "protobuf"}),
    "swanlab": ("trackers/finished.swanlab", {"tracker_steps", "wandb", "protobuf"}),
    "tables": ("trackers/trackio.db", {"tables", "tracker_steps", "wandb", "protobuf"}),
    "console": ("console/verl_slurm.log", {"console"}),
    "telescope": ("telescope/archives/files/steps", {"telescope", "parquet", "rollouts"}),
    "csv": ("progress.csv", {"csv"}),
    "document": ("trainer_state.json", {"json_document"}),
    "trace": ("trace_events.jsonl", {"trace", "console"}),
    "gzip": ("metrics.jsonl.gz", {"compressed"}),
}
"""A file of each format, and what its reader is made of; those without a folder are written by the test."""
MADE = {
    "csv": b"step,loss\n1,0.5\n2,0.25\n",
    "document": b'{"log_history": [{"step": 1, "loss": 0.5}], "max_steps": 2}',
    "trace": b'{"ph": "X", "name": "step", "ts": 1, "dur": 5, "pid": 1}\n' * 3,
    "gzip": gzip.compress(b'{"step": 1, "loss": 0.5}\n{"step": 2, "loss": 0.25}\n'),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_loads_its_own_reader_and_no_other(name: str, tmp_path: Path) -> None:
    place, own = FORMATS[name]
    path = ROOT / "fixtures" / place
    if name in MADE:
        path = tmp_path / place
        path.write_bytes(MADE[name])
    code, modules = modules_after("from rltop.cli import main; sys.exit(main())", "--once", str(path))
    assert code == 0
    loaded = {module.split(".")[2] for module in modules if module.startswith("rltop.formats.")}
    assert loaded <= SHARED_FORMATS | own
    assert not own or loaded & own
    unpackers = {"gzip", "sqlite3", "zipfile", "csv", "zstandard", "pyarrow"} & modules
    assert unpackers <= {"csv": {"csv"}, "telescope": {"zipfile"}}.get(name, set())
