"""Text of metrics endpoints → inference engines, devices, and phases reported by a trainer or Ray.

The names are from the code of vLLM (v0 and v1) and SGLang, also as re-exported by Ray, of their routers, DCGM, Ray, the
trainers of prime-rl and SkyRL, and miles. Lines are selected by name before parsing: a trainer's node exposes two
megabytes with twenty relevant lines; parsing everything takes 430 ms, selecting first 5 ms.
"""

from __future__ import annotations

import math
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median

from rltop import units
from rltop.live.lines import key_of, key_of_method
from rltop.live.probe import Device, Fact, InferenceEngine, Process
from rltop.regex import regex
from rltop.structs import NamedTuple

MOST_SAMPLES = 20_000
_LONGEST_LINE = 8_192


class Sample(NamedTuple):
    """One value.

    Attributes:
        value: may be NaN.
        time_s: its timestamp, if it has one; seconds since the epoch.
    """

    name: str
    labels: Mapping[str, str]
    value: float
    time_s: float | None = None


def plain_name(name: str) -> str:
    """Normalise a metric name: `ray_vllm:num_x`, `ray_vllm_num_x` and `vllm:num_x` become `vllm_num_x`."""
    plain = name.replace(":", "_")
    inner = plain.removeprefix("ray_")
    return inner if inner.startswith(("vllm_", "sglang_", "skyrl_")) else plain


def lines_of(*prefixes: bytes) -> re.Pattern[bytes]:
    """Matches lines by prefix, in a fifth of the time that splitting into lines takes."""
    return regex(rb"\n((?:%b)[^\n]{0,%d})(?=\n|\Z)" % (b"|".join(map(re.escape, prefixes)), _LONGEST_LINE))


def samples(data: bytes, lines: re.Pattern[bytes], names: frozenset[str] | set[str]) -> Iterator[Sample]:
    """The samples of some metrics in the text of an endpoint; invalid lines are skipped."""
    # The package imports several modules that are useless without an endpoint.
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415

    count = 0
    for line in lines.findall(b"\n" + data):
        end = min((at for at in (line.find(b"{"), line.find(b" ")) if at > 0), default=-1)
        name = plain_name(line[:end].decode("utf-8", "replace")) if end > 0 else ""
        if name not in names:
            continue
        count += 1
        if count > MOST_SAMPLES:
            return
        try:
            families = list(text_string_to_metric_families(line.decode("utf-8", "replace").strip() + "\n"))
            (sample,) = families[0].samples
        except (ValueError, IndexError, KeyError, TypeError):
            continue
        time_s = None if sample.timestamp is None else float(sample.timestamp)
        yield Sample(name, sample.labels, float(sample.value), time_s)


HUNG_S = 30.0
"""An engine with requests that has produced no token for this long hangs; so does one with unchanged replies."""
HANGS = "hangs"
"""Prefix of such a trouble text."""
FULL = 0.98
"""Usage from which the KV cache counts as full."""
WINDOW_S = 60.0
"""Window for counting a storm."""
LEAST_STORM = 32
"""Fewer preemptions or aborts within the window are no storm."""
STORM_SAMPLES = 4
"""Nor are increases in fewer replies: a trainer may abort all requests once a step to update weights."""
FAR_BELOW, LEAST_ENGINES = 0.25, 3
"""With this many engines, one that produces less than this fraction of the others' tokens is reported."""
KEPT_S = 600.0
"""How long an engine that disappeared is still listed."""

_Told = dict[str, tuple[str, str, float]]
"""Metric → (kind of thing, field, scale)."""


def _table() -> _Told:
    found: _Told = {}
    for section in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").split("\n\n[")[1:]:
        kind, *rows = section.splitlines()
        for metric, numbers, *scale in (row.split(" | ") for row in rows):
            found[metric] = kind.removesuffix("]"), numbers, float(scale[0]) if scale else 1.0
    return found


_TABLE = _table()
_DEVICE = "device"
_OTHERS = ("ray_tasks", "skyrl_training_phase", "trainer_step", "trainer_last_step_timestamp_seconds")
NAMES = frozenset({*_TABLE, *_OTHERS})
LINES = lines_of(
    b"vllm", b"sglang", b"ray_vllm", b"ray_sglang", b"sgl_router_", b"smg_worker_", b"miles_rollout_cell_", b"DCGM_FI_",
    b"ray_node_g", b"ray_tasks{", b"ray_skyrl_training_phase", b"skyrl_training_phase", b"trainer_step",
    b"trainer_last_step_",
)  # fmt: skip
"""Prefixes of lines that may contain one of these metrics."""
_WHICH = ("engine", "dp_rank", "worker_addr", "worker", "cell_id", "ReplicaId", "replica", "WorkerId")
"""Labels that distinguish engines at one address."""
_SUMMED = frozenset({"running", "waiting", "paused", "made", "read", "live", "preemptions", "aborts", "finished"})
_MOVES = ("made", "read", "live", "finished", "rate", "used", "cache")
"""Values that change while an engine works; SGLang counts tokens at the end of a request, but always reports a rate."""
RUNNING = ("RUNNING", "RUNNING_IN_RAY_GET", "RUNNING_IN_RAY_WAIT")
"""States of running calls, as Ray names them."""


@dataclass(slots=True)
class _EngineHistory:
    """History of an engine.

    Attributes:
        full_s: since when its cache has been full with requests waiting, or None.
        counted: (time, values), newest last.
    """

    engine: InferenceEngine
    moved: tuple[float, ...] = ()
    moved_s: float = -math.inf
    full_s: float | None = None
    counted: deque[tuple[float, dict[str, float]]] = field(default_factory=lambda: deque(maxlen=64))


class MetricsReader:
    """Reads the samples of one source and tracks whether engines make progress."""

    def __init__(self, source: str, place: str) -> None:
        self._source, self._place = source, place
        self._past: dict[tuple[str, ...], _EngineHistory] = {}
        self._others: dict[tuple[str, ...], Fact] = {}
        self._seen_s: dict[str, float] = {}

    def take(self, samples: Iterable[Sample], time_s: float) -> None:
        engines: dict[tuple[str, ...], dict[str, float]] = {}
        devices: dict[tuple[str, str], dict[str, float]] = {}
        everywhere: dict[str, set[str]] = {}
        tasks: dict[str, float] | None = None
        for sample in samples:
            if not math.isfinite(sample.value):
                continue
            labels = sample.labels
            place = labels.get("instance", self._place)
            kind, numbers, scale = _TABLE.get(sample.name, ("", "", 1.0))
            if kind == _DEVICE:
                host = labels.get("Hostname") or labels.get("hostname") or labels.get("ip") or place
                number = labels.get("gpu") or labels.get("GpuIndex") or "0"
                devices.setdefault((host, number), {})[numbers] = sample.value * scale
            elif kind:
                if labels.get("tp_rank", "0") != "0":
                    continue
                which = " ".join(labels[name] for name in _WHICH if labels.get(name))
                if numbers == "syncing" and not which:
                    everywhere.setdefault(place, set()).update([numbers] if sample.value > 0 else [])
                    continue
                _add(engines.setdefault((kind, place, which), {}), numbers, sample)
            elif sample.name == "ray_tasks":
                tasks = {} if tasks is None else tasks
                if labels.get("State") in RUNNING and sample.value > 0:
                    tasks[labels.get("Name", "")] = tasks.get(labels.get("Name", ""), 0.0) + sample.value
            else:
                self._trainer(sample, place, time_s)
        for name, told_now in _joined(engines).items():
            is_syncing = bool(everywhere.get(name[1])) or told_now.get("syncing", 0.0) > 0
            self._engine(name, told_now, time_s, is_syncing=is_syncing)
        for key, told_now in devices.items():
            self._others["device", *key] = _device(self._source, time_s, *key, told_now)
        if tasks is not None:
            self._tasks(tasks, time_s)

    def facts(self, now_s: float) -> list[Fact]:
        alone = Counter(name[:2] for name in self._past)
        engines = [
            past.engine._replace(name=" ".join(name[:2]))
            if alone[name[:2]] == 1 and name[0] in ("vLLM", "SGLang")
            else past.engine
            for name, past in self._past.items()
        ]
        return [fact for fact in (*engines, *self._others.values()) if now_s - fact.time_s < KEPT_S]

    # -- updates by kind ---------------------------------------------------------------------------------------------

    def _engine(self, name: tuple[str, ...], numbers: Mapping[str, float], time_s: float, *, is_syncing: bool) -> None:
        kind, place, which = name
        several = f" {which}" if which else ""
        engine = InferenceEngine(
            self._source, time_s, f"{kind} {place}{several}",
            running=numbers.get("running", math.nan), waiting=numbers.get("waiting", math.nan),
            cache=numbers.get("cache", math.nan), preemptions=numbers.get("preemptions", math.nan),
            aborts=numbers.get("aborts", math.nan), is_asleep=numbers.get("asleep", 0.0) > 0, is_syncing=is_syncing,
            host=place.rpartition(":")[0] or place,
        )  # fmt: skip
        past = self._past.setdefault(name, _EngineHistory(engine))
        if past.counted and time_s <= past.counted[-1][0]:
            return
        past.counted.append((time_s, dict(numbers)))
        is_held = engine.is_asleep or is_syncing or numbers.get("paused", 0.0) > 0 or not engine.running > 0
        moved = tuple(numbers[each] for each in _MOVES if each in numbers)
        seen_s = past.engine.moved_s if moved == past.moved or not past.moved else time_s
        if is_held or not moved or moved != past.moved:
            # While paused, the time restarts at the first reply without a pause.
            past.moved, past.moved_s = (() if is_held else moved), time_s
        is_full = engine.cache >= FULL and engine.waiting > 0
        past.full_s = None if not is_full else time_s if past.full_s is None else past.full_s
        is_hung = time_s - past.moved_s >= HUNG_S
        past.engine = engine._replace(
            tokens_per_s=0.0 if is_hung else _rate(past.counted, numbers),
            moved_s=seen_s if moved else time_s,
            trouble=self._trouble(past, engine, numbers, time_s),
        )

    def _trouble(
        self, past: _EngineHistory, engine: InferenceEngine, numbers: Mapping[str, float], time_s: float
    ) -> str:
        if numbers.get("health", 1.0) == 0.0:
            return "not healthy"
        if time_s - past.moved_s >= HUNG_S:
            return f"{HANGS}: {engine.running:.0f} running, no new tokens for {units.duration(time_s - past.moved_s)}"
        if engine.is_asleep and engine.waiting > 0:
            return f"asleep with {engine.waiting:.0f} waiting"
        for name, words in (("aborts", "abort storm"), ("preemptions", "preemption storm")):
            count, times = _risen(past.counted, name, time_s)
            if times >= STORM_SAMPLES and count >= max(LEAST_STORM, _risen(past.counted, "finished", time_s)[0]):
                return f"{words}: {count:.0f} in {units.duration(WINDOW_S)}"
        if past.full_s is not None and time_s - past.full_s >= HUNG_S:
            return f"KV cache full, {engine.waiting:.0f} waiting"
        return ""

    def _trainer(self, sample: Sample, place: str, time_s: float) -> None:
        if sample.name == "skyrl_training_phase":
            phase = sample.labels.get("phase", "")
            if sample.value == 1.0:
                since_s = self._seen_s.setdefault(f"phase {phase}", time_s)
                self._others["phase", phase] = Process(
                    self._source, time_s, "trainer", phase, key_of(phase), since_s, is_seen=True
                )
            else:
                self._seen_s.pop(f"phase {phase}", None)
                self._others.pop(("phase", phase), None)
            return
        known = self._others.get(("trainer", place))
        process = known if isinstance(known, Process) else Process(self._source, time_s, "trainer")
        if sample.name == "trainer_step":
            process = process._replace(phase=f"step {sample.value + 1:.0f}")
        else:
            process = process._replace(since_s=sample.value)
        self._others["trainer", place] = process._replace(time_s=time_s)

    def _tasks(self, tasks: Mapping[str, float], time_s: float) -> None:
        """Calls running in a Ray cluster: the number of each, and the minimum time it has been running."""
        for key in [key for key in self._others if key[0] == "task" and key[1] not in tasks]:
            del self._others[key]
            self._seen_s.pop(f"task {key[1]}", None)
        for name, count in tasks.items():
            actor, _, method = name.rpartition(".")
            several = f"{actor} × {count:.0f}" if count > 1 else actor
            since_s = self._seen_s.setdefault(f"task {name}", time_s)
            self._others["task", name] = Process(
                self._source, time_s, several, method, key_of_method(method), since_s, is_seen=True
            )


def _add(numbers: dict[str, float], name: str, sample: Sample) -> None:
    labels, value = sample.labels, sample.value
    if name == "asleep":
        value = value if labels.get("sleep_state") != "awake" else 0.0
    elif name == "finished" and labels.get("finished_reason") == "abort":
        name = "aborts"
    numbers[name] = numbers.get(name, 0.0) + value if name in _SUMMED else max(numbers.get(name, 0.0), value)


def _joined(engines: dict[tuple[str, ...], dict[str, float]]) -> dict[tuple[str, ...], dict[str, float]]:
    for kind, place, which in [name for name, numbers in engines.items() if not name[2] and "running" not in numbers]:
        several = [name for name in engines if name[:2] == (kind, place) and name[2]]
        if several:
            front = engines.pop((kind, place, which))
        if len(several) == 1:
            engines[several[0]] = {**front, **engines[several[0]]}
    return engines


def _rate(counted: Sequence[tuple[float, dict[str, float]]], numbers: Mapping[str, float]) -> float:
    """Generated tokens per second: as reported, or computed since the last reply."""
    if "rate" in numbers:
        return numbers["rate"]
    if len(counted) < 2 or "made" not in numbers:
        return math.nan
    (before_s, before), (time_s, now) = counted[-2], counted[-1]
    risen = now["made"] - before.get("made", now["made"])
    return max(0.0, risen) / (time_s - before_s)


def _risen(counted: Sequence[tuple[float, dict[str, float]]], name: str, time_s: float) -> tuple[float, int]:
    values = [numbers[name] for at_s, numbers in counted if name in numbers and time_s - at_s <= WINDOW_S]
    steps = [max(0.0, after - before) for before, after in pairwise(values)]
    return sum(steps), sum(step > 0 for step in steps)


def _device(source: str, time_s: float, host: str, number: str, numbers: Mapping[str, float]) -> Device:
    used = numbers.get("memory_bytes", math.nan)
    xid = numbers.get("xid", 0.0)
    return Device(
        source, time_s, host, number, use=numbers.get("use", math.nan), memory_bytes=used,
        memory_total_bytes=used + numbers.get("free", math.nan), power_w=numbers.get("power_w", math.nan),
        temperature_c=numbers.get("temperature_c", math.nan), trouble=f"Xid {xid:.0f}" if xid else "",
    )  # fmt: skip


def is_undecided(engines: Sequence[InferenceEngine]) -> bool:
    """Whether an engine has requests, but has not yet been seen to progress or hang."""
    return any(
        each.running > 0 and each.moved_s is None and not (each.is_asleep or each.is_syncing or each.trouble)
        for each in engines
    )


def compared(engines: Sequence[InferenceEngine]) -> list[InferenceEngine]:
    """The engines, with a trouble text for one that is far slower than the others."""
    busy = [each for each in engines if each.running > 0 and each.tokens_per_s == each.tokens_per_s]
    if len(busy) < LEAST_ENGINES:
        return list(engines)
    found = []
    for each in engines:
        others = [other.tokens_per_s / other.running for other in busy if other is not each]
        usual = median(others)
        is_below = each in busy and not each.trouble and usual > 0
        if is_below and each.tokens_per_s / each.running < FAR_BELOW * usual:
            times = units.share(each.tokens_per_s / each.running / usual)
            found.append(each._replace(trouble=f"{times} of the tokens per request that the others make"))
        else:
            found.append(each)
    return found
