"""Processes in groups by what they are in, those first that others wait for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rltop import units
from rltop.formats.console.failures import ranges
from rltop.live.lines import words_of
from rltop.live.probe import InferenceEngine, Process
from rltop.structs import NamedTuple

NAMED = 4
"""Of a group of no more each process is named."""
LEAST_TOGETHER = 3
"""Of fewer processes of a kind none is outside of what the others do."""
_ORDER = {"dead": 0, "running": 1, "unknown": 2, "idle": 3}


class ProcessGroup(NamedTuple):
    """Processes that are in the same.

    Attributes:
        phase: what they are in, in their own words; empty where they are in nothing, or that is not known.
        key: of the phase, or empty.
        is_outside: most processes of their kind are elsewhere: in a collective the others wait for these.
    """

    state: str
    phase: str
    key: str
    members: Sequence[Process]
    is_outside: bool = False

    @property
    def since_s(self) -> float | None:
        return min((each.since_s for each in self.members if each.since_s is not None), default=None)

    @property
    def what(self) -> str:
        if self.state == "running":
            return f"in {self.phase}" if self.phase else "running"
        if self.state == "unknown":
            return "not known in what"
        return self.state

    @property
    def who(self) -> str:
        """Which they are: ranks, else process ids on hosts, else hosts; of many without any of these, nothing."""
        ranks = sorted({each.rank for each in self.members if each.rank is not None})
        hosts = sorted({each.host for each in self.members if each.host})
        at = f" on {', '.join(hosts)}" if 0 < len(hosts) <= NAMED else f" on {len(hosts)} hosts" if hosts else ""
        if ranks:
            return f"rank {ranks[0]}{at}" if len(ranks) == 1 else f"ranks {ranges(ranks)}{at}"
        if len(self.members) > NAMED:
            return at.strip()
        named = [f"pid {each.pid}" if each.pid is not None else each.name for each in self.members]
        return f"{', '.join(filter(None, named))}{at}".strip()


def grouped(processes: Sequence[Process]) -> list[ProcessGroup]:
    """The groups, worst first: dead ones, those outside of what most others do, then the larger ones."""
    groups: dict[tuple[str, str, str, str], list[Process]] = {}
    for each in processes:
        groups.setdefault((each.name, each.state, each.phase, each.key), []).append(each)
    total = Counter(each.name for each in processes)
    most = {name: max(len(group) for key, group in groups.items() if key[0] == name) for name in total}
    found: dict[tuple[str, str, str, bool], list[Process]] = {}
    for (name, state, phase, key), members in groups.items():
        is_outside = (
            total[name] >= LEAST_TOGETHER
            and 2 * most[name] > total[name]
            and len(members) < most[name]
            and state != "unknown"
        )
        found.setdefault((state, phase, key, is_outside), []).extend(members)
    made = [
        ProcessGroup(state, phase, key, members, outside) for (state, phase, key, outside), members in found.items()
    ]
    return sorted(
        made,
        key=lambda one: (
            one.state != "dead",
            not one.is_outside,
            len(one.members) if one.is_outside else -len(one.members),
            _ORDER.get(one.state, 9),
            one.phase,
        ),
    )


def group_in_words(group: ProcessGroup, now_s: float | None = None) -> str:
    """`1 in compute_log_prob for ≥ 14 min: node-5`; without a time `1 in compute_log_prob: node-5`."""
    who = group.who
    if group.state == "dead":
        causes = sorted({each.cause for each in group.members if each.cause})
        return f"{len(group.members)} dead{f': {who}' if who else ''}{f': {causes[0]}' if causes else ''}"
    words = words_of(group.key, "") if group.key and group.state == "running" else ""
    said = f" ({words})" if words and words != group.phase else ""
    lasts = ""
    if now_s is not None and group.since_s is not None and group.state == "running":
        least = "≥ " if all(each.is_seen for each in group.members) else ""
        lasts = f" for {least}{units.duration(max(0.0, now_s - group.since_s))}"
    return f"{len(group.members)} {group.what}{said}{lasts}{f': {who}' if who else ''}"


def engine_in_words(engine: InferenceEngine) -> str:
    """`vLLM 000: 8 running, 0 waiting, 512 tokens/s, KV cache 40 %`."""
    parts = [engine.trouble] if engine.trouble else []
    if engine.is_asleep:
        parts.append("asleep")
    if engine.is_syncing:
        parts.append("updating weights")
    told = ((engine.running, "running"), (engine.waiting, "waiting"))
    parts += [f"{units.count(int(value))} {word}" for value, word in told if value == value]
    if engine.tokens_per_s == engine.tokens_per_s:
        parts.append(f"{units.number(engine.tokens_per_s)} tokens/s")
    if engine.cache == engine.cache:
        parts.append(f"KV cache {units.share(engine.cache)}")
    return f"{engine.name}: {', '.join(parts) or 'says nothing'}"
