"""Lines of loops of one's own: prefixes of launchers, parentheses, two lines a record, bars alone, wrapped lines."""

from __future__ import annotations

import pprint
import random
import textwrap

import pytest
from tables import each_row

from rltop.formats.console.decoder import ConsoleDecoder
from rltop.formats.kinds import CONSOLE, kind_of


def decode(text):
    decoder = ConsoleDecoder()
    return [*decoder.feed(text.encode(), 0, 0), *decoder.finish()], decoder


def rows(text):
    return rows_of(decode(text)[0])


def rows_of(records):
    """Step → what was logged of it, rows of one step put together."""
    found = {}
    for record in records:
        values = zip(record.schema.keys, record.values, strict=True)
        found.setdefault(record.step, {}).update({key: value for key, value in values if value == value})
    return found


def plain(record):
    return record.step, record.schema.keys, list(record.values), record.position, record.total_steps


@each_row(
    "prefix",
    [
        "2025-11-23T17:30:00.576283569Z ",
        "2025-11-23T17:30:00Z [rank0]: ",
        "(sweep-3, pid=2710) ",
        "(WorkerDict pid=99, ip=10.0.0.7) ",
        "[rank0]: ",
        "\x1b[36m(head, rank=0, pid=7)\x1b[0m ",
    ],
)
@each_row(
    "line", ["step 10/500 | loss: 0.2 | reward: 0.5", "{'step': 10, 'loss': 0.2, 'reward': 0.5}", "step:10 - loss:0.2"]
)
def test_what_a_launcher_puts_in_front_of_a_line(prefix, line):
    (record,), _ = decode(f"{prefix}{line}\n")
    assert (record.step, dict(zip(record.schema.keys, record.values, strict=True))["loss"]) == (10, 0.2)


@each_row(
    ("line", "row"),
    [
        ("step=7 🎯 reward=0.5 📉 loss=0.2", {"reward": 0.5, "loss": 0.2}),
        ("✅ Step 7/100: reward=0.5, loss=0.2", {"reward": 0.5, "loss": 0.2}),
        ("🚀 Epoch 1 | Step 7 | Loss: 0.2 | Reward: 0.5", {"Loss": 0.2, "Reward": 0.5, "epoch": 1.0}),
        ("[  7/100] reward=0.5 loss=0.2", {"reward": 0.5, "loss": 0.2}),
        ("(7/100) reward=0.5 loss=0.2", {"reward": 0.5, "loss": 0.2}),
        ("iter 7, reward 0.5, loss 0.2", {"reward": 0.5, "loss": 0.2}),
        ("Update 7/100 | Return: 0.5 ± 0.1 | KL: 0.01", {"Return": 0.5, "Return_std": 0.1, "KL": 0.01}),
        (
            "[iter 0007] acc= 61.0% | trunc=3.0 % | mem=61.2GB/80GB | loss=2",
            {"acc": 0.61, "trunc": 0.03, "mem": 61.2, "loss": 2},
        ),
        ("Step 7 | reward: 0.5 [0.1, 0.9] | solved: 3/8 | loss: 0.2", {"reward": 0.5, "loss": 0.2}),
        ("{'step': 7, 'loss': 0.2, 'lens': array([400, 401]), 'r': [1, 0]}", {"loss": 0.2}),
    ],
)
def test_rows_as_people_print_them(line, row):
    assert kind_of(f"{line}\n".encode(), "train.log", is_all=True) is CONSOLE
    assert rows(f"{line}\n") == {7: row}


@each_row(
    "title",
    ["Step {}", "=== Step {} ===", "--- iteration {}/100 ---", "### Iteration {}", "========== Step {} ==========",
     "2025-03-01 10:00:00,123 - trainer - INFO - === Step {} ==="],
)  # fmt: skip
@each_row(
    "block",
    ["reward: 0.5, loss: 0.2\n", "reward: 0.5\nloss: 0.2\n", "  reward: 0.5\n  loss: 0.2\n\n",
     "2025-03-01 10:00:00,124 - trainer - INFO -   reward: 0.5\n[INFO] loss: 0.2\nsaved\n"],
)  # fmt: skip
def test_pairs_below_a_step(title, block):
    text = "".join(f"{title.format(step)}\n{block}" for step in (7, 8, 9))
    assert rows(text) == {step: {"reward": 0.5, "loss": 0.2} for step in (7, 8, 9)}


def test_a_number_with_a_thousand_or_a_million_behind_it_is_that_large():
    text = "step 7 | loss=0.2 | tok/s=12.5k | tokens=1.5M | rate=2K/s | mem_free=512M\n"
    known = {"loss": 0.2, "tok/s": 12_500.0, "tokens": 1_500_000.0, "rate": 2_000.0, "mem_free": 512.0}
    assert rows(text) == {7: known}


def test_another_loop_that_counts_in_brackets_is_none_of_training():
    rows_of_data = "".join(f"[{at}/1500] last_reward=+0.5 kind=inflation\n[{at}/1500] reward=0.5\n" for at in (50, 99))
    assert rows(f"{rows_of_data}{{'step': 1, 'loss': 0.5}}\n") == {1: {"loss": 0.5}}
    assert rows("step 7 | loss=0.5 | kind=inflation | level=info\n") == {7: {"loss": 0.5}}


def test_a_dictionary_of_settings_or_of_a_sample_is_no_row():
    assert rows("{'step': 7, 'reward': 0.5, 'tokens': [1, 2]}\n{'lr': 1e-6, 'optimizer': {'step': 7}}\n") == {}


def test_a_learning_rate_rounded_to_nothing_is_not_known():
    lines = [f"Epoch:[1/1]({step}/400), loss: 0.5, learning_rate: 0.0000000{4 - step // 100}" for step in (100, 400)]
    text = "".join(f"{line}, epoch_time: 1.0min\n" for line in lines)
    known = {"loss": 0.5, "epoch_time": 1.0}
    assert rows(text) == {100: {**known, "learning_rate": 3e-8}, 400: known}
    assert not any(record.marks for record in decode(text)[0])


@each_row(
    ("line", "expected"),
    [
        ("step 5 | reward=0.094 (std=0.294) | loss=0.2", {"reward": 0.094, "reward_std": 0.294, "loss": 0.2}),
        ("step 5 reward=0.5(std 0.25), kl=0.1", {"reward": 0.5, "reward_std": 0.25, "kl": 0.1}),
        ("step 5, loss 0.5 (0.625), reward 0.5 (± 0.25)", {"loss": 0.5, "reward": 0.5, "reward_std": 0.25}),
        ("step 5 | loss 0.5 | acc 0.25 (12/48)", {"loss": 0.5, "acc": 0.25}),
        ("step 5 | loss 0.5 (lr 0.125)", {"loss": 0.5, "lr": 0.125}),
    ],
)
def test_parentheses_behind_a_number(line, expected):
    assert rows(f"{line}\n") == {5: expected}


@each_row(
    ("line", "expected"),
    [
        ("reward=0.5 step=5", {"reward": 0.5}),
        ("(lr-3, pid=2710) reward=0.5 (std=0.25) step=5", {"reward": 0.5, "reward_std": 0.25}),
        ("seed=0 | step: 5 | loss: 0.25", {"seed": 0.0, "loss": 0.25}),
        ("loss=0.5, reward=0.25, iteration=5, lr=0.125", {"loss": 0.5, "reward": 0.25, "lr": 0.125}),
    ],
)
def test_the_step_may_stand_anywhere_among_pairs(line, expected):
    assert rows(f"{line}\n") == {5: expected}


@each_row(
    "line",
    [
        "2026-05-01 10:00:01.123 | INFO     | __main__:train:42 - step 5 | loss: 0.5 | reward: 0.25",
        "2026-05-01 10:00:01.123 | INFO     | __main__:train:42 | step=5 loss=0.5 reward=0.25",
        "seed1 | step 5 | loss: 0.5 | reward: 0.25",
        "GRPO step 5/500 | loss: 0.5 | reward: 0.25",
        "PPO: step 5/500 | loss: 0.5 | reward: 0.25",
        "2026-11-27 20:27:06,123 INFO trainer: step 5/500 | loss: 0.5 | reward: 0.25",
        "2026-11-27 20:27:06,123 INFO     rl.trainer: step=5 loss=0.5 reward=0.25",
        "[10:00:01] INFO     step 5 | loss: 0.5 | reward: 0.25                    train.py:42",
        "step 5 | loss: 0.5 | reward: 0.25 | saved",
        "step 5: loss=0.5, reward=0.25 (best so far)",
    ],
)
def test_what_loggers_put_in_front_and_what_is_remarked_behind(line):
    assert rows(f"{line}\n") == {5: {"loss": 0.5, "reward": 0.25}}


@each_row("front", ["[eval] ", "eval | ", "EVAL ", "Validation ", "2026-01-01 12:00:00,000 - INFO - [val] "])
def test_what_a_line_of_an_evaluation_says_is_not_of_training(front):
    text = f"[train] step 5 | loss: 0.5 | reward: 0.25\n{front}step 5 | loss: 2 | reward: 1\n"
    assert rows(text) == {5: {"loss": 0.5, "reward": 0.25, "eval/loss": 2.0, "eval/reward": 1.0}}


def test_a_speed_behind_a_line_with_a_step_alone_is_of_that_step():
    text = "Epoch: 1, global_step=0\nSPS: 10133\nEpoch: 2, global_step=102400\nEvaluating\nSPS: 14052\n"
    assert rows(text) == {0: {"epoch": 1.0, "SPS": 10133.0}}


@each_row("mark", ["[EVAL]", "(eval)", "[val]", "[validation]"])
def test_an_evaluation_may_be_named_behind_the_step(mark):
    text = f"Step 5: loss=0.5, reward=0.25\nStep 5 {mark}: reward=2, val_reward=1.5\nStep 6: loss=0.25\n"
    evaluated = {"eval/reward": 2.0, "val_reward": 1.5}
    assert rows(text) == {5: {"loss": 0.5, "reward": 0.25, **evaluated}, 6: {"loss": 0.25}}


@each_row("line", ["step 5: loss 0.5 and a reward of 0.25 were seen", "step 5 | the loss: 0.5 (so it was said)"])
def test_a_sentence_with_a_step_is_no_row(line):
    assert rows(f"{line}\n") == {}


@each_row("line", ["saved at step=5 loss=0.5", "x=5 step=5", "loss=0.5 step=5.5", "reward=0.5 at step=5"])
def test_a_sentence_with_pairs_and_a_step_is_no_row(line):
    assert rows(f"{line}\n") == {}


@each_row("printed", ["tensor([-1., 1., 3.])", "tensor([[-1., 3.], [0., 2.]], device='cuda:0')"])
def test_a_tensor_of_several_numbers_is_their_mean(printed):
    assert rows(f"step 5 | loss: 0.5 | rewards: {printed}\n") == {5: {"loss": 0.5, "rewards": 1.0}}
    assert rows(f"{{'step': 5, 'loss': 0.5, 'rewards': {printed}}}\n") == {5: {"loss": 0.5, "rewards": 1.0}}
    assert rows(f"step:5 - loss:0.5 - rewards:{printed}\n") == {5: {"loss": 0.5, "rewards": 1.0}}


BROKEN = "tensor([-1.0000,  1.0000,\n         3.0000], device='cuda:0')"


@each_row("end", ["\n", "\r\n"])
def test_a_tensor_that_is_printed_over_several_lines_is_one_value(end):
    expected = {5: {"loss": 0.5, "a": 1.0, "b": 1.0, "kl": 0.25}, 6: {"loss": 0.5}}
    for text in (
        f"step 5 | loss: 0.5 | a: {BROKEN} | b: {BROKEN} | kl: 0.25\nstep 6 | loss: 0.5\n",
        f"{{'step': 5, 'loss': 0.5, 'a': {BROKEN}, 'b': {BROKEN}, 'kl': 0.25}}\nstep 6 | loss: 0.5\n",
        f"step:5 - loss:0.5 - a:{BROKEN} - b:{BROKEN} - kl:0.25\nstep:6 - loss:0.5\n",
    ):
        assert {step: row for step, row in rows(text.replace("\n", end)).items() if step == 5} == {5: expected[5]}


def test_a_tensor_that_does_not_end_takes_no_other_line_with_it():
    assert rows("step 5 | loss: 0.5 | a: tensor([-1., \nstep 6 | loss: 0.5\n") == {6: {"loss": 0.5}}


@each_row("end", ["\n", "\r\n"])
def test_two_lines_are_one_record(end):
    lines = [
        "Epoch: 292, global_step=598016",
        "SPS: 1234, pg_loss=0.25",
        "Epoch: 293, global_step=600064, reward=0.5 (std=0.25)",
        "SPS: 1230, pg_loss=0.125",
    ]
    assert rows(end.join(lines) + end) == {
        598016: {"epoch": 292.0, "SPS": 1234.0, "pg_loss": 0.25},
        600064: {"epoch": 293.0, "reward": 0.5, "reward_std": 0.25, "SPS": 1230.0, "pg_loss": 0.125},
    }


def test_what_does_not_stand_right_behind_a_line_does_not_belong_to_it():
    assert rows("step 1 | loss: 0.5\nLoading weights: 3\nkl: 0.5, lr: 0.1\n") == {1: {"loss": 0.5}}
    assert rows("step 1 | loss: 0.5\nsaved 3 files\nloss: 0.5, reward: 0.1\n") == {1: {"loss": 0.5}}


BARS = "".join(f"\r 12%|█▏   | {at}/100 [00:10<01:20,  1.1it/s, R={at}.5, U=25%]" for at in (1, 2))


def test_bars_alone_are_rows():
    assert rows(f"{BARS}\n") == {1: {"R": 1.5, "U": 0.25}, 2: {"R": 2.5, "U": 0.25}}
    assert rows(f"{BARS.replace(' 12%', 'Training:  12%')}\n").keys() == {1, 2}


def test_a_bar_without_a_pace_loses_no_value():
    for pace in ("", ",  1.1it/s", ", ?it/s"):
        text = f" 12%|█▏   | 7/100 [00:10<01:20{pace}, reward=0.5, loss=0.25]\n"
        assert rows(text) == {7: {"reward": 0.5, "loss": 0.25}}, pace


LOOPS_OF_TRAINERS = {
    "torchtitan": (
        "[rank0]:[titan] 2026-05-01 10:00:01,123 - root - INFO - \x1b[31mstep:  7  \x1b[32mloss:  0.5000  "
        "\x1b[38;2;180;60;0mgrad_norm:  1.25  \x1b[33mmemory: 10.12GiB(12.81%)  \x1b[34mtps: 3,125  mfu: 25.0%\x1b[39m",
        {"loss": 0.5, "grad_norm": 1.25, "memory": 10.12, "tps": 3125.0, "mfu": 0.25},
    ),
    "MaxText": (
        "completed step: 7, seconds: 1.5, TFLOP/s/device: 123.5, total_weights: 8192, loss: 0.500",
        {"seconds": 1.5, "TFLOP/s/device": 123.5, "total_weights": 8192.0, "loss": 0.5},
    ),
    "XTuner": (
        "05/01 10:00:01 - mmengine - INFO - Iter(train) [     7/1000]  lr: 2.0e-05  eta: 1:02:03  time: 1.5  loss: 0.5",
        {"lr": 2e-05, "time": 1.5, "loss": 0.5},
    ),
    "LitGPT": (
        "Epoch 1 | iter 7 step 7 | loss train: 0.500, val: n/a | iter time: 312.5 ms (step)",
        {"epoch": 1.0, "step": 7.0, "loss train": 0.5, "iter time": 312.5},
    ),
    "fairseq": (
        "2026-05-01 10:00:01 | INFO | train_inner | epoch 001:    7 / 5000 loss=0.5, ppl=4.25, num_updates=7, lr=1e-05",
        {"epoch": 1.0, "loss": 0.5, "ppl": 4.25, "num_updates": 7.0, "lr": 1e-05},
    ),
    "OpenRLHF": (
        "Train epoch [1/1]:  7%|█  | 7/100 [00:11<10:00,  1.23s/it, pg=0.5, ret=0.25, kl=0.125, act_lr=5e-7]",
        {"epoch": 1.0, "pg": 0.5, "ret": 0.25, "kl": 0.125, "act_lr": 5e-07},
    ),
    "NeMo": (
        "Epoch 0: :   7%|█ | 7/100 [00:11<10:00, v_num=, reduced_train_loss=0.5, train_step_timing in s=1.25]",
        {"epoch": 0.0, "reduced_train_loss": 0.5, "train_step_timing in s": 1.25},
    ),
    "NeMo 2": (
        "Training epoch 0, iteration 7/99 | lr: 1e-05 | reduced_train_loss: 0.5 | train_step_timing in s: 1.25",
        {"epoch": 0.0, "lr": 1e-05, "reduced_train_loss": 0.5, "train_step_timing in s": 1.25},
    ),
    "OLMo": (
        "2026-05-01 10:00:01.123\thost:0\ttrain:967\tINFO\t[step=7/1000,epoch=0]\n    optim/total_grad_norm=1.25\n"
        "    train/CrossEntropyLoss=0.5\n    throughput/device/tokens_per_second=8,125",
        {"optim/total_grad_norm": 1.25, "train/CrossEntropyLoss": 0.5, "throughput/device/tokens_per_second": 8125.0},
    ),
}  # fmt: skip


@each_row("trainer", LOOPS_OF_TRAINERS)
def test_lines_of_pairs_as_trainers_write_them(trainer):
    line, expected = LOOPS_OF_TRAINERS[trainer]
    assert rows(f"{line}\n") == {7: expected}


def test_a_bar_that_begins_anew_in_each_epoch_is_counted_on():
    bar = "\rEpoch {0}: 100%|████| 100/100 [00:05<00:00, 20.1it/s, v_num=0, train_loss=0.{0}5]"
    text = "".join(bar.format(epoch) for epoch in range(3))
    assert rows(f"{text}\n") == {
        100 * (epoch + 1): {"v_num": 0.0, "train_loss": float(f"0.{epoch}5"), "epoch": epoch} for epoch in range(3)
    }
    text = "".join(bar.format(0).replace("100%", "9%").replace("100/", f"{at}/") for at in (9, 10))
    assert rows(f"{text}\n").keys() == {9, 10}
    again = bar.format(0) + bar.format(0).replace("Epoch 0", "Epoch 1")
    text = again + bar.format(1).replace("100%", "9%").replace("100/", "9/") + bar.format(1)
    assert rows(f"{text}\n").keys() == {100, 109, 200}
    assert rows("Epoch: 100%|██| 3/3 [00:05<00:00, loss=0.5]\n") == {3: {"loss": 0.5}}


def test_a_bar_without_an_end_counts_its_steps_or_else_its_epochs():
    bar = "\rEpoch {0}: {1}it [00:0{1}, 3.2it/s, loss=0.{0}{1}, v_num=12]"
    text = "Epoch 0: 0it [00:00, ?it/s]" + "".join(bar.format(epoch, at) for epoch in (0, 1) for at in (1, 2, 3))
    found = rows(f"{text}\n")
    assert {step: row["loss"] for step, row in found.items()} == {1: 0.01, 2: 0.02, 3: 0.03, 4: 0.11, 5: 0.12, 6: 0.13}
    shown = [f"Epoch {epoch}: : 0it [0{at}:00, ?it/s, loss=0.{at}5, v_num=0]" for epoch, at in ((0, 1), (1, 1), (1, 2))]
    assert {step: row["loss"] for step, row in rows("\r".join([*shown, "\n"])).items()} == {0: 0.15, 1: 0.25}
    assert rows("Epoch 0: 0it [00:00, ?it/s]\nDownloading: 7it [00:01, 3.2it/s, size=5]\n") == {}


def test_several_values_before_the_bar_and_numbers_behind_it_are_read():
    bar = "{at}%|█▏   | {at}/100 [00:10<01:20,  1.1it/s{inside}]{behind}"
    front = "R=0.5, U=25%: "
    for text, expected in (
        (front + bar.format(at=7, inside="", behind=""), {"R": 0.5, "U": 0.25}),
        ("R: 0.5, U: 25%: " + bar.format(at=7, inside="", behind=""), {"R": 0.5, "U": 0.25}),
        (front + bar.format(at=7, inside=", kl=0.125", behind=""), {"R": 0.5, "U": 0.25, "kl": 0.125}),
        (bar.format(at=7, inside="", behind=" R=0.5 U=25%"), {"R": 0.5, "U": 0.25}),
        (bar.format(at=7, inside="", behind=" | loss: 0.5, reward: 0.25"), {"loss": 0.5, "reward": 0.25}),
        (
            front + bar.format(at=7, inside=", kl=0.125", behind=" loss=2"),
            {"R": 0.5, "U": 0.25, "kl": 0.125, "loss": 2},
        ),
    ):
        for start in ("", "\r", "some noise\n"):
            assert rows(f"{start}{text}\n") == {7: expected}, text
    for other in ("Map (num_proc=4, n=8): ", "epoch=1, step=3: ", "Loading a=1 of 5, b=2: ", "R=0.5: "):
        assert rows(other + bar.format(at=7, inside="", behind="") + "\n") == {}
    assert rows("Loading: " + bar.format(at=7, inside="", behind=" R=0.5") + "\n") == {}


def test_bars_beside_rows_and_bars_of_something_else_are_none():
    assert rows(f"step 7 | loss: 0.5\n{BARS}\n") == {7: {"loss": 0.5}}
    assert rows(f"{BARS.replace(' 12%', 'Loading weights:  12%')}\n") == {}


PLAIN_BARS = [
    "step {at}/100 R={at}.5, U=25%",
    "\rstep {at}/100 R={at}.5, U=25%",
    "step {at}/100: R={at}.5, U=25%",
    "{at}% step {at}/100 R={at}.5 U=25%",
    "[train] step {at}/100 | R: {at}.5 | U: 25%",
]


@each_row("bar", PLAIN_BARS)
def test_a_bar_without_a_frame_is_a_row(bar):
    text = "".join(bar.format(at=at) + ("" if bar.startswith("\r") else "\n") for at in range(1, 4))
    assert rows(f"loading\n{text}\n") == {at: {"R": at + 0.5, "U": 0.25} for at in range(1, 4)}
    assert {record.total_steps for record in decode(f"{text}\n")[0]} == {100}


def test_a_bar_that_a_loop_draws_itself():
    assert rows("[===>      ] 7/100 loss=0.5 U=25%\n") == {7: {"loss": 0.5, "U": 0.25}}


def test_steps_of_a_calculation_are_no_rows():
    for text in ("Step 1/3: a=2, b=5", "step 5 R=0.5 U=25", "step 5/100 a=2", "step 5/100 we got a=2, b=3 of them"):
        assert rows(f"{text}\n" * 3) == {}, text
    counts = decode("step 5 R=0.5 U=25\nstep 6 R=0.5 U=26\n")[1].counts
    assert (counts.unread_lines, counts.first_unread) == (2, "line 1: step 5 R=0.5 U=25")


def test_cells_of_a_step_without_a_loss_are_a_row_if_there_are_several_and_a_result():
    row = {"Train Acc": pytest.approx(0.1133), "KL": 0.0, "Time": 63.0}
    assert rows("Step 1/50 | Train Acc: 11.33% | KL: 0.0000 | Time: 63.0s\n") == {1: row}
    for text in (
        "Step 1/50 | First Part: 2 | KL: 3",
        "Step 1/50: First Part: 2, KL: 3, Time: 4",
        "Step 1/50 | A B: 2 | C: 3 | D: 4",
    ):
        assert rows(f"{text}\n") == {}, text


def test_events_of_a_fine_tuning_job():
    text = "  [17736101] Step {0}/300: training loss={1}, validation loss=0.5\n"
    assert rows(text.format(100, 0.72)) == {100: {"training loss": 0.72, "validation loss": 0.5}}
    (alone,), _ = decode("[17736101] Step 7/300: training loss=0.72\n")
    assert (alone.step, alone.total_steps, *alone.values) == (7, 300, 0.72)
    (alone,), _ = decode("Step 7/300: train reward=0.72\n")
    assert alone.schema.keys == ("train reward",)


def test_a_counter_that_is_one_of_one_on_each_line_is_no_step():
    text = "".join(f"Update 1/1, Policy Loss: -0.1{at}, Value Loss: 0.5, Entropy Loss: 0.01\n" for at in range(5))
    assert [row["Policy Loss"] for row in rows(text).values()] == [-0.1, -0.11, -0.12, -0.13, -0.14]
    assert len(rows("step 1/1 | loss: 0.5\n")) == 1


@each_row(
    ("line", "step", "row", "total"),
    [
        (
            "[Epoch:2/3](Step: 464/1380), train_loss: 14.5, token_entropy: 1.9, spent time: 0.0min",
            464, {"train_loss": 14.5, "token_entropy": 1.9, "spent time": 0.0, "epoch": 2.0}, 1380,
        ),
        ("[Epoch 1/2] (iter 30/500) loss: 0.5", 30, {"loss": 0.5, "epoch": 1.0}, 500),
        (
            "Ep 010 | scenario=goal_mu_02 | mean_ret=-13.9 | std=0.2 | loss=0.04 | kl=0.15",
            10, {"mean_ret": -13.9, "std": 0.2, "loss": 0.04, "kl": 0.15}, None,
        ),
        ("step 7/90 | phase=warm-up | loss: 0.5 | lr: 1e-4", 7, {"loss": 0.5, "lr": 1e-4}, 90),
        (
            "Iter 20: Train loss 1.43, Learning Rate 1.000e-05, It/sec 0.5, Trained Tokens 4345, Peak mem 4.7 GB",
            20, {"Train loss": 1.43, "Learning Rate": 1e-5, "It/sec": 0.5, "Trained Tokens": 4345.0, "Peak mem": 4.7},
            None,
        ),
        (
            "loss.item()=2.9, scheduler.get_last_lr()=[3e-06], optimizer.param_groups[0]['lr']=2e-06, update=209",
            209, {"loss": 2.9, "optimizer.param_groups": 2e-6}, None,
        ),
        ("train_accuracy=0.5, scheduler.get_last_lr()=[3e-06], update=25", 25, {"train_accuracy": 0.5}, None),
        ("[Update 25/100] PolicyLoss=0.5 KL=0.02", 25, {"PolicyLoss": 0.5, "KL": 0.02}, 100),
        ("Iter 20: Val loss 1.63, Val took 3.4s", 20, {"Val loss": 1.63, "Val took": 3.4}, None),
        (
            "Iter 21: Train loss 0.1, Total rewards mean 0.7, Total rewards std 0.2, KL 0.001, r1_count_xml mean 0.3, "
            "Learning Rate 1.0e-05, Peak mem 34.7 GB",
            21,
            {"Train loss": 0.1, "Total rewards mean": 0.7, "Total rewards std": 0.2, "KL": 0.001,
             "r1_count_xml mean": 0.3, "Learning Rate": 1e-5, "Peak mem": 34.7},
            None,
        ),
    ],
)  # fmt: skip
def test_names_steps_and_words_in_the_forms_of_loops_and_mlx(line, step, row, total):
    (record,), _ = decode(line + "\n")
    assert rows_of([record]) == {step: row} and record.total_steps == total


@each_row(
    "line",
    [
        "Ep 3 | we lost=badly | and 5",
        "Iter 3: the file took 5 seconds, nothing mean 3",
        "step 4: tool=search | query=what is 5",
    ],
)
def test_words_behind_a_step_stay_words(line):
    assert not decode(line + "\n")[0]


def test_steps_that_ms_swift_prints_as_a_part_of_the_whole_count():
    line = "{{'loss': 0.2, 'grad_norm': 0.6, 'learning_rate': 8e-07, 'rewards/margins': {}, 'epoch': 0.6, "
    line += (
        "'global_step/max_steps': '{}/176', 'percentage': '31.8%', 'elapsed_time': '1h 22m', 'remaining_time': '9s'}}\n"
    )
    records, _ = decode("".join(line.format(at / 10, at) for at in (50, 55, 60)))
    assert [(record.step, record.total_steps) for record in records] == [(50, 176), (55, 176), (60, 176)]


def test_a_single_result_behind_a_step_is_read_or_quoted():
    assert rows("seed1 | step 1 | loss 0.5\nseed1 | step 2 | loss 0.4\n") == {1: {"loss": 0.5}, 2: {"loss": 0.4}}
    found, decoder = decode("step 5 loss 0.5\n")
    assert not found and decoder.counts.first_unread == "line 1: step 5 loss 0.5"


@each_row(
    ("form", "total"),
    [
        ("Epoch: {at}, Train loss: {loss}", None),
        ("Epoch {at}/60: loss={loss}", 60),
        ("[Epoch {at}/60] loss {loss}", 60),
    ],
)
def test_epochs_count_where_a_loop_names_no_step(form, total):
    records, _ = decode("".join(f"{form.format(at=at, loss=at / 8)}\n\n" for at in range(3)))
    assert [(record.step, list(record.values), record.total_steps) for record in records] == [
        (at, [at / 8], total) for at in range(3)
    ]


def test_what_is_said_of_one_epoch_on_two_lines_is_one_row():
    text = "".join(f"Epoch: {at}, Train loss: 0.5\nEpoch: {at}, Val loss: 0.7\n" for at in range(2))
    assert rows(text) == {at: {"Train loss": 0.5, "Val loss": 0.7} for at in range(2)}


@each_row("between", ["", "Epoch: 1, Train loss: 0.5\n"])
def test_epochs_do_not_count_beside_steps(between):
    text = "step 10/500 | loss: 0.5\n" + between + "step 20/500 | loss: 0.25\n"
    assert rows(text) == {10: {"loss": 0.5}, 20: {"loss": 0.25}}
    assert rows(f"Epoch 0: loss=0.75\n{text}").keys() == {0, 10, 20}


@each_row(
    "line", ["Epoch 2 finished with loss 0.5 in 3 min", "Epoch 3 | lr: 0.1", "Epoch 4: step 7 of loss=0.5", "Epoch 5"]
)
def test_sentences_and_headings_with_an_epoch_are_no_rows(line):
    assert rows(f"{line}\n") == {}


def test_a_bar_without_a_frame_above_the_metrics_of_its_step_heads_them():
    text = "".join(f"step {at}/100 epoch=1, n={at}\nloss=0.{at} reward=0.5\n\n" for at in range(1, 4))
    expected = {at: {"epoch": 1, "n": at, "loss": at / 10, "reward": 0.5} for at in range(1, 4)}
    assert rows(text) == expected
    assert rows("step 7 | loss: 0.5\nstep 8/100 a=1, b=2\n") == {7: {"loss": 0.5}}


KEYS = [
    "actor/pg_loss",
    "actor/entropy",
    "actor/grad_norm",
    "critic/score/mean",
    "critic/kl",
    "perf/mfu",
    "timing_s/gen",
]
LINES = [
    f"step:{step} - " + " - ".join(f"{key}:0.{at}{step}5{'3' * at}1" for at, key in enumerate(KEYS, 1))
    for step in (1, 2)
]
WRAPPED = "\n".join(line[at : at + 80] for line in LINES for at in range(0, len(line), 80))


def test_lines_that_a_terminal_wrapped_in_the_middle_of_words():
    assert "\n" in WRAPPED
    found, decoder = decode(f"{WRAPPED}\n")
    assert rows(f"{WRAPPED}\n") == rows("\n".join(LINES) + "\n")
    assert len(found[0].schema.keys) == len(KEYS)
    assert decoder.counts.bad_lines == 0


def test_lines_that_were_wrapped_at_blanks():
    text = "\n".join("\n".join(textwrap.wrap(line, 80, break_on_hyphens=False)) for line in LINES)
    assert text.count("\n") > 3
    assert rows(f"{text}\n") == rows("\n".join(LINES) + "\n")


def test_what_another_process_printed_is_not_joined():
    line = f"step:1 - actor/pg_loss:0.5 - actor/{'x' * 45}"
    (record,), decoder = decode(f"{line}\nINFO 01-02 engine.py:12] ready - waiting\n")
    assert (len(line), record.schema.keys) == (80, ("actor/pg_loss",))
    assert decoder.counts.partial_lines == 1


def test_a_row_of_the_width_of_a_terminal_does_not_wait_for_the_next_line():
    line = "step:7 - " + "x" * 63 + "/a:0.25"
    decoder = ConsoleDecoder()
    records = [*decoder.feed(f"{line}\n".encode(), 0, 0), *decoder.flush()]
    assert [record.step for record in records] == [7]


def numbers(step):
    dice = random.Random(step)
    keys = ("loss", "policy_loss", "reward", "reward_std", "kl", "entropy", "grad_norm", "clip_ratio")
    return [
        *((key, f"{dice.uniform(-2, 9):.{dice.randint(2, 5)}f}") for key in keys),
        ("learning_rate", f"{dice.uniform(1, 9):.2f}e-06"),
        ("accuracy", f"{dice.uniform(10, 99):.1f}%"),
    ]


def pairs(step, sign, between):
    return between.join(f"{key}{sign}{value}" for key, value in numbers(step))


LOOPS = {
    "bars": lambda step: f"step {step}/500 | {pairs(step, ': ', ' | ')}",
    "commas": lambda step: f"step={step} {pairs(step, '=', ', ')}",
    "blanks": lambda step: f"[train] epoch=0 step={step} {pairs(step, '=', ' ')}",
    "logging": lambda step: f"2026-01-01 12:00:00,123 - trainer - INFO - step {step} | {pairs(step, ': ', ' | ')}",
    "step last": lambda step: f"{pairs(step, '=', ', ')}, step={step}",
    "words": lambda step: f"Iteration {step}: {pairs(step, ': ', ', ').replace('_', ' ').title()}",
    "no sign": lambda step: f"Step {step} | {pairs(step, ' ', ' | ')}",
    "trainer": lambda step: f"Step {step} | {pairs(step, ':', ' ').replace('%', '')}",
    "epochs": lambda step: f"Epoch:[1/2]({step}/975), {pairs(step, ':', ', ')}",
}


@pytest.mark.parametrize("form", LOOPS)
def test_a_terminal_that_cuts_lines_inside_pairs_makes_no_false_number(form):
    lines = [LOOPS[form](step) for step in range(1, 13)]
    whole = rows("".join(f"{line}\n" for line in lines))
    assert sum(map(len, whole.values())) >= 12 * 9
    for width in (80, *range(60, 131, 7)):
        text = "".join(f"{line[at : at + width]}\n" for line in lines for at in range(0, len(line), width))
        records, decoder = decode(f"loading\n{text}")
        found, counts = rows_of(records), decoder.counts
        assert all(whole[step].items() >= row.items() for step, row in found.items()), width
        if found != whole and any(len(line) > width for line in lines):
            assert counts.partial_lines or counts.no_step_lines, width
            assert "“" in counts.first_bad_reason or "incomplete" in counts.first_bad_reason or counts.first_stepless
        assert counts.bad_lines <= len(lines)


def test_a_number_that_a_terminal_cut_is_put_together_and_a_name_is_not():
    line = "[my_experiment] step 7/90 | loss: 0.25 | value: 0.75 | reward: 0.12345 | kl: 0.5 | entropy: 2.0 | lr: 1e-06"
    cut = line.index("345")
    assert rows(f"{line[:cut]}\n{line[cut:]}\n")[7]["reward"] == 0.12345
    found, decoder = decode(f"{line[: cut - 9]}\n{line[cut - 9 :]}\n")
    assert "reward" not in found[0].schema.keys
    assert decoder.counts.first_bad_reason.startswith("wrapped by a terminal")


@each_row(
    "text",
    [
        "step 10 | loss: 0.25 | reward: 0.5 | kl: 0.125\n42\nstep 20 | loss: 0.25 | reward: 0.25 | kl: 0.125 | lr: 1\n",
        "step 10 | loss: 0.25 | reward: 0.5 | kl: 0.125\n100%|████| 10/10 [00:10<00:00, 1.0it/s]\n",
        "step 10 | loss: 0.25 | reward: 0.5 | kl: 0.125\n2026-01-01 12:00:00 step 11 | loss: 0.5 | reward: 0.5\n",
        "step 10 | loss: 0.25 | reward: 0.5 | time: 3.2 s\nSPS: 12, pg_loss=0.5\n",
    ],
)
def test_what_stands_below_a_whole_line_is_not_joined_to_it(text):
    first, *_ = decode(text)[0]
    row = dict(zip(first.schema.keys, first.values, strict=True))
    assert row.get("kl", 0.125) == 0.125
    assert (row["loss"], row["reward"], row.get("time", 3.2)) == (0.25, 0.5, 3.2)


def test_a_line_that_a_terminal_wrapped_at_its_separators():
    text = "step 10/50 | loss: 0.25 | reward: 0.5 |\n kl: 0.125 | entropy: 2\n"
    assert rows(text) == {10: {"loss": 0.25, "reward": 0.5, "kl": 0.125, "entropy": 2.0}}


@each_row("size", [1, 2, 3, 17, 61, 97])
def test_cut_anywhere_it_is_the_same(size):
    text = (
        f"step 4 | loss: 0.5 | a: {BROKEN} | b: {BROKEN}\n"
        f"Epoch: 1, global_step=5\r\nSPS: 12, pg_loss=0.5\nstep 7 | loss: 0.5\n\nkl: 0.1, lr: 0.5\n{BARS}\n{WRAPPED}\n"
        + "".join(f"{line[at : at + 72]}\n" for line in map(LOOPS["bars"], range(20, 23)) for at in range(0, 240, 72))
    )
    data, decoder = text.encode(), ConsoleDecoder()
    records = [record for at in range(0, len(data), size) for record in decoder.feed(data[at : at + size], at, 0)]
    assert [plain(each) for each in (*records, *decoder.finish())] == [plain(each) for each in decode(text)[0]]


@pytest.mark.parametrize("width", [4096, 4095])
def test_evaluations_behind_the_cut_of_a_line_are_said_to_be_lost(width):
    pairs = " - ".join(f"val-aux/set_{at:03}/reward/mean:{at}.125" for at in range(200))
    line = f"step:10 - {pairs}"
    line = line[: line.rindex(" - ", 0, width)]
    line += " -" if width == 4095 else " - val-aux/x"
    line = line.replace("set_", "set_" + "x" * (width - len(line)), 1)
    (record, _), decoder = decode(f"{line}\nstep:11 - a:1\n")
    values = line.count(".125")
    assert (len(line), len(record.schema.keys)) == (width, values)
    assert decoder.counts.first_bad_reason == f"line cut at 4,096 characters; {values} values could be read"
    assert decoder.counts.cut_evaluations == 1
    assert (decoder.counts.bad_lines, decoder.counts.partial_lines) == (1, 1)


def test_lost_evaluations_are_counted_where_their_lines_are_cut_and_no_others():
    noise = " - ".join(f"actor/part_{at:03}:{at}.125" for at in range(300))
    plain = "".join(f"step:{at} - actor/pg_loss:0.5\n" for at in range(1, 9))
    cut = f"step:9 - {noise}"[:4096]
    assert decode(f"{plain}{cut}\n")[1].counts.cut_evaluations == 0, "no evaluation is known of"
    known = "step:0 - val-core/a/reward/mean@1:0.5\n"
    assert decode(f"{known}{plain}{cut}\n{cut.replace('step:9', 'step:10')[:4096]}\n")[1].counts.cut_evaluations == 2
    every = "".join(f"step:{at} - {noise}"[:4096] + "\n" for at in range(1, 9))
    assert decode(known + every)[1].counts.cut_evaluations == 0, "every line is cut"


def printed(what, front=""):
    """What `pprint` makes of a text that is wider than 80 columns."""
    values = {f"val-aux/set_{at}/reward/mean@8": f"np.float64(0.{at}25)" for at in range(1, 9)}
    text = f"{what} validation metrics: {{" + ", ".join(f"'{key}': {value}" for key, value in values.items()) + "}"
    return "".join(f"{front}{line}\n" for line in pprint.pformat(text).splitlines())


@pytest.mark.parametrize("front", ["", "\x1b[36m(TaskRunner pid=9)\x1b[0m "])
def test_validation_that_is_printed_over_several_lines_is_an_evaluation(front):
    begin, end = printed("Initial", front), printed("Final", front)
    assert begin.count("\n") > 3
    values = {f"val-aux/set_{at}/reward/mean@8": float(f"0.{at}25") for at in range(1, 9)}
    steps = "".join(f"{front}step:{at} - actor/pg_loss:0.5 - actor/grad_norm:1.0\n" for at in range(1, 4))
    found = rows(begin + steps + end)
    assert found[0] == values
    logged = "step:100 - val-aux/set_1/reward/mean@8:0.125\n"
    records, _ = decode(begin + logged + steps.replace("step:", "step:10") + logged.replace(":100", ":110") + end)
    assert [record.step for record in records] == [100, 101, 102, 103, 110, 110]
    assert dict(zip(records[0].schema.keys, records[0].values, strict=True)) == values
    assert "val-aux/set_1/reward/mean@8" not in records[-1].schema.keys, "it was in the row"
    assert found[3] == {"actor/pg_loss": 0.5, "actor/grad_norm": 1.0} | values
    assert rows(f"{front}\"Initial validation metrics: {{'val/test_score/a': 0.42}}\"\n") == {
        0: {"val/test_score/a": 0.42}
    }
    other = begin.replace("\n", "\n(WorkerDict pid=3) INFO loading {'a': 1}\n", 2) if front else begin
    assert rows(other)[0] == values
    text = begin + steps + end
    data, decoder = text.encode(), ConsoleDecoder()
    records = [record for at in range(0, len(data), 7) for record in decoder.feed(data[at : at + 7], at, 0)]
    assert [plain(each) for each in (*records, *decoder.finish())] == [plain(each) for each in decode(text)[0]]
    assert rows(f"{front}'Final validation metrics: None'\n") == {}


def test_rows_of_a_log_without_any_step_are_numbered():
    """Eight rows of the same names show that they are rows; what stands between them belongs to one of them."""
    line = "[Update 1/4] PolicyLoss={0}.5 KL=0.25 Adv(mean=0.0, std=1.0)\n"
    text = "".join(f"  model: Mean reward: 0.{i}\n" + line.format(i) + f"val reward: 0.{i}\n" for i in range(9))
    records, decoder = decode(text)
    told = [(record.step, dict(zip(record.schema.keys, record.values, strict=True))) for record in records]
    assert told[0] == (1, {"reward": 0.0, "PolicyLoss": 0.5, "KL": 0.25})
    assert [step for step, row in told if "PolicyLoss" in row] == [*range(1, 10)]
    assert [row["reward"] for _, row in told if len(row) == 3] == [i / 10 for i in range(9)]
    assert decoder.counts.no_step_lines == 0 and decoder.counts.numbered_rows == len(records)
    for size in (7, 100):
        data, split = text.encode(), ConsoleDecoder()
        again = [one for at in range(0, len(data), size) for one in split.feed(data[at : at + size], at, 0)]
        assert [plain(one) for one in (*again, *split.finish())] == [plain(one) for one in records]
    records, _ = decode(text + "step 1 | loss: 0.5\nstep 2 | loss: 0.5\n")
    assert [(record.step, record.is_new_end) for record in records[-2:]] == [(1, True), (2, False)]
    both = "".join(f"(Worker pid={rank}) loss: 0.{i} | kl: 0.25\n" for i in range(9) for rank in (4, 7))
    assert [record.step for record in decode(both)[0]] == [*range(1, 10)], "of two ranks that print the same"
    records, decoder = decode("reward: 0.5 | score: 1.0\n" * 30)
    assert not records and decoder.counts.no_step_lines == 30, "samples"


@each_row("said", [20, 19, 21])
def test_an_evaluation_that_names_the_step_of_numbered_rows_belongs_to_them(said):
    line = "reward: 0.{0} loss: 0.5 kl: 0.01\n"
    text = "".join(line.format(i) for i in range(10, 30)) + f"[step {said}] eval accuracy: 0.75\n"
    text += "".join(line.format(i) for i in range(30, 50))
    records, decoder = decode(text)
    told = [(record.step, dict(zip(record.schema.keys, record.values, strict=True))) for record in records]
    assert [step for step, row in told if "reward" in row] == [*range(1, 41)]
    assert [(step, row) for step, row in told if "reward" not in row] == [(said, {"eval accuracy": 0.75})]
    assert decoder.counts.numbered_rows == 40 and not any(record.is_new_end for record in records)


@each_row("row", ["loss: {loss} reward: 0.5 kl: 0.01", "{{'loss': {loss}, 'reward': 0.5}}"])
@each_row(
    "said", ["step {step}: val/accuracy: 0.75", "[eval] step={step} accuracy=0.75", "Eval at step {step}: acc 0.75"]
)
@each_row("interval", [1, 10])
@each_row("every", [5, 20])
@each_row("is_first", [False, True])
def test_evaluations_that_name_their_step_leave_no_row_without_one_behind(row, said, interval, every, is_first):
    lines = [said.format(step=0)] if is_first else []
    for number in range(1, 61):
        lines.append(row.format(loss=number / 64))
        if number % every == 0:
            lines.append(said.format(step=number * interval))
    records, _ = decode("\n".join(lines) + "\n")
    told = [(record.step, dict(zip(record.schema.keys, record.values, strict=True))) for record in records]
    losses = [(step, row["loss"]) for step, row in told if "loss" in row]
    off = losses[0][0] - 1
    assert losses == [(number + off, number / 64) for number in range(1, 61)] and off in ((0, -1) if is_first else (0,))
    evaluated = [step for step, row in told if "loss" not in row]
    assert len(evaluated) == is_first + 60 // every
    assert all(abs(step - every * i) <= 1 for i, step in enumerate(evaluated, not is_first))
    assert not any(record.is_new_end for record in records)


def test_pairs_below_a_step_that_repeat_its_names_are_of_another_step():
    told = rows("step 7: reward: 0.5\nloss: 0.25 kl: 0.01\ngrad_norm: 1.5\nloss: 0.75 kl: 0.02\n")
    assert told == {7: {"reward": 0.5, "loss": 0.25, "kl": 0.01, "grad_norm": 1.5}}


@each_row(
    ("line", "first"),
    [
        ("loss=0.5 reward=0.25", "line 2: loss, reward"),
        ("mean reward: 0.25, policy loss: 0.5", "line 2: mean reward, policy loss"),
        ("2025-01-01 10:00:00,123 INFO [train] loss: 0.5 | kl: 0.25", "line 2: loss, kl"),
        ("metrics: {'reward': 0.5, 'kl': 0.25}", "line 2: reward, kl"),
        ("'reward': '0.6'", "line 2: reward"),
    ],
)
def test_lines_that_lack_nothing_but_a_step_are_said_to(line, first):
    records, decoder = decode("starting\n" + f"{line}\n" * 7)
    assert not records and decoder.counts.no_step_lines == 7
    assert decoder.counts.first_stepless == f"{first}; only the step is missing"
    records, decoder = decode(f"{line}\nstep 1 | loss: 0.5\n{line}\n")
    assert records and (decoder.counts.no_step_lines, decoder.counts.first_stepless) == (0, "")
    _, decoder = decode(f"Traceback (most recent call last):\nValueError: loss\n{line}\n")
    assert not decoder.failure, "it went on"
    rows_behind = "".join(f"step {step} | loss: 0.5\n" for step in range(1, 9))
    assert not decode(f"{line}\n{line}\nTraceback:\nValueError: x\n{rows_behind[:42]}")[1].failure
    for other in ("lr=0.5", "loss weight: 0.5 of the reward", "args: {'loss': 'grpo'}"):
        assert decode(f"{other}\n")[1].counts.no_step_lines == 0


@each_row("line", ["seed 1 is at step 1 with reward 0.3", "step 3 reward 0.5 done", "at step 3: we got loss=0.5"])
def test_lines_with_a_step_and_a_number_that_are_not_read_are_said_to_be_there(line):
    records, decoder = decode("starting\n" + f"{line}\n" * 30)
    assert not records and (decoder.counts.no_step_lines, decoder.counts.unread_lines) == (0, 30)
    assert decoder.counts.first_unread == f"line 2: {line}"
    records, decoder = decode(f"{line}\nstep 1 | loss: 0.5\n{line}\n")
    assert records and (decoder.counts.unread_lines, decoder.counts.first_unread) == (0, "")
    assert not decode("step 3 of the recipe has 0.5 g\nstep 4: save\n")[1].counts.unread_lines


@each_row(
    ("front", "last", "expected"),
    [
        ("step {0} | reward: 0.5 | loss: 0.2\n", "step 60 | reward: 0.7 | loss: nan", {"reward": 0.7}),
        ("step {0} | reward: 0.5 | loss: 0.2\n", "step 60 | reward: 0.7 | loss: 0.1", {"reward": 0.7}),
        ("step={0} reward=0.5 loss=0.2\n", "step=60 reward=0.7 loss=1e-", {"reward": 0.7}),
        ("step {0} | reward: 0.5 | loss: 0.2\n", "step 60 | loss: 0.1 (std 0.2) | reward: 0.7", {"loss": 0.1}),
        (
            "step:{0} - critic/score/mean:0.5 - actor/pg_loss:0.2\n",
            "step:60 - critic/score/mean:0.7 - actor/pg_loss:nan",
            {"critic/score/mean": 0.7},
        ),
    ],
)
def test_the_last_line_is_a_row_also_where_it_was_never_ended(front, last, expected):
    text = "".join(front.format(step) for step in range(1, 60)) + last
    assert expected.items() <= rows(text)[60].items()
    assert ("loss" in rows(text)[60]) == ("loss" in expected)
    assert bool(decode(text)[0][-1].marks) == last.endswith("nan")


@each_row(
    "line",
    [
        "train | epoch   4 | inner iter:   {0}/  4 | ppo epoch:  1/ 4 | global iter:     {1}/   160| tot_loss: 6.25"
        " | reward: -1.2725 | scale: 2048.00",
        "train | epoch   4 | Iter:     9{0}/ 7140 | global iter:      {1}/   160 | tot_loss: 6.25 | reward: -1.2725",
        "epoch 4 | global iter: {1}/160| tot_loss: 6.25 | reward: -1.2725",
    ],
)
def test_what_minillm_says_of_the_epoch_is_not_the_step(line):
    records, decoder = decode("".join(f"{line.format(step % 4, step)}\n" for step in (69, 70, 71)))
    assert [(one.step, one.total_steps) for one in records] == [(69, 160), (70, 160), (71, 160)]
    row = dict(zip(records[0].schema.keys, records[0].values, strict=True))
    assert {"epoch": 4.0, "tot_loss": 6.25, "reward": -1.2725}.items() <= row.items()
    assert not decoder.counts.unread_lines


def test_where_minillm_is_within_an_epoch_alone_is_no_step():
    assert not decode("train | epoch   4 | inner iter:   1/  4 | ppo epoch:  1/ 4 | tot_loss: 6.25\n")[0]
