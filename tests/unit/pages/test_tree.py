"""The tree of all metrics: order, filter, folding, and only what is in view is read."""

from __future__ import annotations

from unittest.mock import patch

from fake_run import FakeRun, firing_run, run_of, verl_lines
from tables import each_row

from rltop.model import Level
from rltop.pages import metrics
from rltop.pages.key_metrics import value_text
from rltop.pages.metrics import MetricsPage, TreeKey, TreeLine, index_tree, layout_tree, match_keys, read_lines
from rltop.pages.page import Moment
from rltop.rows.glyphs import UNICODE
from rltop.rows.rows import TargetKind
from rltop.run.snapshot import Snapshot


def text_of(run: FakeRun, width: int = 120, height: int = 40, **state: object) -> str:
    page = MetricsPage()
    for name, value in state.items():
        setattr(page, name, value)
    rows = page.rows(Moment(Snapshot(run), UNICODE), width, height)
    assert len(rows) == height
    return "\n".join(row.text.rstrip() for row in rows)


def lines_of(run: FakeRun, top: int = 0, height: int = 40) -> list[TreeLine]:
    index = index_tree(Snapshot(run))
    return read_lines(Snapshot(run), index, layout_tree(index)[0][top : top + height], 120)


def test_no_key_is_hidden(run: FakeRun) -> None:
    index = index_tree(Snapshot(run))
    shown = [signal.key for one in index.keys for signal in (one.signal, *one.others)]
    assert sorted(shown) == sorted(run.stream.keys)
    assert sum(one.size for one in index.keys) == sum(index.sections.values()) == len(shown)
    assert index.keys[-1].section == "Bookkeeping"
    assert index.is_for(Snapshot(run))


def test_keys_are_ordered_by_section_group_and_name(run: FakeRun) -> None:
    text = text_of(run, height=200)
    assert text.index("▾ critic") < text.index("advantages/") < text.index("rewards/") < text.index("▾ actor")
    assert "▾ actor  7" in text


def test_the_filter_takes_words_of_keys_and_titles_in_any_case(run: FakeRun) -> None:
    index = index_tree(Snapshot(run))
    assert {one.key for one in match_keys(index, "GRAD")} == {"actor/grad_norm"}
    assert {one.key for one in match_keys(index, "kl reference")} == {"actor/kl_loss"}
    assert match_keys(index, "kl nothing") == []
    assert len(match_keys(index, "  ")) == len(index.keys)
    assert "1 of 51 match grad" in text_of(run, query="grad")
    assert "no metric matches" in text_of(run, query="nothing like it")


def test_a_folded_section_shows_its_count_unless_filtered(run: FakeRun) -> None:
    folded = frozenset({"actor"})
    text = text_of(run, folded=folded, height=100)
    assert "▸ actor  7" in text
    assert "grad_norm" not in text
    assert "grad_norm" in text_of(run, folded=folded, query="grad", height=100)


def test_what_fires_is_marked_on_the_row_and_on_its_section(run: FakeRun) -> None:
    text = text_of(run, height=100)
    assert "▲ kl_loss" in text
    assert "▾ actor  7  ▲ warn" in text
    assert "▸ actor  7  ▲ warn" in text_of(run, folded=frozenset({"actor"}), height=100)


def test_rows_lead_to_metrics_and_sections(run: FakeRun) -> None:
    rows = MetricsPage().rows(Moment(Snapshot(run), UNICODE), 120, 21)
    kinds = [hot.target.kind for row in rows for hot in row.links]
    assert {TargetKind.SECTION, TargetKind.METRIC} == set(kinds)


def test_only_what_is_in_view_is_read() -> None:
    def word(number: int) -> str:
        return "".join(chr(ord("a") + int(digit)) for digit in str(number))

    rows = [
        (step, {f"{word(i % 40)}/{word(i % 7)}/k{word(i)}": float(i + step) for i in range(4096)}) for step in range(3)
    ]
    run = run_of(verl_lines(rows))
    index = index_tree(Snapshot(run))
    with patch.object(metrics, "read_signal", wraps=metrics.read_signal) as read:
        found = lines_of(run, top=2000, height=30)
    assert read.call_count <= 30
    assert len(found) == 30
    assert sum(index.sections.values()) == 4096
    lines, matched = layout_tree(index, "kea")
    assert matched == sum(str(i).startswith("40") for i in range(4096))
    assert sum(isinstance(line, TreeKey) for line in lines) == matched


def test_the_statistics_of_a_metric_are_one_line_that_any_of_their_names_finds(run: FakeRun) -> None:
    index = index_tree(Snapshot(run))
    for query in ("response_length/max", "response_length/mean", "longest response"):
        found = match_keys(index, query)
        assert [one.key for one in found] == ["response_length/mean"]
    text = text_of(run, query="response_length/max")
    assert "{mean,max,min}" in text or "{mean,min,max}" in text or "{max,mean,min}" in text
    assert f"{found[0].size} of 51 match" in text


def test_samples_of_the_machine_have_the_unit_that_their_names_say() -> None:
    told = {
        "system/network.recv": (3 * 2**30, "3.00 GB"),
        "system.network.sent": (2**29, "0.500 GB"),
        "system/disk.vda.out": (2048.0, "2.00 GB"),
        "system/disk./home.usageGB": (67.6, "67.6 GB"),
        "system/disk./home.usagePercent": (30.4, "30.4 %"),
        "system/proc.memory.rssMB": (512.0, "0.500 GB"),
        "system/gpu.0.enforcedPowerLimitWatts": (700.0, "700 W"),
        "system/gpu.0.memory": (17.0, "17.0 %"),
        "system/gpu.0.smClock": (1980.0, "1,980"),
        "system/__swanlab__.mem.proc": (512.0, "0.500 GB"),
        "system/__swanlab__.network.recv": (17.0, "17.0"),  # KiB/s
        "system/network_receive_megabytes": (2**30 / 1e6, "1.00 GB"),
        "system/disk.vdb.out": (8.0, "8.00 MB"),
        "system/disk.vdb.in": (0.006, "6.14 kB"),
        "reward/MB": (3.0, "3.00"),
    }
    run = run_of(verl_lines([(step, {key: value for key, (value, _) in told.items()}) for step in range(3)]))
    lines = read_lines(Snapshot(run), (index := index_tree(Snapshot(run))), layout_tree(index)[0], 120)
    shown = {
        line.row.reading.signal.key: " ".join(value_text(line.row.reading)).strip()
        for line in lines
        if line.row is not None
    }
    assert shown == {key: text for key, (_, text) in told.items()}


def test_what_fires_on_one_statistic_marks_the_line_of_all() -> None:
    rows = [(step, {"a/mean": 1.0, "a/max": 2.0, "b": 1.0}) for step in range(20)]
    ill = run_of(verl_lines(rows))
    verdict = firing_run().verdicts[0]._replace(metric="", key="a/max", level=Level.CRIT)
    ill.verdicts = [verdict]
    found = lines_of(ill, height=10)
    levels = {line.row.reading.signal.key: line.row.reading.level for line in found if line.row is not None}
    assert levels == {"a/mean": Level.CRIT, "b": Level.OK}
    assert "METRICS  2 of 3 match !" in text_of(ill, query="!") and "mean,max" in text_of(ill, query="!")
    ill.verdicts = [verdict._replace(key="")]
    assert "no alert is of a single metric" in text_of(ill, query="!")
    assert next(line.level for line in found if line.section == "a") is Level.CRIT


def test_an_empty_run_has_an_empty_tree() -> None:
    assert "no metrics yet" in text_of(run_of(b""))


def test_keys_that_differ_by_a_number_alone_stand_in_one_row_with_the_odd_one_named() -> None:
    def row(step: int) -> dict[str, float]:
        return {f"rank/{n}/step_time": 2.0 + 0.01 * (n % 7) + (1.2 if n == 37 and step > 60 else 0) for n in range(64)}

    ranks = run_of(verl_lines((step, row(step)) for step in range(1, 121)))
    index = index_tree(Snapshot(ranks))
    (line,) = index.keys
    assert (line.name, line.size, line.key) == ("{0…63}/step_time", 64, "rank/{0…63}/step_time")
    assert [one.key for one in line.members] == [f"rank/{number}/step_time" for number in range(64)]
    assert [one.key for one in index.leaves] == [one.key for one in line.members]
    text = text_of(ranks)
    assert "far from the others: rank/37/step_time 3.22, +" in text and "median of 64: 2.03" in text
    assert "0/step_time" not in text.replace("{0…63}", "")
    assert "37/step_time" in text_of(ranks, spread=frozenset({line.key}), height=60)
    assert [one.key for one in match_keys(index, "rank/37/")] == ["rank/37/step_time"]
    assert match_keys(index, "step_time") == [line]
    assert "far from" not in text_of(run_of(verl_lines((step, row(step)) for step in range(1, 51))))


def test_a_number_in_the_name_of_a_section_makes_one_section_of_all() -> None:
    rows = [(step, {f"gpu_{n}/{what}": 0.9 for n in range(8) for what in ("util", "mem")}) for step in range(9)]
    index = index_tree(Snapshot(run_of(verl_lines(rows))))
    assert index.sections == {"gpu_{0…7}": 16}
    assert [one.name for one in index.keys] == ["mem", "util"]


@each_row("names", [[f"reward_{n}" for n in range(7)], [f"test/pass@{2**n}" for n in range(9)]])
def test_few_numbers_and_scores_over_attempts_are_metrics_of_their_own(names: list[str]) -> None:
    rows = [(step, dict.fromkeys(names, 1.0)) for step in range(9)]
    assert len(index_tree(Snapshot(run_of(verl_lines(rows)))).keys) == len(names)
