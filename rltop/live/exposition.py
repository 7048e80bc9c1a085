"""The text of a metrics endpoint → samples: lines are chosen by their name before anything is parsed.

A trainer's node gives out two megabytes, of which twenty lines count: parsed whole they take 430 ms, chosen first 5.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rltop.regex import regex
from rltop.structs import NamedTuple

MOST_SAMPLES = 20_000
_LONGEST_LINE = 8_192


class Sample(NamedTuple):
    """One value.

    Attributes:
        value: may be NaN.
        time_s: when it was taken, where that is said; seconds since the epoch.
    """

    name: str
    labels: Mapping[str, str]
    value: float
    time_s: float | None = None


def plain_name(name: str) -> str:
    """One spelling of a metric: `ray_vllm:num_x`, `ray_vllm_num_x` and `vllm:num_x` are `vllm_num_x`."""
    plain = name.replace(":", "_")
    inner = plain.removeprefix("ray_")
    return inner if inner.startswith(("vllm_", "sglang_", "skyrl_")) else plain


def lines_of(*prefixes: bytes) -> re.Pattern[bytes]:
    """What finds lines by how they begin, in a fifth of the time that it takes to make all lines."""
    return regex(rb"\n((?:%b)[^\n]{0,%d})(?=\n|\Z)" % (b"|".join(map(re.escape, prefixes)), _LONGEST_LINE))


def samples(data: bytes, lines: re.Pattern[bytes], names: frozenset[str] | set[str]) -> Iterator[Sample]:
    """The samples of some metrics in the text of an endpoint; lines that are none are passed over."""
    # Its package starts with several modules that nobody needs who watches no endpoint.
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
