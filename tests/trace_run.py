"""Chrome traces as trainers write them: RLinf's tracer, one event per line, and the array that browsers read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

START_US = 1_790_000_000_000_000
Event = dict[str, object]


@dataclass
class TraceRun:
    """Events of a runner and its workers; times in seconds from the start."""

    events: list[Event] = field(default_factory=list)

    def span(self, pid: str, name: str, start_s: float, end_s: float, cat: str = "runner", **args: object) -> TraceRun:
        """Add a begin and an end event."""
        begin: Event = {"name": name, "cat": cat, "ph": "B", "ts": stamp(start_s), "pid": pid, "tid": "main"}
        if args:
            begin["args"] = args
        self.events += [begin, {"name": name, "cat": cat, "ph": "E", "ts": stamp(end_s), "pid": pid, "tid": "main"}]
        return self

    def ordered(self) -> list[Event]:
        """The events in writing order: by time, outer begins before inner ones."""
        return sorted(self.events, key=lambda event: (event["ts"], event["ph"] == "B"))

    def lines(self) -> bytes:
        return b"".join(json.dumps(event).encode() + b"\n" for event in self.ordered())

    def array(self, *, is_closed: bool = False, indent: int | None = None) -> bytes:
        """An array; not closed while it is still being written."""
        text = "[\n" + ",\n".join(json.dumps(event, indent=indent) for event in self.ordered())
        return (text + ("\n]\n" if is_closed else ",\n")).encode()

    def document(self) -> bytes:
        """An object that contains the events, on one line."""
        return json.dumps({"displayTimeUnit": "ms", "traceEvents": self.ordered(), "otherData": {"a": {}}}).encode()


def stamp(seconds: float) -> int:
    return START_US + round(seconds * 1e6)


def embodied(
    steps: Sequence[int] = range(8), ranks: int = 4, slow_rank: int = -1, *, is_numbered: bool = True
) -> TraceRun:
    """An embodied run of RLinf: weights, rollouts with concurrent simulators, advantages, training; every 10 s."""
    run = TraceRun()
    for pid in ("driver", *(f"{group}:{rank}" for group in ("ActorGroup", "EnvGroup") for rank in range(ranks))):
        run.events.append(
            {"name": "process_name", "ph": "M", "ts": stamp(-1.0), "pid": pid, "tid": "main", "args": {"name": pid}}
        )
    for at, step in enumerate(steps):
        begin = 10.0 * at
        args = {"step_idx": step} if is_numbered else {}
        run.span("driver", "step", begin, begin + 9.5, **args)
        run.span("driver", "sync_weights", begin + 0.1, begin + 0.6)
        run.span("driver", "generate_rollouts", begin + 0.6, begin + 5.6)
        run.span("driver", "cal_adv_and_returns", begin + 5.6, begin + 5.9)
        run.span("driver", "actor_training", begin + 5.9, begin + 9.4)
        for rank in range(ranks):
            slow = 1.4 if rank == slow_rank else 1.0
            run.span(f"ActorGroup:{rank}", "run_training", begin + 6.0, begin + 6.0 + 2.0 * slow, "ActorGroup")
            run.span(f"EnvGroup:{rank}", "interact", begin + 0.7, begin + 4.7 + 0.1 * rank, "EnvGroup")
            run.span(f"EnvGroup:{rank}", "env_step", begin + 1.0, begin + 1.5, "EnvGroup")
    return run
