"""Has verifiers write the episodes in `fixtures/prime_rl`, laid out as prime-rl's file monitor does.

    python bench/make_fixtures/episodes.py fixtures/prime_rl

Needs the package verifiers (0.4) and orjson, and none of rltop.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import orjson
from verifiers.v1.configs.agent import WireAgentConfig
from verifiers.v1.episode import EnvInfo, Episode, GroupInfo, TrainRunInfo, TrainWorkInfo
from verifiers.v1.graph import MessageNode
from verifiers.v1.task import WireTaskData
from verifiers.v1.trace import AgentInfo, Error, ModelCall, Reward, Trace, TraceTask, VersionInfo
from verifiers.v1.types import AssistantMessage, SystemMessage, ToolCall, ToolMessage, Usage, UserMessage

START_S = 1_790_000_000.0
BUILD = VersionInfo(version="0.4.0")


def node(parent: int | None, message: Any, tokens: int, *, sampled: bool = False) -> MessageNode:
    """A message that adds `tokens` tokens to its branch, all sampled or none."""
    return MessageNode(
        parent=parent, message=message, sampled=sampled, timestamp=START_S,
        token_ids=list(range(tokens)), mask=[sampled] * tokens,
    )  # fmt: skip


def trace(name: str, step: int, group: int, i: int) -> Trace:
    """An answer with a tool call and a second turn; the third of a group is truncated, the last one fails."""
    question = f"What is {group} + {step}?"
    call = ToolCall(id="a", name="add", arguments=json.dumps({"x": group, "y": step}))
    nodes = [
        node(None, SystemMessage(content="Use the tool."), 5),
        node(0, UserMessage(content=question), 7),
        node(1, AssistantMessage(content="", tool_calls=[call]), 4 + i, sampled=True),
        node(2, ToolMessage(tool_call_id="a", content=str(group + step)), 2),
        node(3, AssistantMessage(content=f"The answer is {group + step}."), 10 + 3 * i, sampled=True),
    ]
    calls = [
        ModelCall(node=2, finish_reason="tool_calls", usage=Usage(prompt_tokens=12, completion_tokens=4 + i)),
        ModelCall(node=4, finish_reason="length" if i == 2 else "stop",
                  usage=Usage(prompt_tokens=20, completion_tokens=10 + 3 * i)),
    ]  # fmt: skip
    task = TraceTask(type="Addition", data=WireTaskData(idx=group, prompt=question), key=f"addition-{group}")
    return Trace(
        id=f"{step}-{group}-{i}", task=task, verifiers=BUILD, nodes=nodes, calls=calls, metrics={"turns": 2.0},
        agent=AgentInfo(config=WireAgentConfig(), name=name, trainable=name == "solver"),
        rewards={"correct": Reward(score=float(i % 2)), "brief": Reward(score=0.5, weight=0.2)} if i < 3 else {},
        is_completed=True, ok=i < 3, stop_condition=None if i < 3 else "error",
        errors=[] if i < 3 else [Error(type="ToolError", message="no such tool")],
    )  # fmt: skip


def episode(step: int, group: int, i: int) -> Episode:
    """One episode of a group: the solver's trace, and that of a judge that is not trained."""
    own = trace("solver", step, group, i)
    judge = trace("judge", step, group, i).model_copy(update={"id": f"judge-{step}-{group}-{i}"})
    return Episode(
        id=f"episode-{step}-{group}-{i}", env=EnvInfo(id="addition", name="sums"), task=own.task,
        group=GroupInfo(id=f"group-{group}"), ok=own.ok, traces=[own, judge],
        run=TrainRunInfo(id="run", work=TrainWorkInfo(step=step)),
    )  # fmt: skip


def main() -> None:
    """Write two steps with complete batches, and one that is still being generated."""
    folder = Path(sys.argv[1])
    for step, cohorts in ((1, ("all", "effective")), (2, ("all", "effective")), (3, ("all",))):
        for cohort in cohorts:
            path = folder / "rollouts" / f"step_{step}" / "train" / cohort / "traces.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                for group in range(2):
                    for i in range(4 if cohort == "all" else 3):
                        record = episode(step, group, i).to_record()
                        file.write(orjson.dumps(record, default=str, option=orjson.OPT_APPEND_NEWLINE))


if __name__ == "__main__":
    main()
