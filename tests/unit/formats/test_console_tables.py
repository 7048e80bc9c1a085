"""Tables in a console log: a name and a number on each line, one row of metrics in each."""

from __future__ import annotations

import math
import time

import pytest
from stores import read_in_pieces, row
from tables import each_row

from rltop.formats.console.decoder import ConsoleDecoder
from rltop.model import Record

TINKER = """\
train:195 [\x1b[92mINFO\x1b[0m]
\x1b[3m             Step {step}             \x1b[0m
┏━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━┓
┃\x1b[1;35m \x1b[0m\x1b[1;35mMetric              \x1b[0m\x1b[1;35m \x1b[0m┃\x1b[1;35m Value    \x1b[0m┃
┡━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━┩
│\x1b[36m \x1b[0m\x1b[36menv/all/reward/total\x1b[0m\x1b[36m \x1b[0m│\x1b[32m 0.{step}50000\x1b[0m │
│ optim/entropy        │ nan      │
│ test/env/all/by_gro… │ 0.210000 │
│ progress/batch       │ {step}        │
└──────────────────────┴──────────┘
saved: state | loss 3
"""
BASELINES3 = """\
Using cpu device
-----------------------------------
| rollout/            |           |
|    ep_len_mean      | 20.5      |
|    ep_rew_mean      | -1.05e+03 |
| time/               |           |
|    total_timesteps  | {step}    |
| train/              |           |
|    policy_gradient_l... | 0.5   |
|    value_loss       | 0.25      |
| plain               | 3         |
-----------------------------------
"""
SPINNING_UP = """\
(Worker pid=12) ---------------------------------------
(Worker pid=12) |             Epoch |               {step} |
(Worker pid=12) |      AverageEpRet |            17.6 |
(Worker pid=12) |            LossPi |        -5.1e-09 |
(Worker pid=12) ---------------------------------------
"""
HINDSIGHT = """\
WARNING: something of no interest
------------------------------------
| epoch              | {step}      |
| stats_g/mean       | 0.836       |
| test/success_rate  | 0.25        |
------------------------------------
New best success rate: 0.25. Saving policy ...
"""


def decode(text: str, piece: int = 65536) -> tuple[list[Record], ConsoleDecoder]:
    data, decoder = text.encode(), ConsoleDecoder()
    return read_in_pieces(decoder, data, piece), decoder


@each_row("piece", [1, 17, 200, 65536])
@each_row(
    ("table", "steps", "last"),
    [
        (TINKER, (0, 1, 2), {"env/all/reward/total": 0.25, "progress/batch": 2.0}),
        (
            BASELINES3,
            (2048, 4096),
            {"rollout/ep_len_mean": 20.5, "rollout/ep_rew_mean": -1050.0, "train/value_loss": 0.25, "plain": 3.0},
        ),
        (SPINNING_UP, (1, 2, 3), {"AverageEpRet": 17.6, "LossPi": -5.1e-09}),
        (HINDSIGHT, (0, 1), {"stats_g/mean": 0.836, "test/success_rate": 0.25}),
    ],
    ids=["tinker", "Stable-Baselines3", "Spinning Up", "HER"],
)
def test_a_table_is_a_row(table: str, steps: tuple[int, ...], last: dict[str, float], piece: int) -> None:
    records, decoder = decode("".join(table.format(step=step) for step in steps), piece)
    assert tuple(record.step for record in records) == steps
    assert row(records[-1]) == last
    assert decoder.counts.bad_lines == 0


@each_row("table", [TINKER, BASELINES3])
def test_a_row_is_found_again_where_its_table_begins(table: str) -> None:
    text = "".join(table.format(step=step) for step in (7, 8))
    second = decode(text)[0][1]
    data, decoder = text.encode(), ConsoleDecoder()
    again = decoder.feed(data[second.position.offset :], second.position.offset, 0)
    assert [(one.step, row(one)) for one in again] == [(second.step, row(second))]


def test_a_table_that_is_complete_is_given_out_at_once() -> None:
    decoder = ConsoleDecoder()
    assert len(decoder.feed(BASELINES3.format(step=2048).encode(), 0, 0)) == 1


@each_row(
    "text",
    [
        # What a model has written; a table without a step; prompts and completions in a box; a table cut in two.
        "| reward | 5 |\n|---|---|\n| step | 3 |\n",
        "--------------------\n| loss   | 0.5    |\n| reward | 1      |\n--------------------\n",
        "     Step 3\n╭──────────────────╮\n│ 2 + 2 │ 5 │ 0.5 │\n╰──────────────────╯\n",
        "Step 3\n\n\n\n\n\n\n│ reward │ 0.5 │\n└────────┴─────┘\n",
        "--------------------\n| step  | 3   |\n| price | 4.5 |\n--------------------\n",
    ],
)
def test_another_table_is_none(text: str) -> None:
    records, decoder = decode(text)
    assert records == []
    assert decoder.counts.bad_lines == 0


@each_row(
    "table",
    [
        "╭──── Step {} / 100 ────╮\n│ reward/mean │ 0.5 │\n│ loss        │ 0.2 │\n╰───────────────────────╯\n",
        "+-------------+-------+\n| Metric      | Value |\n+-------------+-------+\n| step        | {}     |\n"
        "| loss        | 0.2   |\n| reward/mean | 0.5   |\n+-------------+-------+\n",
    ],
)
def test_a_box_in_other_frames_is_a_row_from_the_first_on(table: str) -> None:
    records = ConsoleDecoder().feed("".join(table.format(step) for step in (1, 2, 3)).encode(), 0, 0)
    assert [each.step for each in records] == [1, 2, 3]
    assert all(row(each) == {"reward/mean": 0.5, "loss": 0.2} for each in records)


def test_the_table_of_a_file_that_was_left_is_forgotten() -> None:
    decoder = ConsoleDecoder()
    half = TINKER.format(step=3).encode()
    decoder.feed(half[: half.index(b"test/env")], 0, 0)
    decoder.reset()
    assert decoder.feed("└──────────────┘\n".encode(), 0, 0) == []
    assert decoder.finish() == []


def tree(step: int) -> str:
    return (
        f"Step {step}\nactor:\n  lr: 1.0e-06\n  pg_loss: 0.0{step}\ncritic:\n  score:\n    max: 1\n    mean: .nan\n\n"
    )


@each_row("size", [1, 7, 10_000])
@each_row("front", ["", "\x1b[36m(Runner pid=2712)\x1b[0m "])
def test_a_tree_below_its_step_is_a_row_in_whatever_pieces_it_comes(front, size):
    lines = "".join(f"{front}{line}\n" for line in f"Config\na:\n  b: 1\n\n{tree(1)}{tree(2)}".splitlines())
    other = "(WorkerDict pid=9) Update policy:  50%|## | 2/4 [00:20<00:20]\n"
    data = lines.replace("actor:\n", f"actor:\n{other}").encode()
    decoder = ConsoleDecoder()
    records = [record for at in range(0, len(data), size) for record in decoder.feed(data[at : at + size], at, 0)]
    assert [record.step for record in records] == [1, 2]
    assert [record.position.offset for record in records] == [
        data.find(f"{front}Step {step}".encode()) for step in (1, 2)
    ]
    assert dict(zip(records[1].schema.keys, records[1].values, strict=True)) == pytest.approx(
        {"actor/lr": 1e-6, "actor/pg_loss": 0.02, "critic/score/max": 1.0, "critic/score/mean": math.nan}, nan_ok=True
    )
    assert decoder.counts.bad_lines == 0


def test_a_tree_ends_at_its_blank_line_and_settings_below_a_step_are_none():
    decoder = ConsoleDecoder()
    assert decoder.feed(f"Step 3\n{tree(4)}  lr: 5\n".encode(), 0, 0)[0].step == 4
    assert ConsoleDecoder().feed(b"Step 5\nname: a\npath: b\nsize: 3\nmore: 4\n\n", 0, 0) == []


PANEL = """\
2026-01-01 10:01:00 - INFO - grpo_fast.py:100 - step done
\x1b[1;32m╭────────────────────── Metrics ──────────────────────╮\x1b[0m
│  loss       policy_avg: -0.25 | dpo_loss: 0.50      │
│  objective  kl_avg: 0.01 | scores: {step}.50 |           │
│             verifiable_correct_rate: 0.30           │
│  other      episode: 512 | training_step: {step} | lr:   │
│             1.00e-06 | epoch: nan                   │
╰─────────────────────────────────────────────────────╯
saved | loss: 3
"""
PANEL_ROW = {
    "loss/policy_avg": -0.25, "loss/dpo_loss": 0.5, "objective/kl_avg": 0.01, "objective/verifiable_correct_rate": 0.3,
    "episode": 512.0, "lr": 1e-6,
}  # fmt: skip


@each_row("piece", [1, 7, 65536])
@each_row("front", ["", "\x1b[36m(PolicyTrainer pid=12, ip=10.0.0.1)\x1b[0m "])
def test_a_panel_of_groups_is_a_row_with_their_names_before_the_metrics(front: str, piece: int) -> None:
    text = "".join(PANEL.format(step=step) for step in (1, 2, 3))
    records, decoder = decode("".join(front + line for line in text.splitlines(keepends=True)), piece)
    assert [record.step for record in records] == [1, 2, 3]
    for record in records:
        row = {key: value for key, value in zip(record.schema.keys, record.values, strict=True) if value == value}
        assert row == {**PANEL_ROW, "objective/scores": record.step + 0.5}
        assert [record.schema.keys[mark.cell] for mark in record.marks] == ["epoch"]
    assert decoder.counts.bad_lines == 0


@each_row(
    "panel",
    [
        PANEL.replace("training_step", "of"),
        PANEL.replace("│  other", "no line of it\n│  other").replace("│  objective", "│ objective"),
        "╭─── Status ───╮\n│  a  step: 3 | b: 4 | c: 5 │\n╰──────────────╯\n",
    ],
)
def test_a_panel_without_a_step_or_with_something_else_in_it_is_no_row(panel: str) -> None:
    records, _ = decode(panel.format(step=4))
    assert not [record for record in records if "objective/kl_avg" in record.schema.keys or "b" in record.schema.keys]


NEMO_RL = """\
========================= Step {step}/{total} =========================
▶ Preparing batch...
▶ Generating responses for batch of size 512...
(VllmGenerationWorker pid=7, ip=10.0.0.2) • Loss of a prompt: none
▶ Training policy...

📊 Validation Results:
    • Accuracy: 0.4{step}00
    • Average response length: 612.5 tokens
    • Samples processed: 256

  ⏱️  Validation Timing:
    • Total validation time: 30.49s

📊 Training Results:
  • Loss: -0.0042
  • Generation KL Error: 0.0006
  • Avg Reward: 0.{step}500
  • Mean Generation Length: 756.4512

⏱️  Timing:
  • Total step time: 43.31s
  • generation: 32.82s (75.8%)
  • prepare_for_generation/transfer_and_update_weights: 0.62s (1.4%)

🔍 Performance Metrics:
  • Mean Total Tokens per Sample: 759.48
  • Throughputs (per GPU):
    - E2E (Tokens/sec/gpu): 1032.79
"""
NEMO_PAIRS = """\
========================= Step {step}/2 =========================
📊 Training Results:
  • preference_loss: 0.6{step}00
  • Training FLOPS: 41.20 TFLOPS (5.15 TFLOPS per rank)
⏱️  Timing:
  • Total step time: 3.50s
"""


def merged(records: list[Record]) -> dict[int, dict[str, float]]:
    rows: dict[int, dict[str, float]] = {}
    for record in records:
        rows.setdefault(record.step, {}).update(row(record))
    return rows


@each_row("piece", [65536, 41])
def test_the_lists_of_nemo_rl_are_rows_under_the_names_that_it_logs(piece: int) -> None:
    text = "".join(NEMO_RL.format(step=step, total=50) for step in (1, 2, 3))
    rows = merged(decode(text, piece)[0])
    assert list(rows) == [1, 2, 3]
    assert rows[2] == {
        "validation/accuracy": 0.42, "validation/avg_length": 612.5, "timing/validation/total_validation_time": 30.49,
        "train/loss": -0.0042, "train/gen_kl_error": 0.0006, "train/reward": 0.25,
        "train/mean_gen_tokens_per_sample": 756.4512, "timing/train/total_step_time": 43.31,
        "timing/train/generation": 32.82,
        "timing/train/prepare_for_generation/transfer_and_update_weights": 0.62,
        "performance/mean_total_tokens_per_sample": 759.48,
    }  # fmt: skip


def test_the_titles_of_nemo_rl_count_on_from_one_epoch_to_the_next() -> None:
    text = "".join(NEMO_PAIRS.format(step=step) for step in (1, 2, 1, 2))
    rows = merged(decode(text)[0])
    assert {step: row["train/preference_loss"] for step, row in rows.items()} == {1: 0.61, 2: 0.62, 3: 0.61, 4: 0.62}
    assert all(set(row) == {"train/preference_loss", "timing/train/total_step_time"} for row in rows.values())


def test_a_list_without_a_title_of_a_step_is_no_row() -> None:
    records, decoder = decode("Findings:\n  • Loss: 0.3\n  • Avg Reward: 0.5\n  • generation: 3s\n" * 3)
    assert not records
    assert decoder.counts.rows == 0


# -- grids of AReaL: names and numbers in turn, as `tabulate` draws them --------------------------------------------

GRID = """\
20251123-17:23:03.392 StatsLogger INFO: Epoch 1/1 Step {step}/50 Train step {step}/50 done.
20251123-17:23:03.393 StatsLogger INFO: Stats (1/1):
20251123-17:23:03.402 StatsLogger INFO:
╒══════════════════════════════╤═════════════╤══════════════════════╤═════════════╕
│ grpo_actor/task_reward/avg   │  {step}.2500e-01 │ grpo_actor/grad_norm │  4.5000e+00 │
├──────────────────────────────┼─────────────┼──────────────────────┼─────────────┤
│ grpo_actor/update_successful │  1.0000e+00 │ timeperf/rollout     │         nan │
├──────────────────────────────┼─────────────┼──────────────────────┼─────────────┤
│ grpo_actor/entropy/avg       │  3.1000e-01 │                      │             │
╘══════════════════════════════╧═════════════╧══════════════════════╧═════════════╛
"""


@each_row("piece", [65536, 53])
@each_row("front", ["", "2025-11-23T17:23:03.403506734Z "])
def test_a_grid_below_its_title_is_a_row_of_that_step(front: str, piece: int) -> None:
    text = "".join(front + line + "\n" for step in (1, 2) for line in GRID.format(step=step).splitlines())
    records, decoder = decode(text, piece)
    assert [(one.step, one.total_steps) for one in records] == [(1, 50), (2, 50)]
    assert merged(records)[2] == {
        "grpo_actor/task_reward/avg": 0.225,
        "grpo_actor/grad_norm": 4.5,
        "grpo_actor/update_successful": 1.0,
        "grpo_actor/entropy/avg": 0.31,
    }
    assert "timeperf/rollout" in records[1].schema.keys, "a NaN is logged"
    assert decoder.counts.rows == 2


def test_a_grid_is_given_out_when_it_is_drawn_and_one_without_a_title_is_none() -> None:
    data, decoder = GRID.format(step=3).encode(), ConsoleDecoder()
    assert [one.step for one in decoder.feed(data, 0, 0)] == [3]
    assert decode("".join(GRID.format(step=3).splitlines(keepends=True)[3:]))[0] == []


FORGE = """\
[0] [Logging-0/1] 2025-11-15 12:21:09 INFO === [GlobalReduce] - METRICS STEP {step} ===
  buffer/add/count_episodes_added: 16.0
  rl_trainer/avg_loss: 0.0{step}5
  reward/avg: nan
==============================

[0] [Generator-0/1] 2025-11-15 12:21:09 INFO a/loss: 3.0
"""


@each_row("piece", [65536, 53])
@each_row("front", ["", "(Controller pid=7) "])
def test_a_block_below_the_name_of_a_process_and_a_step_is_a_row(front: str, piece: int) -> None:
    text = "".join(front + line + "\n" for step in (1, 2) for line in FORGE.format(step=step).splitlines())
    records, _ = decode(text, piece)
    assert [one.step for one in records] == [1, 2]
    assert merged(records)[2] == {"buffer/add/count_episodes_added": 16.0, "rl_trainer/avg_loss": 0.025}


def test_rows_of_a_table_of_answers_take_no_longer_than_others() -> None:
    def took(cell: str) -> float:
        decoder = ConsoleDecoder()
        line = f"│ at the time.{cell * 60}│ {cell * 72}│{cell * 8}│\n".encode()
        begin_s = time.thread_time()
        decoder.feed(line * 50, 0, 0)
        return time.thread_time() - begin_s

    took("x")
    assert took(" ") < 20 * min(took("x") for _ in range(3))


COMPOSER = """\
[epoch=2][batch={step}/125]:
\t Train time/batch: {done}
\t Train time/sample: 800
\t Train loss/train/total: 0.5{step}
\t Train lr-DecoupledAdamW/group0: 0.0001
\t Train env/reward: 0.25
[Eval batch=1/10] Eval on eval data
\t Eval metrics/eval/Accuracy: 0.9
"""
RSL_RL = (
    "#" * 80
    + """
                    \x1b[1m Learning iteration {step}/1500 \x1b[0m                    \n
                       Computation: 53211 steps/s (collection: 1.523s, learning 0.325s)
             Mean action noise std: 0.98
          Mean value_function loss: 0.0521
                       Mean reward: 3.{step}
Episode_Reward/track_lin_vel_xy_exp: 0.1203
--------------------------------------------------------------------------------
                   Total timesteps: 393216
                    Iteration time: 1.85s
                      Time elapsed: 00:00:07
                               ETA: 00:46:12

Saving model checkpoint: 12
"""
)
FRAMED = """\


********** Iteration {step} ************

Collecting data for eval...
Eval_AverageReturn : -135.96
Eval_AverageEpLen : 99.6
Train_AverageReturn : {step}.5
Actor Loss : -57.71
Train_EnvstepsSoFar : 4049
Done logging...

"""


@pytest.mark.parametrize("front", ["", "[rank0]: "])
@pytest.mark.parametrize("piece", [1 << 20, 2_000])
def test_names_and_numbers_below_the_title_of_a_step_are_a_row(front: str, piece: int) -> None:
    for text, offset, total, last in (
        (COMPOSER, 125, None, {
            "metrics/eval/Accuracy": 0.9, "loss/train/total": 0.547, "lr-DecoupledAdamW/group0": 0.0001,
            "env/reward": 0.25,
        }),
        (RSL_RL, 0, 1500, {
            "Mean action noise std": 0.98, "Mean value_function loss": 0.0521, "Mean reward": 3.47,
            "Episode_Reward/track_lin_vel_xy_exp": 0.1203, "Total timesteps": 393216.0,
        }),
        (FRAMED, 0, None, {
            "Eval_AverageReturn": -135.96, "Eval_AverageEpLen": 99.6, "Train_AverageReturn": 47.5,
            "Actor Loss": -57.71, "Train_EnvstepsSoFar": 4049.0,
        }),
    ):  # fmt: skip
        printed = "".join(text.format(step=step, done=step + 124) for step in range(41, 48))
        records, decoder = decode("".join(front + line for line in printed.splitlines(keepends=True)), piece)
        assert [record.step for record in records] == [offset + step for step in range(41, 48)]
        assert row(records[-1]) == last
        assert records[-1].total_steps == total
        assert decoder.counts.bad_lines == 0
