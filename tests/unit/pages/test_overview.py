"""The overview, as text: what it shows, at every size, whatever the run.

The pictures in `golden/` are compared to the letter; RLTOP_WRITE_GOLDEN=1 paints
them anew, for a person to look at before they are committed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fake_run import FakeRun, a_verdict, firing_run, memo_of, run_of, verl_lines, verl_rows
from painted import check_rows, lines_of
from tables import each_row

from rltop.model import Counts, Event, EventState, Label, Level, Part, RunState, VerdictState
from rltop.pages.header import lack_of
from rltop.pages.overview import build_overview, paint_overview
from rltop.rows.glyphs import ASCII, UNICODE, Glyphs, cell_width
from rltop.rows.rows import Row, TargetKind
from rltop.rules import registry
from rltop.run.preferences import Goal
from rltop.run.snapshot import Snapshot
from rltop.store.series import StoreOptions

GOLDEN = Path(__file__).parent / "golden"
RULES = ("L1", "O1", "O6", "O11", "E1", "R1", "T1", "T2", "P1", "P6", "P8")
SIZES = [(80, 22), (120, 38), (200, 58)]


def rows_of(run: FakeRun, width: int, height: int | None, glyphs: Glyphs = UNICODE, at: int | None = None) -> list[Row]:
    view = build_overview(Snapshot(run, at), width=width, height=height or 40)
    return paint_overview(view, width, height, glyphs)


def text_of(run: FakeRun, width: int = 120, height: int | None = 38, at: int | None = None) -> str:
    return "\n".join(lines_of(rows_of(run, width, height, at=at)))


@pytest.fixture(scope="module")
def healthy() -> FakeRun:
    run = run_of(verl_lines(verl_rows()), total_steps=2000)
    run.verdicts, run.events, run.warm_up = [], [], None
    return run


@pytest.fixture(scope="module")
def firing() -> FakeRun:
    return firing_run()


@pytest.fixture
def few_rules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A fixed set of rules, so that the number of quiet ones does not move with the rules."""
    monkeypatch.setattr(registry, "SPECS", tuple(spec for spec in registry.ALL_SPECS if spec.id in RULES))
    memo_of.cache_clear()  # the rules of a run are remembered
    yield
    memo_of.cache_clear()


@pytest.mark.usefixtures("few_rules")
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", ["healthy", "firing", "empty"])
def test_the_picture(name: str, size: tuple[int, int], request: pytest.FixtureRequest) -> None:
    if name == "empty":
        note = "there is no folder /home/ada/logs; the nearest that exists is /home/ada"
        run = run_of(b"", state=RunState.WAITING, state_note=note, age_s=None)
    else:
        run = request.getfixturevalue(name)
    painted = "\n".join(lines_of(rows_of(run, *size))).rstrip() + "\n"
    path = GOLDEN / f"{name}-{size[0]}x{size[1]}.txt"
    if os.environ.get("RLTOP_WRITE_GOLDEN"):
        path.write_text(painted)
    assert painted == path.read_text()


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=lambda glyphs: glyphs.name)
@pytest.mark.parametrize(
    "size",
    [(40, 12), (41, 13), (60, 16), (79, 22), (100, 30), (160, 20), (80, 60), (300, 100), (39, 40), (80, 11), (1, 1)],
)
def test_every_size_is_filled_and_never_exceeded(firing: FakeRun, size: tuple[int, int], glyphs: Glyphs) -> None:
    rows = rows_of(firing, *size, glyphs=glyphs)
    assert len(rows) == size[1]
    check_rows(rows, size[0], glyphs)


def test_what_is_shown_can_be_opened(firing: FakeRun) -> None:
    targets = {hot.target for row in rows_of(firing, 120, 38) for hot in row.links}
    assert {target.name for target in targets if target.kind is TargetKind.VERDICT} == {"T2", "O11", "P1", "P6"}
    metrics = {target.name for target in targets if target.kind is TargetKind.METRIC}
    assert {"actor/kl_loss", "critic/score/mean", "response_length/mean", "val-core/gsm8k/acc/mean@1"} <= metrics
    stages = {target.name for target in targets if target.kind is TargetKind.TIMING}
    assert {"", "timing_s/gen", "timing_s/update_actor"} <= stages
    assert TargetKind.STRAGGLERS in {target.kind for target in targets}


def test_what_fires_is_on_the_smallest_screen(firing: FakeRun) -> None:
    text = text_of(firing, 40, 12)
    assert "◆ response len" in text
    assert "▲ KL to refere" in text
    assert "LEARNING  ◆ length @1,160" in text
    assert "SYSTEM  ▲ step slower @1,172" in text


def test_the_sentence_is_the_worst_verdict_and_leads_to_it(firing: FakeRun) -> None:
    sentence = rows_of(firing, 120, 38)[1]
    assert "answers are 3.7× as long as at the start" in lines_of([sentence])[0]
    assert sentence.links[0].target.name == "T2"


def test_the_sentence_of_a_calm_run_says_where_the_time_goes(healthy: FakeRun) -> None:
    sentence = lines_of(rows_of(healthy, 120, 38))[1]
    assert sentence.startswith(" no alerts; gen: 6")
    assert sentence.endswith("validation 0.462 → 0.601 at 1,200, since step 20")


def test_the_sentence_says_of_time_only_once_where_it_goes() -> None:
    run = run_of(verl_lines(verl_rows(60)))
    words = "9.00 s of the step belong to no stage"
    said = []
    for rule, family in (("P14", "performance"), ("O3", "gradient")):
        run.verdicts = [a_verdict(rule, Level.INFO, family=family)._replace(headline=words)]
        said.append(str(build_overview(Snapshot(run)).sentence.text))
    assert "gen:" not in said[0]
    assert said[1].startswith(f"{words}; gen:")


def test_a_value_of_an_earlier_step_says_so(healthy: FakeRun) -> None:
    row = next(line for line in text_of(healthy).splitlines() if line.startswith("   validation"))
    assert row.endswith("@1,200")


def test_numbers_are_those_of_the_newest_row(healthy: FakeRun) -> None:
    newest = verl_rows()[-1][1]
    text = text_of(healthy)
    assert f"{newest['actor/entropy']:.3f} nats" in text
    assert f"{newest['response_length/mean']:,.0f} tok" in text
    assert f"STEP 1,204   {newest['timing_s/step']:.1f} s" in text


def test_a_value_that_is_not_finite_is_not_the_last_finite_one() -> None:
    rows = verl_rows(60)
    for step in (40, 58, 59, 60):
        rows[step - 1][1]["actor/grad_norm"] = None
    run = run_of(verl_lines(rows))
    row = next(line for line in text_of(run, 200).splitlines() if "actor/grad_norm" in line)
    assert "null" in row
    assert "✕ since 58" in row
    assert "0.4" not in row


def test_one_value_that_was_not_finite_is_remembered() -> None:
    rows = verl_rows(60)
    rows[39][1]["actor/grad_norm"] = None
    row = next(line for line in text_of(run_of(verl_lines(rows)), 200).splitlines() if "actor/grad_norm" in line)
    assert "✕ null at 40" in row


def test_no_baseline_is_invented_while_there_is_none() -> None:
    run = run_of(verl_lines(verl_rows(8)))
    row = next(line for line in text_of(run).splitlines() if "actor/entropy" in line)
    assert " — " in row
    text = text_of(run)
    assert "LEARNING  no alerts yet" in text
    assert text.count("learning what is normal: 8 of 30 records") == 1
    ended = FakeRun(**{**vars(run), "state": RunState.FINISHED})
    assert "too short to learn what is normal: 8 of 30 records" in text_of(ended)


def test_what_counts_an_evaluation_among_the_steps_says_what_it_counts() -> None:
    rows = [(0, {"val/test_score/math": 0.1}), *verl_rows(8), (9, {"val/test_score/math": 0.2})]
    text = text_of(run_of(verl_lines(rows)))
    assert "step 9" in text.splitlines()[0]
    assert "learning what is normal: 8 of 30 records" in text and "STEP 8, the newest with a time " in text


def test_badges_wait_while_history_is_read(healthy: FakeRun) -> None:
    run = FakeRun(**{**vars(healthy), "loading": 0.43, "is_preview": True, "state": RunState.LOADING})
    text = text_of(run)
    assert "LEARNING  checking 43 %" in text
    assert "SYSTEM  checking 43 %" in text
    assert "newest rows" in text
    assert "loading 43 %" in text


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_a_history_that_takes_long_has_a_bar_and_the_time_left(healthy: FakeRun, glyphs: Glyphs) -> None:
    run = FakeRun(**{**vars(healthy), "loading": 0.5, "left_s": 12.0, "is_preview": True})
    bar = "#" * 6 + "." * 6 if glyphs is ASCII else "█" * 6 + "░" * 6
    said = f" {bar} checking 50 %, 15 s left: reading history, newest rows shown"
    assert said in [line.rstrip() for line in lines_of(rows_of(run, 80, 22, glyphs))]
    soon = FakeRun(**{**vars(healthy), "loading": 0.5, "is_preview": True})
    assert " checking 50 %: reading history, newest rows shown" in text_of(soon)


def test_a_file_without_a_row_yet_has_a_bar_too() -> None:
    text = text_of(run_of(b"", loading=0.25, left_s=3.0, state=RunState.LOADING))
    assert " ███░░░░░░░░░ reading: 25 %, 3 s left" in text
    assert "reading …" in text_of(run_of(b"", loading=0.25, state=RunState.LOADING))


def test_a_provisional_verdict_is_marked(healthy: FakeRun) -> None:
    run = FakeRun(**{**vars(healthy), "loading": 0.43, "verdicts": [a_verdict(is_provisional=True)]})
    assert "▲ KL drift? @1,187" in text_of(run)


def test_a_recovered_verdict_is_no_badge(healthy: FakeRun) -> None:
    recovered = a_verdict(state=VerdictState.RECOVERED, recovered_step=1199)
    text = text_of(FakeRun(**{**vars(healthy), "verdicts": [recovered]}))
    assert "1 recovered" in text
    assert "▲ KL" not in text
    assert "no alerts" in text


def test_the_cursor_shows_the_step_it_stands_on(firing: FakeRun) -> None:
    text = text_of(firing, at=1182)
    assert "at step 1,182 of 1,204" in text
    assert "STEP 1,182" in text
    assert "KL drift" not in text.split("EVENTS")[0]
    assert "▲ length explosion" in text or "▲ length" in text
    newest = verl_rows(is_ill=True)[1181][1]
    assert f"{newest['actor/entropy']:.3f} nats" in text
    assert "O11" not in text


def test_a_downsampled_step_is_not_passed_off_as_a_row() -> None:
    run = run_of(verl_lines(verl_rows(1500)), options=StoreOptions(memory_bytes=300_000))
    bucket = run.stream.downsampled_range(20)
    assert bucket[0] < bucket[1]
    first, last = (f"{step:,}" for step in bucket)
    assert f"at steps {first}–{last} of 1,500 (mean)" in text_of(run, at=20)
    run.stream.recall(20, verl_rows(20)[-1][1])
    text = text_of(run, at=20)
    assert "at step 20 of 1,500" in text
    assert "STEP 20   " in text


def test_states_without_a_number() -> None:
    lines = b'{"a":"x"}\n{"b":"y"}\nfoo\n'
    assert 'no metrics yet: 3 lines read; 2 rows have no step (first line 1: a "x")' in text_of(
        run_of(lines, state=RunState.WAITING)
    )
    settings = run_of(b'{"seed": 4, "loss": [0.5, 0.25]}\n', state=RunState.WAITING)
    assert "no metrics yet: 1 line read; 1 row has no step (" in text_of(settings)
    assert "loss (2 values)" in text_of(settings)
    assert "file: 1 unreadable line (first on line 3" in text_of(run_of(lines, state=RunState.WAITING))
    wide = b'{"loss": [1, 2, 3],\n "reward": [1]}\n'
    assert "no metrics yet: 2 lines read; " in text_of(run_of(wide, state=RunState.WAITING))
    lost = run_of(b"", state=RunState.LOST, state_note="Permission denied")
    assert "cannot read the file: Permission denied; retrying" in text_of(lost)
    assert "waiting for the first record of x" in text_of(run_of(b"", "x", state=RunState.WAITING))


@each_row(
    ("lines", "said"),
    [
        (b'{"step": 1, "note": "x"}\n', "its rows have text and no number"),
        (b'{"step": 1, "loss": [1, 2]}\n', "its rows have lists and no number"),
        (b'{"step": 1}\n', "its rows have a step and no number"),
        (b'{"a": "x"}\n{"a": "y"}\n{"a": "z"}\n', "3 rows have no step"),
        (b"hello\n", "no row of metrics in it"),
    ],
)
def test_a_file_without_a_number_says_what_it_lacks_and_what_works(lines: bytes, said: str) -> None:
    text = text_of(run_of(lines, state=RunState.WAITING))
    assert said in text and '{"step": 12, "loss": 0.31}' in text and "--step-key KEY" in text


def test_lines_that_are_not_read_are_quoted() -> None:
    counts = Counts(lines=3)
    counts.miss_form("step 3 reward 0.5 done", 2)
    assert lack_of(counts) == (
        "1 line with a step and numbers in no form that is read (first line 2: step 3 reward 0.5 done)"
    )


def test_counts_are_shown_only_when_something_was_not_understood(healthy: FakeRun) -> None:
    assert "file:" not in text_of(healthy)
    run = run_of(b"nonsense\n" + verl_lines(verl_rows(30)))
    last = lines_of(rows_of(run, 120, 38))[-1]
    assert last.startswith(" file: 1 unreadable line (first on line 1")
    elsewhere = paint_overview(build_overview(Snapshot(run)), 120, 38, UNICODE, has_counts=False)
    assert "unreadable line" not in "".join(lines_of(elsewhere))


def test_unknown_keys_are_shown_as_they_are() -> None:
    run = run_of(verl_lines([(step, {"foo/bar": step, "\x1b[31mred\u202e": 2.0 * step}) for step in range(30)]))
    text = text_of(run)
    assert "foo/bar" in text
    assert "\\x1b[31mred\\u202e" in text
    assert "\x1b" not in text
    assert "\u202e" not in text


@each_row("step_s", [5e-324, 1e12, 1e308])
def test_an_end_that_no_clock_knows_is_none(step_s) -> None:
    rows = [(step, {"timing_s/step": step_s}) for step in range(1, 30)]
    run = run_of(verl_lines(rows), total_steps=2000, goal=Goal(until_s=2e9))
    text = text_of(run, 160)
    assert "step 29" in text
    assert ("ETA" in text) is (step_s < 1e9)


def test_a_finished_run_has_no_eta(healthy: FakeRun) -> None:
    assert "ETA" in text_of(healthy, 160)
    ended = FakeRun(**{**vars(healthy), "state": RunState.ENDED})
    assert "ETA" not in text_of(ended, 160)
    assert "■ ended" in text_of(ended, 160)
    assert "▶ end" in text_of(ended, 160)


def test_stragglers_are_held_against_what_is_usual_for_the_group() -> None:
    rows = [
        (step, {**data, "group_length_max_median_ratio": 1.9 if step < 40 else 5.2}) for step, data in verl_rows(60)
    ]
    run = run_of(verl_lines(rows))
    run.group_size = 8
    text = text_of(run)
    assert "group max/median 5.2" in text
    assert "typical for group size 8: 1.6–3.5" in text
    assert "1.9 at start" in text
    run.group_size = None
    assert "set group_size for a fixed limit" in text_of(run)


def test_a_restart_is_marked_on_the_lines() -> None:
    rows = [*verl_rows(200), *verl_rows(260, seed=2, from_step=151)]
    run = run_of(verl_lines(rows))
    assert run.stream.restarts == (151,)
    row = next(line for line in text_of(run).splitlines() if "actor/entropy" in line)
    assert "⟲" in row


def test_a_level_is_never_said_by_colour_alone(firing: FakeRun) -> None:
    said, target = "", None
    for row in rows_of(firing, 120, 38):
        text = row.text
        # The sentence may go on in the next line: it has one sign.
        ahead = row.links[0].target if row.links else None
        said = said + text if ahead is not None and ahead == target else text
        target = ahead
        for piece in row.line:
            if piece.role in ("warn", "crit") and piece.text.strip():
                assert any(sign in said for sign in "▲◆✕"), said


def test_a_hostile_name_stays_in_its_row() -> None:
    run = run_of(verl_lines(verl_rows(30)), "長" * 200 + "\n\x1b]0;title\x07")
    run.name = Label.of(run.name.raw)
    for width in (40, 80, 120):
        assert all(cell_width(line) <= width for line in lines_of(rows_of(run, width, 30)))
    assert "\x07" not in text_of(run)


def test_levels_of_rows_follow_the_verdicts(firing: FakeRun) -> None:
    view = build_overview(Snapshot(firing))
    levels = {row.reading.key.raw: row.reading.level for row in view.rows}
    assert levels["actor/kl_loss"] is Level.WARN
    assert levels["response_length/mean"] is Level.CRIT
    assert levels["actor/entropy"] is Level.OK


def test_the_metric_of_another_part_that_stands_as_bad_has_the_level_too(healthy: FakeRun) -> None:
    parts = Part("E1", "entropy lost", 18, Level.WARN, "entropy"), Part("O1", "spike", 18, Level.INFO, "grad_norm")
    run = replace(healthy, verdicts=[a_verdict(also=parts)])
    levels = {row.reading.key.raw: row.reading.level for row in build_overview(Snapshot(run)).rows}
    assert levels["actor/kl_loss"] is levels["actor/entropy"] is Level.WARN
    assert levels["actor/grad_norm"] is Level.OK


def test_facts_never_crowd_out_what_happened() -> None:
    run = firing_run()
    told = list(run.events)
    run.events = [
        *told,
        *(Event(1191 + i, 1191 + i, "F3", "facts", Level.INFO, EventState.FACT, "validation 0.5") for i in range(20)),
    ]
    shown = build_overview(Snapshot(run), width=120, height=40).events
    assert [event for event in reversed(shown) if event.family != "facts"] == told
    assert [event.step for event in shown if event.family == "facts"] == [1210, 1209]


def test_the_movement_of_a_reward_is_told_from_its_first_values() -> None:
    rows = [{"step": step, "reward": min(0.89, 0.21 + 0.34 * (step - 1)), "loss": 0.1} for step in range(1, 60)]
    run = run_of("".join(json.dumps(row) + "\n" for row in rows).encode())
    assert "0.210 → 0.890 since step 1" in "\n".join(lines_of(rows_of(run, 120, 38)))
