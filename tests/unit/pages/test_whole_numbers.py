"""On no page is a number cut, whatever the size of the screen: one cut in half lies."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from rltop import resources
from rltop.app.plot_pane import paint_chart
from rltop.pages.arrange import ArrangePage
from rltop.pages.changes import ChangePage
from rltop.pages.directory import STANDING
from rltop.pages.metric import MetricPage
from rltop.pages.overlay import GridPage
from rltop.pages.page import Moment, Page
from rltop.pages.verdict import VerdictPage
from rltop.rows.glyphs import UNICODE
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot
from tests.screens import session_over

CUT = re.compile(r"(?:^|[\s(@×+−±])\d[\d,.]*…(?!\d)")
"""A number before an ellipsis; behind one stands the other end of a range."""

FIXTURES = resources.folder("fixtures")
RUNS = {
    "verl/tool_slowdown/metrics.jsonl": ((40, 12), (80, 24)),
    "incidents/collapse_at_257/metrics.jsonl": ((60, 16), (120, 40)),
}


def cut_numbers(session: Session, width: int, height: int) -> list[str]:
    run = session.runs[0]
    makes: list[Callable[[], Page]] = [*STANDING.values(), ChangePage, ArrangePage, GridPage]
    makes += [lambda key=key: MetricPage(key) for key in sorted(run.main.stream.keys)[::5]]  # type: ignore[misc]
    makes += [lambda rule=one.rule: VerdictPage(rule) for one in run.verdicts]  # type: ignore[misc]
    moment = Moment(Snapshot(run), UNICODE, runs=session.runs, draw_chart=paint_chart, version=run.version)
    found = []
    for make in makes:
        page = make()
        for row in page.rows(moment, width, height):
            text = row.text
            found += [f"{type(page).__name__}: {text}"] if CUT.search(text) else []
    return found


@pytest.mark.parametrize(("path", "sizes"), RUNS.items())
def test_no_number_is_cut(path: str, sizes: tuple[tuple[int, int], ...]) -> None:
    session = session_over(FIXTURES / path)
    session.drain()
    for size in sizes:
        assert cut_numbers(session, *size) == [], size
