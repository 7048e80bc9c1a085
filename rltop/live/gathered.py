"""What sources beside the log say, taken together with what the log says: `Where` with engines, devices, job and ranks.

The log and its times lead; a source that hangs or is silent takes nothing away. States that are bad by definition (an
engine that hangs, one that is asleep while samples are awaited) need no usual time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from rltop import units
from rltop.live.engines import HANGS, compared
from rltop.live.judge import NO_USUAL_S, Where
from rltop.live.lines import words_of
from rltop.live.probe import GONE, Device, Facts, InferenceEngine, Job, Process, Silence

WAITS_FOR_ENGINES = frozenset({"generate", "validation", "weight_sync"})
AWAKE_S = 60.0
"""So long a phase may be open that needs engines which are still asleep."""
IDLE = 0.05
"""A device that is busy for a smaller share of the time does nothing."""


def gathered(
    where: Where, facts: Facts, silences: Sequence[Silence], now_s: float, checkpoint: int | None = None
) -> Where:
    """Where a job is, by everything that tells.

    Args:
        where: by its log, with the processes and engines of all sources.
    """
    where = where._replace(
        devices=facts.devices,
        silences=tuple(silences),
        checkpoint=checkpoint,
        engines=sorted(_awaited(compared(where.engines), where, now_s), key=lambda each: not each.trouble),
    )
    open_s = 0.0 if where.since is None else now_s - where.since
    if where.state == "running" and where.source != where.log and where.usual_s is None and open_s >= NO_USUAL_S:
        where = where._replace(state="stuck")  # by its processes, of which nothing tells what they usually take
    where = _with_engines(where)
    where = _with_job(where, facts.jobs, now_s, checkpoint)
    if where.state in ("stuck", "unknown") and where.cause is None:
        dead = next((each for each in where.ranks if each.state == "dead"), None)
        where = where if dead is None else where._replace(cause=f"{_of(dead)} died: {dead.cause}")
    return where


def _awaited(engines: Sequence[InferenceEngine], where: Where, now_s: float) -> list[InferenceEngine]:
    open_s = now_s - where.since if where.since is not None and where.state in ("running", "stuck") else 0.0
    if where.phase_key not in ("generate", "validation") or open_s < AWAKE_S:
        return list(engines)
    words = f"asleep while {words_of(where.phase_key, '')} for {units.duration(open_s)}"
    return [each._replace(trouble=words) if each.is_asleep and not each.trouble else each for each in engines]


def _with_engines(where: Where) -> Where:
    if where.state not in ("running", "stuck", "unknown"):
        return where
    hung = [each for each in where.engines if each.trouble.startswith(HANGS)]
    busy = [each for each in where.engines if each.running > 0]
    bad = next((each for each in (*hung, *where.engines) if each.trouble), None)
    if hung and len(hung) == len(busy):
        where = where._replace(state="stuck")
        if where.phase is None:
            where = where._replace(phase=words_of("generate", ""), phase_key="generate")
    if bad is not None:
        others = sum(bool(each.trouble) for each in where.engines) - 1
        more = f" (and {others} more)" if others else ""
        return where._replace(unusual=True, cause=where.cause or f"{bad.name} {bad.trouble}{more}")
    if where.phase_key in WAITS_FOR_ENGINES:
        quiet = next((each for each in where.silences if each.source.startswith(("http://", "https://"))), None)
        if quiet is not None:
            return where._replace(unusual=True, cause=where.cause or f"{quiet.source}: {quiet.reason}")
    return where


def _with_job(where: Where, jobs: Sequence[Job], now_s: float, checkpoint: int | None) -> Where:
    job = next((each for each in jobs if each.id == where.job), None)
    if job is not None:
        limit = job.trouble or limit_words(where, job.ends_s, now_s, checkpoint)
        return where._replace(limit=limit, ends_s=job.ends_s, gpus=job.gpus)
    gone = next((each for each in where.silences if GONE in each.reason), None)
    if gone is None or where.state not in ("stuck", "unknown"):
        return where
    # Whether a job was done that says neither how far it was to go nor what it was in, nobody can tell.
    is_broken_off = where.phase is not None or (where.total is not None and (where.step or 0) < where.total)
    return where._replace(state="dead" if is_broken_off else "unknown", cause=where.cause or gone.reason)


def limit_words(where: Where, ends_s: float | None, now_s: float, checkpoint: int | None = None) -> str:
    """What the limit of a job means for it: `ETA 14 h, limit in 6 h: stops near step 1,840; last checkpoint 1,800`.

    Args:
        where: with the steps of the run and what one takes.
    """
    if ends_s is None or where.state not in ("running", "stuck", "unknown"):
        return ""
    left_s = max(0.0, ends_s - now_s)
    limit = f"limit in {units.duration(left_s)}"
    if where.step is None or not where.step_s:
        return limit
    saved = "" if checkpoint is None else f"; last checkpoint {units.step(checkpoint)}"
    # Of the step that is open a part has been done; one that is overdue ends now at best.
    done_s = 0.0 if where.stepped_s is None else min(max(0.0, now_s - where.stepped_s), where.step_s)
    stops = f"stops near step {units.step(where.step + int((left_s + done_s) / where.step_s))}{saved}"
    if where.total is None:
        return f"{limit}: {stops}"
    eta_s = where.step_s * max(0, where.total - where.step)
    return f"ETA {units.duration(eta_s)}, {limit}" + (f": {stops}" if eta_s > left_s else "")


def _of(process: Process) -> str:
    rank = "" if process.rank is None else f" rank {process.rank}"
    return f"{process.name}{rank}" + (f" on {process.host}" if process.host else "")


def devices_in_words(devices: Sequence[Device]) -> list[str]:
    """What devices do, a line for each host: `node-3: 8 devices, 1 % busy, 569 GB of 640 GB, 61 °C at most, Xid 79`."""
    lines = []
    for host in dict.fromkeys(each.host for each in devices):
        here = [each for each in devices if each.host == host]
        parts = [f"{len(here)} device{'s' if len(here) > 1 else ''}"]
        if uses := _known(each.use for each in here):
            parts.append(f"{units.share(sum(uses) / len(uses))} busy")
        used, total = _known(each.memory_bytes for each in here), _known(each.memory_total_bytes for each in here)
        if used and total:
            parts.append(f"{units.size(round(sum(used)))} of {units.size(round(sum(total)))}")
        if powers := _known(each.power_w for each in here):
            parts.append(f"{sum(powers):,.0f} W")
        if heat := _known(each.temperature_c for each in here):
            parts.append(f"{max(heat):.0f} °C at most")
        lines.append(f"{host}: {', '.join(parts + sorted({each.trouble for each in here if each.trouble}))}")
    return lines


def idle_in_words(where: Where) -> str:
    """That devices do nothing while a phase is open; empty where they do, or nobody tells."""
    uses = _known(each.use for each in where.devices)
    if not uses or where.phase is None or where.state not in ("running", "stuck") or max(uses) >= IDLE:
        return ""
    return f", {len(uses)} device{'s' if len(uses) > 1 else ''} at {units.share(sum(uses) / len(uses))}"


def _known(values: Iterable[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]
