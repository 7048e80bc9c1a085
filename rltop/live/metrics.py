"""Probes of metrics: an endpoint that is asked itself, and a Prometheus that has asked it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rltop.live.endpoint import ANSWER_S, Endpoint
from rltop.live.engines import LINES, NAMES, MetricsReader
from rltop.live.exposition import Sample, plain_name, samples
from rltop.live.probe import Fact, ProbeError
from rltop.regex import regex

EVERY_S, EVERY_SERVER_S = 5.0, 15.0
BACK_S = 150
"""What a server has of the last seconds tells at once whether an engine goes on."""
_WITH_COLON = regex(r"(vllm|sglang)_(?!router)")


class MetricsProbe:
    """One `/metrics`."""

    every_s, patience_s = EVERY_S, ANSWER_S + 1.0

    def __init__(self, endpoint: Endpoint) -> None:
        self.source = endpoint.address.url
        self._endpoint = endpoint
        self._reader = MetricsReader(self.source, endpoint.address.place)

    def ask(self, now_s: float) -> Sequence[Fact]:
        """What it says now.

        Raises:
            ProbeError: none of the names is known.
            EndpointError: there is no answer.
        """
        data = self._endpoint.get()
        self._reader.take(samples(data, LINES, NAMES), now_s)
        facts = self._reader.facts(now_s)
        if not facts:
            raise ProbeError("tells of no engine, device, trainer or Ray task")
        return facts

    def close(self) -> None:
        """Nothing is held between two questions."""


class PrometheusProbe:
    """A server with the HTTP API of Prometheus: Prometheus, VictoriaMetrics, Thanos, Mimir."""

    every_s, patience_s = EVERY_SERVER_S, ANSWER_S + 1.0

    def __init__(self, endpoint: Endpoint) -> None:
        from urllib.parse import quote  # noqa: PLC0415 - only with an address

        self.source = endpoint.address.url
        self._endpoint = endpoint
        self._reader = MetricsReader(self.source, endpoint.address.place)
        # A range without an evaluation: samples with their own times, which an instant query replaces by its own.
        question = quote(f'{{__name__=~"{_pattern()}"}}[{BACK_S}s]', safe="")
        self._path = f"{endpoint.address.path.rstrip('/')}/api/v1/query?query={question}"

    def ask(self, now_s: float) -> Sequence[Fact]:
        """What it has of the last minutes.

        Raises:
            ProbeError: it has nothing of what is known, or is no such server.
            EndpointError: there is no answer.
        """
        by_time: dict[float, list[Sample]] = {}
        for sample in _matrix(self._endpoint.get(self._path)):
            assert sample.time_s is not None
            by_time.setdefault(sample.time_s, []).append(sample)
        for time_s in sorted(by_time):
            self._reader.take(by_time[time_s], time_s)
        facts = self._reader.facts(now_s)
        if not facts:
            raise ProbeError(f"has no sample of an engine, device, trainer or Ray task in the last {BACK_S} s")
        return facts

    def close(self) -> None:
        """Nothing is held between two questions."""


def _pattern() -> str:
    names = {_WITH_COLON.sub(r"(ray_)?\1[:_]", name) for name in NAMES}
    names.add("ray_skyrl_training_phase")
    return "|".join(sorted(names))


def _matrix(data: bytes) -> list[Sample]:
    """The samples of an answer, at most those of one scrape each time.

    Raises:
        ProbeError: it is no answer of Prometheus.
    """
    try:
        answer = json.loads(data)
        found: list[dict[str, Any]] = answer["data"]["result"]
        return [
            Sample(plain_name(series["metric"]["__name__"]), series["metric"], float(value), float(time_s))
            for series in found
            for time_s, value in series["values"]
        ]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ProbeError(f"does not answer as Prometheus does: {type(error).__name__}") from error
