"""Episodes of verifiers → completions of a step: prime-rl's `rollouts/step_<N>/train/…/traces.jsonl`.

A line is an episode, with a trace for each agent that took part: a graph of messages of which some were sampled.
Owns where the files are and what their fields mean. Sources: `verifiers/v1/{episode,trace,graph}.py` of verifiers 0.4,
`src/prime_rl/monitors/file.py` of prime-rl.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from rltop.files import open_regular
from rltop.formats.rollouts.files import MAX_FILES, StepFiles
from rltop.formats.rollouts.lines import MAX_LINE_BYTES, parsed, rows_of_file
from rltop.formats.rollouts.rows import Row, finite, placed, read_text, text_of
from rltop.formats.rows import MAX_STEP
from rltop.model.completions import Completion, RolloutText, TextPlace
from rltop.regex import regex

TRACES = "traces.jsonl"
_STEP_FOLDER = regex(r"^step_(\d{1,15})$")
_COHORTS = ("train/effective", "train/all")
"""What was trained on, where that is written yet; else all that was generated."""
_LIMITS = frozenset({"max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "context_length"})
"""Conditions with which verifiers stops an agent that has gone on for too long."""


def holds_episodes(folder: Path) -> bool:
    """Has a folder one for each step, as prime-rl makes them?"""
    return any(next(folder.glob(f"step_*/{cohort}/{TRACES}"), None) is not None for cohort in _COHORTS)


class EpisodeFiles(StepFiles):
    """A folder with a file of episodes for each step; those that were trained on, once they are known."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder, "jsonl", "")

    def refresh(self) -> bool:
        """List the folder again."""
        names: dict[int, str] = {}
        try:
            with os.scandir(self.path) as entries:
                for i, entry in enumerate(entries):
                    match = _STEP_FOLDER.match(entry.name)
                    if i >= MAX_FILES:
                        break
                    if match is None or int(match[1]) > MAX_STEP:
                        continue
                    places = (f"{entry.name}/{cohort}/{TRACES}" for cohort in _COHORTS)
                    found = next((each for each in places if Path(self.path, each).is_file()), "")
                    if found:
                        names[int(match[1])] = found
            self._error = ""
        except OSError as error:
            self._error = f"{self.path}: {error.strerror or 'cannot be listed'}"
        self._names, self._steps = names, sorted(names)
        return False

    def _rows_of(self, path: str) -> list[Completion]:
        with open_regular(path) as file:
            return [
                placed(answer, TextPlace(path, line.start, len(line.data))).completion
                for line, row in rows_of_file(file)
                for answer in answers_of(row)
            ]

    def text(self, completion: Completion) -> RolloutText | None:
        """Read a trace whole."""
        if not completion.places or not completion.places[0].path.startswith(f"{self.path}{os.sep}"):
            return None
        path, start, size = completion.places[0]
        try:
            with open_regular(path) as file:
                file.seek(start)
                row = parsed(file.read(min(size, MAX_LINE_BYTES)))
        except OSError:
            return None
        answers = answers_of(row) if row is not None else ()
        return next((read_text(each) for each in answers if each["sample"] == completion.number), None)


def answers_of(episode: Row) -> Iterator[Row]:
    """The traces of an episode that the policy made, as rows of a dump of our own."""
    traces = [each for each in _list(episode.get("traces")) if isinstance(each, Mapping)]
    own = [each for each in traces if _map(each.get("agent")).get("trainable") is not False]
    task = _map(episode.get("task"))
    group = _map(episode.get("group")).get("id") or task.get("key") or task.get("hash")
    for i, trace in enumerate(own or traces):
        nodes = [each for each in _list(trace.get("nodes")) if isinstance(each, Mapping)]
        calls = [each for each in _list(trace.get("calls")) if isinstance(each, Mapping)]
        first = next((at for at, node in enumerate(nodes) if node.get("sampled")), len(nodes))
        sampled = [_map(node.get("message")) for node in nodes if node.get("sampled")]
        answer = {
            "group": group,
            "sample": text_of(trace.get("id")) or f"{text_of(episode.get('id'))}/{i}",
            "reward": _reward(_map(trace.get("rewards"))),
            "completion_tokens": _tokens(nodes, calls),
            "stop_reason": _stop(trace, calls),
            "is_truncated": _is_cut(trace, calls),
            "turns": len(sampled),
            "tool_calls": sum(len(_list(message.get("tool_calls"))) for message in sampled),
            "discard_reason": _failure(trace),
            "prompt": [node.get("message") for node in nodes[:first]],
            "completion": [node.get("message") for node in nodes[first:]],
            "env": _map(episode.get("env")).get("name") or _map(episode.get("env")).get("id"),
            "agent_name": _map(trace.get("agent")).get("name"),
            "metrics": trace.get("metrics"),
            "rewards_by_name": {key: _map(each).get("score") for key, each in _map(trace.get("rewards")).items()},
        }
        yield {key: value for key, value in answer.items() if value is not None}


def _map(value: object) -> Row:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _reward(rewards: Row) -> float | None:
    """The weighted sum of what the reward functions gave; None where nothing was scored."""
    given = [
        score * (1.0 if (weight := finite(_map(each).get("weight"))) is None else weight)
        for each in rewards.values()
        if (score := finite(_map(each).get("score"))) is not None
    ]
    return sum(given) if given else None


def _tokens(nodes: list[Row], calls: list[Row]) -> float | None:
    """Sampled tokens: those that are marked so, else what the calls of the model were charged with."""
    marked = sum(sum(map(bool, _list(node.get("mask")))) for node in nodes)
    if marked:
        return float(marked)
    used = [finite(_map(call.get("usage")).get("completion_tokens")) for call in calls]
    counted = [each for each in used if each is not None]
    return sum(counted) if counted else None


def _last(calls: list[Row]) -> Row:
    """The last call that did not fail."""
    return next((call for call in reversed(calls) if not call.get("error")), {})


def _stop(trace: Row, calls: list[Row]) -> object:
    return trace.get("stop_condition") or _last(calls).get("finish_reason")


def _is_cut(trace: Row, calls: list[Row]) -> bool:
    return trace.get("stop_condition") in _LIMITS or _last(calls).get("finish_reason") == "length"


def _failure(trace: Row) -> str | None:
    """What a trace that failed was left out for."""
    errors = [_map(each).get("type") for each in _list(trace.get("errors"))]
    return text_of(errors[-1]) or "failed" if trace.get("ok") is False and errors else None
