"""The style sheet of a report: light, dark and printed, by the same roles as on the screen."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

LIGHT: Mapping[str, str] = MappingProxyType(
    {
        "ground": "#ffffff", "panel": "#f5f7f9", "text": "#1b2430", "dim": "#576270", "rule": "#c4ccd6",
        "grid": "#e6eaef", "raw": "#a9c1d2", "band": "#cfe0ec", "spark": "#0b6396",
        "ok": "#1a7438", "info": "#0a5fc2", "warn": "#8a5a00", "crit": "#c2202c",
        "baseline": "#4f55ad", "threshold": "#ad4a08", "restart": "#86389b", "cursor": "#6b5d00",
        "stage-0": "#3c7fbd", "stage-1": "#c98324", "stage-2": "#4a9c68", "stage-3": "#ab5f88", "stage-4": "#6f64c4",
        "stage-5": "#a08d26", "stage-6": "#37928d", "stage-7": "#c05f58", "other": "#9aa4b0",
    }
)  # fmt: skip
DARK: Mapping[str, str] = MappingProxyType(
    {
        "ground": "#0f1318", "panel": "#171c23", "text": "#d3d9e0", "dim": "#98a2ae", "rule": "#3a4552",
        "grid": "#232a33", "raw": "#3f5f70", "band": "#1d3442", "spark": "#7cc7e8",
        "ok": "#63c98b", "info": "#6cb6ff", "warn": "#f0b429", "crit": "#ff6b68",
        "baseline": "#8f9bd8", "threshold": "#e58f5b", "restart": "#d58be0", "cursor": "#e8d27a",
        "stage-0": "#5b9bd5", "stage-1": "#e0a458", "stage-2": "#6fbf8b", "stage-3": "#c27ba0", "stage-4": "#8f86d9",
        "stage-5": "#c9b458", "stage-6": "#5bb5b0", "stage-7": "#d9827b", "other": "#707b87",
    }
)  # fmt: skip
"""Colours by name. Text has a contrast of 4.5 to 1 or more with the ground and the panels (WCAG AA)."""

TEXTS: Mapping[str, str] = MappingProxyType(
    {
        "dim": "dim", "key": "dim", "unit": "dim", "note": "dim", "axis": "dim", "nodata": "dim", "rule": "dim",
        "value": "text", "strong": "text", "title": "text", "ok": "ok", "live": "ok", "info": "info", "warn": "warn",
        "paused": "warn", "crit": "crit", "spark": "spark", "spark-mark": "crit", "baseline": "baseline",
        "threshold": "threshold", "restart": "restart", "cursor": "cursor",
    }
)  # fmt: skip
"""Roles of text, and of lines in charts → colour."""

SERIES = 8
"""Runs that can be told apart in one chart."""

_CHARTS = """\
svg { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
text { fill: var(--text); font-variant-numeric: tabular-nums; }
text.strong, tspan.strong { font-weight: 600; }
text.axis { font-size: 11px; }
text.sign { font-size: 12px; }
line.grid { stroke: var(--grid); }
line.rule { stroke: var(--rule); }
line.level { stroke-dasharray: 9 4; stroke-width: 1.4; }
line.level.threshold { stroke-dasharray: 2.5 3; }
line.mark { stroke-width: 1.2; stroke-dasharray: 1.5 2.5; }
polyline.curve { fill: none; stroke-linejoin: round; stroke-linecap: round; }
polyline.raw { stroke: var(--raw); stroke-width: 1; }
polyline.smooth { stroke: var(--spark); stroke-width: 1.8; }
polyline.note { stroke: var(--rule); stroke-width: 1; }
polyline.series { stroke-width: 1.8; }
circle.dot { fill: var(--spark); }
circle.raw { fill: var(--raw); }
rect.outside { opacity: 0.55; }
polygon.band { fill: var(--band); }
"""

_PAGE = """\
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--text); line-height: 1.45; font-size: 15px;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1160px; margin: 0 auto; padding: 24px 20px 40px; overflow-wrap: anywhere; }
h1 { font-size: 24px; margin: 0 0 4px; line-height: 1.2; }
h2 { font-size: 20px; margin: 40px 0 4px; line-height: 1.25; }
h3 { font-size: 16px; margin: 28px 0 8px; padding-bottom: 4px; border-bottom: 1px solid var(--rule); }
h4 { font-size: 15px; margin: 0 0 2px; }
p { margin: 4px 0; }
a { color: var(--info); }
ul { margin: 4px 0; padding-left: 20px; }
.facts { color: var(--dim); font-size: 14px; }
.sentence { font-size: 17px; margin: 12px 0; padding: 8px 12px; background: var(--panel); border-radius: 6px;
  border-left: 4px solid var(--ok); }
.sentence.level-info, .alert.level-info { border-left-color: var(--info); }
.sentence.level-warn, .alert.level-warn { border-left-color: var(--warn); }
.sentence.level-crit, .alert.level-crit { border-left-color: var(--crit); }
.alert { margin: 14px 0; padding: 10px 14px; border: 1px solid var(--rule); border-left: 4px solid var(--rule);
  border-radius: 6px; }
.alert dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 14px; margin: 8px 0; }
.alert dt { color: var(--dim); }
.alert dd { margin: 0; }
.alert ol { margin: 0; padding-left: 18px; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 400px), 1fr)); gap: 18px 24px;
  margin: 10px 0; }
figure { margin: 0; min-width: 0; break-inside: avoid; }
figcaption { margin-bottom: 2px; }
figcaption .key { font-size: 13px; }
.legend { font-size: 12px; color: var(--dim); }
.legend > span { display: inline-block; margin-right: 12px; }
svg.chart { display: block; width: 100%; max-width: 620px; height: auto; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; margin: 6px 0; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: 3px 12px 3px 0; border-bottom: 1px solid var(--grid);
  white-space: nowrap; }
td.long { min-width: 22em; white-space: normal; overflow-wrap: anywhere; }
th { color: var(--dim); font-weight: 500; border-bottom-color: var(--rule); }
.right { text-align: right; }
.strong, .title { font-weight: 600; }
.warn, .crit, .level { font-weight: 600; }
footer { margin-top: 44px; padding-top: 10px; border-top: 1px solid var(--rule); color: var(--dim); font-size: 13px; }
footer code { color: var(--text); }
code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: 0.93em; }
@media (max-width: 560px) {
  main { padding: 16px 12px 32px; }
  .alert { padding: 8px 10px; }
  .alert dl { grid-template-columns: 1fr; }
  .alert dd { margin-bottom: 6px; }
}
@media print {
  body { font-size: 12px; }
  main { max-width: none; padding: 0; }
  h2, h3, h4 { break-after: avoid; }
  .scroll { overflow-x: visible; }
  .figures { grid-template-columns: 1fr 1fr; }
  rect, polygon, .sentence, .alert { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""


def style_sheet(*, has_page: bool) -> str:
    """The rules for charts, and with `has_page` those for the page around them."""
    roles = [
        f".{role} {{ color: var(--{name}); }}\ntext.{role}, tspan.{role} {{ fill: var(--{name}); }}"
        for role, name in TEXTS.items()
    ]
    lines = [f"line.level.{role}, line.mark.{role} {{ stroke: var(--{name}); }}" for role, name in TEXTS.items()]
    bars = [
        f"rect.{name} {{ fill: var(--{name}); }}\n.{name} {{ color: var(--{name}); }}"
        for name in LIGHT
        if _is_bar(name)
    ]
    series = [_series(number) for number in range(SERIES)]
    return "\n".join(
        [
            f":root {{ color-scheme: light dark; {_variables(LIGHT)} }}",
            f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}",
            *([_PAGE] if has_page else []),
            *roles,
            _CHARTS,
            *lines,
            *bars,
            *series,
        ]
    )


def _series(number: int) -> str:
    """The colour and the dashes of a run in a chart of several."""
    dashes = "none" if number < SERIES // 2 else "6 3"
    line = f"polyline.run-{number} {{ stroke: var(--stage-{number}); stroke-dasharray: {dashes}; }}"
    return f"{line}\n.run-{number} {{ color: var(--stage-{number}); }}"


def _is_bar(name: str) -> bool:
    return name.startswith("stage-") or name == "other"


def _variables(colours: Mapping[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())
