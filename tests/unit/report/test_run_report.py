"""A report says what the screen says: in every format, of any run, and nothing in it is markup but its own."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from itertools import product
from pathlib import Path

import pytest
from tables import each_row

from rltop import units
from rltop.cli.open_session import read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.errors import RltopError
from rltop.model import Unit
from rltop.report.markdown import code, job_summary, markdown, paragraph, plain
from rltop.report.overview_document import once_document
from rltop.report.run_report import MOST_RUNS, Provenance, RunReport, build_report, text_of
from rltop.report.svg import escaped, sheet, style_sheet
from rltop.report.writers import FORMATS, file_name, format_of, html_page, rendered
from rltop.run.snapshot import Snapshot

ROOT = Path(__file__).resolve().parents[3]
SLOW = ROOT / "fixtures" / "verl" / "tool_slowdown" / "metrics.jsonl"
RESTART = ROOT / "fixtures" / "trl" / "grpo_restart" / "metrics.jsonl"
MADE = Provenance("rltop report a -o b.html", "9.9", "2026-01-02 03:04 UTC")
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style></title></svg><b>",
    "a|b`c`[x](javascript:alert(1))",
    "&lt;b&gt;",
    "\x1b[31mred\x07\u202egnp.exe\ud800\ufffe",
    "@octocat #12 https://evil.example",
    "=HYPERLINK(1)",
    "]]>--><!--",
)


def report_of(path: Path, **options: bool) -> RunReport:
    session = read_whole(str(path), Config(), FakeClock())
    try:
        return build_report(Snapshot(session.runs[0]), **options)
    finally:
        session.close()


def document_of(path: Path) -> dict[str, object]:
    session = read_whole(str(path), Config(), FakeClock())
    try:
        return once_document(Snapshot(session.runs[0]))
    finally:
        session.close()


def written(folder: Path, rows: list[dict[str, object]], name: str = "metrics.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def slow() -> RunReport:
    return report_of(SLOW, has_document=True)


@pytest.fixture(scope="module")
def restart() -> RunReport:
    return report_of(RESTART, has_document=True)


class Strict(HTMLParser):
    """Every element that is opened is closed, in order; what is in it, and where it leads to."""

    VOID = frozenset({"meta", "br"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def check_page(page: str) -> Strict:
    ET.fromstring(page)
    found = Strict(page)
    assert not found.tags & {"script", "link", "iframe", "img", "object", "form", "base", "foreignobject"}
    names = {name for name, _ in found.attributes}
    assert not {name for name in names if name.startswith("on")}
    assert not names & {"src", "style", "action", "xlink:href"}
    assert all(value.startswith("#run-") for name, value in found.attributes if name == "href")
    assert "url(" not in page and "@import" not in page
    return found


def test_the_page_is_well_formed_and_leads_nowhere(slow: RunReport, restart: RunReport) -> None:
    check_page(html_page([slow, restart], MADE))


def test_the_line_on_a_collapse_stands_above_the_headline_as_on_the_screen() -> None:
    report = report_of(ROOT / "fixtures" / "incidents" / "collapse_at_257" / "metrics.jsonl")
    line = "COLLAPSE since 257 · last good step 256 · no earlier checkpoint logged · began with: entropy at 257"
    for text in (
        html_page([report], MADE),
        markdown([report], MADE),
        job_summary([report], MADE),
        sheet([report], MADE),
    ):
        assert -1 < text.find(f"◆ {line}") < text.find("entropy 0.111 → 0.0015 nats")


def test_a_page_says_how_it_was_made(slow: RunReport) -> None:
    text = " ".join(check_page(html_page([slow], MADE)).text)
    assert "Made by rltop 9.9 on 2026-01-02 03:04 UTC with" in text
    assert MADE.command in text
    assert f"{SLOW}" in text
    assert f": {slow.records}" in text
    assert slow.records.startswith("150 records, steps ")


def test_every_alert_has_its_numbers_and_a_chart_of_its_metric(slow: RunReport) -> None:
    page = html_page([slow], MADE)
    document = slow.document or {}
    active = [one for one in document["verdicts"] if one["state"] in ("firing", "settled")]
    assert len(slow.alerts) == len(active) > 3
    for one, alert in zip(active, slow.alerts, strict=True):
        assert alert.verdict.rule == one["rule"]
        assert escaped(one["headline"]) in page
        for evidence in one["evidence"]:
            assert units.measure(evidence["value"], Unit(evidence["unit"])) in alert.words["evidence"]
        if one["key"]:
            assert alert.figures[0].key.raw == one["key"]


def test_numbers_are_those_of_the_document(slow: RunReport, restart: RunReport) -> None:
    for report in (slow, restart):
        document = report.document or {}
        known = {one["key"]: one for one in document["signals"]}
        compared = 0
        for row in report.rows:
            signal = known[row.reading.signal.key]
            cells = next(cells for cells in report.metrics.rows if text_of(cells[1]) == row.title)
            shown = [text_of(cell) for cell in cells]
            assert units.measure(signal["value"], Unit(signal["unit"] or "")) in shown, row.title
            compared += 1
        assert compared > 5
        assert f"step {units.step(document['step'])}" in report.facts[1]
        assert report.sentence == document["sentence"]


def test_the_curves_are_the_logged_values(slow: RunReport) -> None:
    logged = [json.loads(line) for line in SLOW.read_text().splitlines()]
    figure = next(one for one in slow.figures if one.title == "entropy")
    points = dict(zip(figure.plot.raw.steps, figure.plot.raw.values, strict=True))
    data = [row.get("data", row) for row in logged]
    assert list(points.values()) == pytest.approx([row["actor/entropy"] for row in data if "actor/entropy" in row])


def test_the_timing_is_that_of_the_newest_step(slow: RunReport) -> None:
    timing = (slow.document or {})["timing"]
    assert slow.timing.total_s == timing["total_s"]
    names = {text_of(row[1]) for row in slow.stages.rows}
    assert {span["name"] for span in timing["spans"] if span["kind"] != "other"} <= names


@pytest.mark.parametrize("suffix", sorted(FORMATS))
def test_every_format_can_be_read_back(suffix: str, slow: RunReport, restart: RunReport) -> None:
    data = rendered(suffix, [slow, restart], MADE).decode()
    assert "tool_slowdown" in data.replace("\\_", "_") and "grpo_restart" in data.replace("\\_", "_")
    match suffix:
        case ".json":
            found = json.loads(data)
            assert found["made"] == MADE._asdict()
            assert found["runs"] == [document_of(SLOW), document_of(RESTART)]
        case ".csv":
            rows = list(csv.DictReader(io.StringIO(data)))
            assert {row["run"] for row in rows} == {"tool_slowdown", "grpo_restart"}
        case ".svg":
            picture = ET.fromstring(data)
            assert picture.tag == "{http://www.w3.org/2000/svg}svg"
            charts = picture.findall(".//{http://www.w3.org/2000/svg}polyline")
            assert len(charts) > 20
        case ".html":
            check_page(data)
        case _:
            assert data.startswith("# 2 runs")


def test_csv_has_every_key_with_all_digits(slow: RunReport) -> None:
    found = list(csv.DictReader(io.StringIO(rendered(".csv", [slow], MADE).decode())))
    rows = {(row["metric"], row["key"]): row for row in found}
    document = slow.document or {}
    assert len(found) == len(document["signals"]) + len(document["other_keys"])
    for one in document["signals"]:
        assert one["value"] is None or float(rows[one["name"], one["key"]]["value"]) == one["value"]


def test_csv_of_curves_has_the_points_of_the_charts(slow: RunReport) -> None:
    rows = list(csv.DictReader(io.StringIO(rendered(".csv", [slow], MADE, has_curves=True).decode())))
    figure = slow.figures[0]
    own = [(float(row["step"]), float(row["value"])) for row in rows if row["key"] == figure.key.raw]
    assert own == list(zip(figure.plot.raw.steps, figure.plot.raw.values, strict=True))


def test_nothing_from_a_file_becomes_markup(tmp_path: Path) -> None:
    rows = [{"step": step, "loss": 1 / step, **{key: float(step) for key in HOSTILE}} for step in range(1, 40)]
    folder = tmp_path / "<b>run|&'"
    folder.mkdir()
    path = written(folder, rows)
    report = report_of(path, has_document=True)
    page = html_page([report, report], MADE._replace(command="rltop report '<i>x' -o a.html"))
    found = check_page(page)
    assert "i" not in found.tags
    text = "".join(found.text)
    assert "<script>alert(1)</script>" in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e\ufffe]", page)
    ET.fromstring(rendered(".svg", [report], MADE))
    for row in csv.reader(io.StringIO(rendered(".csv", [report], MADE).decode())):
        assert not [cell for cell in row if cell.startswith(("=", "@", "+"))]
    text = markdown([report], MADE)
    table = text[text.index("### Metrics") :].split("\n\n")[1].splitlines()
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {len(table[1].split("|")) - 1}
    assert "<script" not in re.sub(r"`[^`]*`", "", text)


@each_row(
    ("text", "shown"),
    [
        ("a_b *c* [d](e) <f>", r"a\_b \*c\* \[d\](e) &lt;f&gt;"),
        ("KL @140 #12", "KL @\u2060140 #\u206012"),
        ("see https://x.example", "see https\u2060://x.example"),
        ("50 %, −3.1", "50 %, −3.1"),
    ],
)
def test_markdown_text_stays_text(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_related_metrics_are_named_as_the_overview_names_them(tmp_path: Path) -> None:
    rows = [
        {"step": step, "critic/score/mean": 0.2 + step / 200, "actor/entropy": 1.0 if step < 60 else 0.01,
         "actor/grad_norm": 0.5, "actor/pg_loss": 0.1, "response_length/mean": 200.0}
        for step in range(1, 101)
    ]  # fmt: skip
    report = report_of(written(tmp_path, rows))
    chain = next(alert.chain for alert in report.alerts if alert.chain.rows)
    assert {"metric", "key", "before → after", "when"} <= set(chain.heads)
    told = {text_of(row[chain.heads.index("key")]): text_of(row[chain.heads.index("metric")]) for row in chain.rows}
    assert told["critic/score/mean"] == "reward"


def test_a_line_of_markdown_begins_no_list() -> None:
    assert paragraph("- a") == "\u2060- a"
    assert paragraph("1. a") == "\u20601. a"
    assert paragraph("1.50 nats") == "1.50 nats"


def test_keys_are_code() -> None:
    assert code("actor/kl_loss") == "`actor/kl_loss`"
    assert code("a`b|<") == "<code>a&#96;b&#124;&lt;</code>"


def test_a_run_without_rows_is_reported_as_such(tmp_path: Path) -> None:
    report = report_of(written(tmp_path, []), has_document=True)
    assert report.is_empty
    for suffix in FORMATS:
        assert rendered(suffix, [report], MADE)
    page = html_page([report], MADE)
    check_page(page)
    assert "waiting for the first record" in page


def test_values_that_are_not_finite_are_said_and_not_drawn(tmp_path: Path) -> None:
    rows = [
        {
            "step": step,
            "loss": math.nan if step == 30 else 1.0 / step,
            "nothing": math.inf,
            "huge": 1e308 * (-1) ** step,
        }
        for step in range(1, 31)
    ]
    report = report_of(written(tmp_path, rows))
    page = html_page([report], MADE)
    found = check_page(page)
    assert "NaN" in "".join(found.text)
    points = " ".join(value for name, value in found.attributes if name in ("points", "x", "y", "width", "x1", "y1"))
    assert points and "nan" not in points and "inf" not in points
    ET.fromstring(rendered(".svg", [report], MADE))


def test_one_record_is_a_dot(tmp_path: Path) -> None:
    page = html_page([report_of(written(tmp_path, [{"step": 1, "loss": 2.0}]))], MADE)
    assert "circle" in check_page(page).tags


def test_a_long_run_makes_no_larger_page(tmp_path: Path) -> None:
    def size(count: int) -> int:
        rows = [
            {"step": step, "loss": math.sin(step) / step, "entropy": math.cos(step)} for step in range(1, count + 1)
        ]
        return len(html_page([report_of(written(tmp_path, rows, f"{count}.jsonl"))], MADE))

    assert size(3_000) < 1.3 * size(500)


def test_many_keys_are_counted_and_not_listed(tmp_path: Path) -> None:
    def word(number: int) -> str:
        return "".join(chr(ord("a") + int(digit)) for digit in str(number))

    rows = [{"step": step, **{f"key_{word(number)}": float(step) for number in range(500)}} for step in range(1, 20)]
    page = html_page([report_of(written(tmp_path, rows))], MADE)
    assert re.search(r"and 4\d\d more keys", page)
    assert len(page) < 400_000


def test_several_runs_are_compared(slow: RunReport, restart: RunReport) -> None:
    page = html_page([slow, restart], MADE)
    text = "".join(check_page(page).text)
    assert "Key metrics, last value and change against the start of each run" in text
    table = page[page.index("Key metrics, last") :]
    reward = table[table.index(">reward<") : table.index("</tr>", table.index(">reward<"))]
    for report in (slow, restart):
        row = next(one for one in report.rows if one.title == "reward")
        assert units.measure(row.reading.point.value, row.reading.signal.metric.unit) in reward
    assert 'class="curve series run-1"' in page


def test_runs_of_one_name_are_told_apart_by_their_paths(slow: RunReport) -> None:
    assert markdown([slow, slow], MADE).count(str(SLOW).replace("_", r"\_")) >= 4


def test_of_many_runs_the_first_are_described_and_the_others_listed(restart: RunReport) -> None:
    page = html_page([restart] * (MOST_RUNS + 3), MADE)
    assert page.count("<h2 ") == MOST_RUNS
    assert "3 more runs in the tables only" in page
    assert "3 more runs in the tables only" in markdown([restart] * (MOST_RUNS + 3), MADE)


def test_the_summary_of_a_job_has_the_alerts_and_no_metrics(slow: RunReport, restart: RunReport) -> None:
    text = job_summary([slow, restart], MADE)
    for alert in slow.alerts:
        assert plain(alert.verdict.headline) in text
    assert "### Metrics" not in text
    assert "## grpo" not in text and r"grpo\_restart" in text


@each_row(("name", "suffix"), [("a.HTML", ".html"), ("a.htm", ".html"), ("x/a.markdown", ".md")])
def test_the_format_follows_the_name(name: str, suffix: str) -> None:
    assert format_of(name) == suffix


@each_row("name", ["a.pdf", "a", ".html", "a.html.png"])
def test_an_unknown_format_names_those_there_are(name: str) -> None:
    with pytest.raises(RltopError, match="unknown report format") as caught:
        format_of(name)
    assert all(suffix in caught.value.hint for suffix in FORMATS)


@each_row("name", ["../../etc/x", "a b\n<c>", "", "…", "." * 300, "n" * 300])
def test_the_name_of_a_report_is_a_name(name: str) -> None:
    found = file_name(name, 12)
    assert re.fullmatch(r"rltop-[\w.-]{1,90}-12\.html", found, re.ASCII)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_can_be_read_on_its_ground() -> None:
    *grounds, rest = re.split(r"@media screen[^\n]*|\} \}", style_sheet(has_page=False), maxsplit=2)
    colours = [dict(re.findall(r"--([\w-]+): (#\w{6});", each)) for each in grounds]
    texts = set(re.findall(r"^\.(?!stage|other).* color: var\(--([\w-]+)\)", rest, re.MULTILINE))
    assert set(colours[0]) == set(colours[1]) >= texts >= {"dim", "text", "ok", "warn", "crit", "cursor"}
    for shown, ground, name in product(colours, ("ground", "panel"), texts):
        bright, dark = sorted((_luminance(shown[name]), _luminance(shown[ground])), reverse=True)
        assert (bright + 0.05) / (dark + 0.05) >= 4.5, (name, ground)
