"""The table of pages: which page a key opens, and which a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from rltop.pages.metric import MetricPage
from rltop.pages.metrics import MetricsPage
from rltop.pages.moment import Moment
from rltop.pages.numbered import NumberedPage
from rltop.pages.overview import OverviewPage
from rltop.pages.page import Page
from rltop.pages.run_settings import SettingsPage
from rltop.pages.runs import RunsPage
from rltop.pages.stragglers import RanksPage
from rltop.pages.timeline import EventsPage
from rltop.pages.timing import TimingPage
from rltop.pages.verdict import VerdictPage
from rltop.rows.rows import Target, TargetKind

FIRST = "overview"
"""The page that Escape leads back to."""


def _flow() -> Page:
    from rltop.pages.flow import FlowPage  # noqa: PLC0415 - most runs generate and train in turn

    return FlowPage()


def _where() -> Page:
    from rltop.pages.where import WherePage  # noqa: PLC0415 - only for who looks at a job

    return WherePage()


STANDING: Mapping[str, Callable[[], Page]] = MappingProxyType(
    {
        FIRST: OverviewPage,
        "timing": TimingPage,
        "flow": _flow,
        "where": _where,
        "metrics": MetricsPage,
        "timeline": EventsPage,
        "runs": RunsPage,
        "settings": SettingsPage,
    }
)
"""Pages of which there is one each, with its state, for as long as the program runs; by the id of their key."""


def _verdict_of_event(target: Target, moment: Moment) -> Page:
    event = moment.snapshot.events[target.step or 0]
    return VerdictPage(event.rule, event.step, event.stream)


def _rollouts(target: Target, moment: Moment) -> Page:
    del target, moment
    from rltop.pages.completions import CompletionsPage  # noqa: PLC0415 - few runs have any
    from rltop.pages.rollouts import RolloutsPage  # noqa: PLC0415

    return RolloutsPage(CompletionsPage)


def _comparison(target: Target, moment: Moment) -> Page:
    del target, moment
    from rltop.pages.compare import ComparePage  # noqa: PLC0415 - few sessions compare anything

    return ComparePage()


def _symptom(target: Target, moment: Moment) -> Page:
    del moment
    from rltop.pages.symptom import SymptomPage  # noqa: PLC0415 - few sessions ask for one

    return SymptomPage(target.name, target.stream)


def _rule(target: Target, moment: Moment) -> Page:
    del moment
    from rltop.pages.rule_menu import RuleMenuPage  # noqa: PLC0415 - few sessions change a rule

    return RuleMenuPage(target.name, target.stream)


def _log(target: Target, moment: Moment) -> Page:
    del target, moment
    from rltop.pages.log import LogPage  # noqa: PLC0415 - few sessions look at one

    return LogPage()


def _grid(target: Target, moment: Moment) -> Page:
    del moment
    from rltop.pages.grid import GridPage  # noqa: PLC0415 - loads what compares runs

    return GridPage(of_runs=bool(target.name))


OPENED: Mapping[TargetKind, Callable[[Target, Moment], Page]] = MappingProxyType(
    {
        TargetKind.METRIC: lambda target, _: MetricPage(target.name, target.stream),
        TargetKind.VERDICT: lambda target, _: VerdictPage(target.name, target.step, target.stream),
        TargetKind.EVENT: _verdict_of_event,
        TargetKind.STEP: lambda _, __: TimingPage(),
        TargetKind.TIMING: lambda target, _: TimingPage(target),
        TargetKind.FLOW: lambda _, __: _flow(),
        TargetKind.WHERE: lambda _, __: _where(),
        TargetKind.NUMBERED: lambda target, _: NumberedPage(target.name, target.stream),
        TargetKind.RANKS: lambda _, __: RanksPage(),
        TargetKind.SECTION: lambda target, _: MetricsPage(target.name),
        TargetKind.STRAGGLERS: _rollouts,
        TargetKind.COMPARE: _comparison,
        TargetKind.GRID: _grid,
        TargetKind.LOG: _log,
        TargetKind.SYMPTOM: _symptom,
        TargetKind.RULE: _rule,
    }
)
"""Pages that are opened on top of others, anew each time; by what leads to them."""
