"""What do the rules say, record by record? One hash per run, to be compared with that of another commit.

    python bench/engine_output.py [--seeds 200] [--only PART] [--jobs 2] > HASHES

Runs: wandering ones (any metric, jumps, gaps, restarts, late rows, values that are no numbers), made ones of every
trainer (see `simulated`), healthy, faulty, with cells missing and begun anew, every recorded run that RLTOP_RUNS
names, a folder `reality` beside it, and every fixture. A hash covers each event, the verdicts after every record, what
a copy of the engine says of every seventh record before it is judged, and the end. Nothing but `observe`, `after`,
`verdicts`, `events` and `active` of the engine is used, so that the file can be put beside an older commit.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from enum import Enum
from multiprocessing import Pool
from pathlib import Path

from simulated.faults import FAULTS, faulty
from simulated.series import healthy
from simulated.twins import TWINS, twin_of
from simulated.writers import WRITERS, Made, Plan, text_of

from rltop.catalog.dialect import Identity, Signal
from rltop.catalog.metrics import CATALOG
from rltop.cli.open_session import read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.errors import RltopError
from rltop.model import Algorithm, Event, NonFinite, Observation, Traits
from rltop.rules.engine import Engine
from rltop.trainers import ALL as DIALECTS

ROOT = Path(__file__).resolve().parent.parent
EVERY = 7
"""Records between checks with a copy of the engine."""
RECORDS = 260
LEVELS = (1e-6, 0.001, 0.01, 0.05, 0.3, 0.6, 1.0, 2.0, 12.0, 300.0)
FACTORS = (0.0, -1.0, 0.1, 0.3, 0.7, 1.3, 2.0, 3.0, 12.0, 100.0)
RARE = {"val_score", "val_loss", "time_save", "time_eval", "val_margin"}
_EXPERTS = {"moe_max_vio", "aux_loss"}
KINDS: tuple[tuple[Algorithm, dict[str, bool]], ...] = (
    (Algorithm.GRPO, {}),
    (Algorithm.GRPO, {"kl_is_signed": True, "is_async": True}),
    (Algorithm.PPO, {"has_critic": True, "kl_is_sequence_sum": True}),
    (Algorithm.DPO, {"is_preference": True}),
    (Algorithm.REWARD, {"is_preference": True}),
    (Algorithm.UNKNOWN, {}),
    (Algorithm.KTO, {"is_preference": True}),
    (Algorithm.SFT, {}),
    (Algorithm.DISTILL, {}),
    (Algorithm.EMBODIED, {}),
    (Algorithm.RLOO, {"is_single_update": True}),
)


def plain(value: object) -> object:
    """A value without class and field names, which may change."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    return value


class Listener:
    """Hashes everything any engine emits while it replaces `Engine.observe`."""

    def __init__(self) -> None:
        self.found = hashlib.sha256()
        self.events = self.shown = self.records = 0
        self._observe = Engine.observe
        self._is_inside = False
        self.engines: dict[int, Engine] = {}

    def note(self, *values: object) -> None:
        self.found.update(repr(plain(values)).encode())

    def observe(self, engine: Engine, observation: Observation) -> list[Event]:
        if self._is_inside:
            return self._observe(engine, observation)
        self._is_inside = True
        self.engines[id(engine)] = engine
        if self.records % EVERY == 0:
            twin = engine.after(observation)
            self.note("after", twin.verdicts, twin.events)
        happened = self._observe(engine, observation)
        shown = engine.verdicts
        self.records += 1
        self.events += len(happened)
        self.shown += len(shown)
        self.note(observation.record, observation.step, happened, shown)
        self._is_inside = False
        return happened

    def __enter__(self) -> Listener:
        listener = self
        Engine.observe = lambda engine, observation: listener.observe(engine, observation)  # type: ignore[method-assign]  # noqa: PLW0108
        return self

    def __exit__(self, *error: object) -> None:
        Engine.observe = self._observe  # type: ignore[method-assign]

    def digest(self) -> str:
        for engine in self.engines.values():
            self.note("end", engine.events, engine.verdicts, [spec.id for spec in engine.active], engine.warm_up)
        return f"{self.found.hexdigest()[:24]} {self.records:6d} records {self.events:4d} events {self.shown:6d} shown"


def wandering(seed: int) -> Iterator[Observation]:
    """A run of randomly chosen metrics, healthy for a while, with occasional disturbances."""
    draw = random.Random(seed)
    names = [name for name in CATALOG if draw.random() < 0.7]
    levels = {name: draw.choice(LEVELS) for name in names} | {"lr": 1e-6, "grad_norm": 0.5, "score_mean": 0.5}
    noise = draw.choice((0.0, 0.02, 0.1, 0.4))
    often, ranks = draw.choice((0.01, 0.04)), draw.choice((0, 0, 4))
    factors: dict[str, float] = {}
    segment, away = 0, set[str]()
    for record in range(1, RECORDS + 1):
        if record > 50 and draw.random() < often:
            factors = {name: draw.choice(FACTORS) for name in draw.sample(sorted(levels), 4)}
        if draw.random() < 0.02:
            away = set(draw.sample(sorted(levels), 3))
        segment += draw.random() < 0.004
        here = [name for name in levels if name not in away and (name not in RARE or record % 9 == 0)]
        values = {name: levels[name] * draw.gauss(1.0, noise) * factors.get(name, 1.0) for name in here}
        if "lr" in values:
            values["lr"] = levels["lr"] * factors.get("lr", 1.0) * min(1.0, record / draw.choice((1, 20)))
        marks = {draw.choice(here): draw.choice(list(NonFinite))} if here and draw.random() < 0.02 else {}
        kept = {name: value for name, value in values.items() if name not in marks}
        stages = {"gen": kept.get("time_gen", 1.0), "update": kept.get("time_update_actor", 1.0)}
        times = {("", "gen"): {str(i): draw.gauss(1.0, 0.05) * (3.0 if i == 2 else 1.0) for i in range(ranks)}}
        parts = {
            name: {part: kept[name] * draw.gauss(1.0, 0.2) for part in ("first", "second")}
            for name in ("val_score", "reward_mean", "zero_std_frac")
            if name in kept and seed % 3 == 0
        }
        yield Observation(record, record, segment, None, kept, parts, marks, stages, ranks=times if ranks else {})
        if draw.random() < 0.03:
            late = {name: draw.random() for name in ("val_score", "val_loss")}
            yield Observation(record, record, segment, None, late, {}, {}, {}, is_late=True)


def wander(seed: int) -> str:
    algorithm, traits = KINDS[seed % len(KINDS)]
    # Metrics of mixtures of experts would set the thresholds of every run.
    signals = {name: [Signal(CATALOG[name], f"key/{name}")] for name in CATALOG if name not in _EXPERTS}
    base = Identity(next(iter(DIALECTS)), algorithm, Traits(**traits), signals, 8 if seed % 2 else None)
    with Listener() as listener:
        engine = Engine(base)
        engine.take_checkpoints((40, 90, 150))
        for i, each in enumerate(wandering(seed)):
            engine.observe(each)
            if i == RECORDS // 2:
                listener.note(engine.identified(base))
    return listener.digest()


def made_text(seed: int) -> tuple[str, str]:
    """A made run as its trainer writes it, and its fault."""
    draw = random.Random(f"engine/{seed}")
    writer = WRITERS[seed % len(WRITERS)]
    plan = Plan(writer, draw.choice((24, 40, 60, 120, 180, 240)), draw.choice((1, 1, 5)), seed)
    made, name = healthy(plan), "healthy"
    kind = seed // len(WRITERS) % 4
    if kind in (1, 2):
        fits = [fault for fault in FAULTS if writer.algorithm in fault.where]
        fault = draw.choice(fits)
        made, name = faulty(plan, fault) or made, fault.name
    elif kind == 3:
        twins = [twin for twin in TWINS if writer.algorithm in twin.where]
        if twins:
            twin = draw.choice(twins)
            made, name = twin_of(plan, twin) or made, twin.name
    if draw.random() < 0.4:
        name += ", cells missing"
        away = {metric for metric in made.rows[0] if draw.random() < 0.1}
        made = Made(
            plan,
            [
                {
                    key: value
                    for key, value in row.items()
                    if key == "time_step" or (draw.random() > 0.05 and not (key in away and i % 5))
                }
                for i, row in enumerate(made.rows)
            ],
        )
    text = text_of(made)
    if draw.random() < 0.3:
        name += ", begun anew"
        lines, again = text.splitlines(), text_of(healthy(plan._replace(seed=seed + 1000))).splitlines()
        text = "\n".join(lines[: len(lines) * 2 // 3] + again[len(again) // 3 :]) + "\n"
    return text, f"{writer.name}: {name}"


def read(path: str) -> str:
    """Read a path to its end in a session."""
    with Listener() as listener:
        try:
            session = read_whole(path, Config(), FakeClock())
        except RltopError as error:
            return f"{type(error).__name__}"
        try:
            for run in session.runs:
                listener.note(run.events, run.verdicts)
        finally:
            session.close()
    return listener.digest()


def output(name: str) -> str:
    """The output line of one run."""
    if name.startswith("wandering/"):
        return f"{wander(int(name.partition('/')[2]))} {name}"
    if name.startswith("made/"):
        text, about = made_text(int(name.partition("/")[2]))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / ("metrics.jsonl" if text.startswith('{"') else "train.log")
            path.write_text(text)
            return f"{read(str(path))} {name} {about}"
    return f"{read(name)} {name.removeprefix(f'{ROOT}/')}"


def recorded() -> list[str]:
    """Every file of the recorded runs and the fixtures that may hold metrics, and some directories."""
    skipped = {".md", ".toml", ".zip"}
    fixtures = sorted((ROOT / "fixtures").rglob("*"))
    found = [str(path) for path in fixtures if path.is_file() and path.suffix not in skipped]
    found += [str(ROOT / "fixtures" / name) for name in ("trinity", "telescope/archives", "parquet")]
    runs = os.environ.get("RLTOP_RUNS")
    for folder in [Path(runs), Path(runs).parent / "reality"] if runs else []:
        for label in sorted(folder.rglob("label.json")):
            found += [str(one) for one in sorted(label.parent.iterdir()) if one.suffix != ".md" and one != label]
    return found


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--only", default="", help="only runs whose name holds this")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args(argv)
    names = [f"{kind}/{seed}" for kind in ("wandering", "made") for seed in range(arguments.seeds)] + recorded()
    with Pool(arguments.jobs, maxtasksperchild=40) as pool:
        for line in pool.imap(output, [name for name in names if arguments.only in name]):
            print(line)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
