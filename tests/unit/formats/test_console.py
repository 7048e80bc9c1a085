"""Metric lines in the noise of a console log."""

from __future__ import annotations

import json

import pytest
from stores import kinds, row
from tables import each_row

from rltop.formats.console.decoder import ConsoleDecoder
from rltop.formats.console.lines import read_line
from rltop.formats.decoder import DecoderOptions
from rltop.model import NonFinite

PAIRS = "actor/pg_loss:0.25 - critic/score/mean:1.5"


def decode(text, options=None):
    decoder = ConsoleDecoder(options)
    records = decoder.feed(text if isinstance(text, bytes) else text.encode(), 0, 0)
    return [*records, *decoder.finish()], decoder


def lines_of(*lines):
    return decode("\n".join(lines) + "\n")[0]


@each_row(
    "prefix",
    [
        "",
        "0: ",
        "(TaskRunner pid=4242) ",
        "(TaskRunner pid=4242, ip=10.0.0.7) ",
        "\x1b[36m(TaskRunner pid=4242)\x1b[0m ",
        "12: \x1b[36m(TaskRunner pid=4242)\x1b[0m ",
        "\rTraining Progress:   1%|▏         | 3/400 [00:10<22:10,  3.35s/it]",
        "INFO:root:",
        "2026-01-02 03:04:05,678 INFO ",
    ],
)
def test_whatever_stands_in_front_of_a_verl_line(prefix):
    (record,), decoder = decode(f"{prefix}step:3 - {PAIRS}\n")
    assert record.step == 3
    assert row(record) == {"actor/pg_loss": 0.25, "critic/score/mean": 1.5}
    assert decoder.counts.bad_lines == 0


@each_row(
    "behind",
    [
        "\x1b[32m [repeated 5x across cluster]\x1b[0m",
        " [repeated 5x across cluster] (Ray deduplicates logs by default.)",
        "(WorkerDict pid=99) saving: done",
        "INFO 01-02 03:04:05 engine.py:12] ready",
        "2026-01-02 03:04:05 INFO ready: 3",
        "\rTraining Progress:   1%|▏         | 3/400 [00:10<22:10]",
        "\r",
    ],
)
def test_whatever_is_glued_to_the_last_value(behind):
    (record,), decoder = decode(f"step:3 - {PAIRS}{behind}\n")
    assert row(record) == {"actor/pg_loss": 0.25, "critic/score/mean": 1.5}
    assert decoder.counts.bad_lines == 0


@each_row("behind", ["100%|███| 3/3", "3: loading", ".7.1 is old", "5/8 done"])
def test_a_number_that_may_have_run_into_another_is_not_believed(behind):
    (record,), decoder = decode(f"step:3 - {PAIRS}{behind}\n")
    assert row(record) == {"actor/pg_loss": 0.25} or behind == "3: loading"
    assert "critic/score/mean" not in row(record)
    assert decoder.counts.bad_lines == 1
    assert decoder.counts.first_bad_line == 1


def test_values_as_python_prints_them():
    (record,), _ = decode(
        "step:1 - a:np.float64(0.5) - b:np.int64(-3) - c:tensor(2.5, device='cuda:0') - d:True - e:1e-06 - f:nan"
        " - g:-inf - h:np.float32(nan) - i:.5 - j:7.\n"
    )
    assert row(record) == {"a": 0.5, "b": -3.0, "c": 2.5, "d": 1.0, "e": 1e-6, "i": 0.5, "j": 7.0}
    assert kinds(record) == {"f": NonFinite.NAN, "g": NonFinite.NEG_INF, "h": NonFinite.NAN}


def test_keys_with_slashes_blanks_and_a_colon():
    (record,), _ = decode("step:1 - val-core/org/my set/acc/mean@16:0.5 - lang:en/acc:0.75 - x:1\n")
    assert row(record) == {"val-core/org/my set/acc/mean@16": 0.5, "lang:en/acc": 0.75, "x": 1.0}


def test_two_lines_joined_by_a_lost_line_feed():
    records, decoder = decode(f"step:3 - {PAIRS}step:4 - a:1\n")
    assert [record.step for record in records] == [3, 4]
    assert row(records[1]) == {"a": 1.0}
    assert decoder.counts.bad_lines == 0


def test_a_step_inside_a_key_begins_no_line():
    (record,), _ = decode("step:3 - training/global_step:3 - timing_s/step:12 - a:1\n")
    assert row(record) == {"training/global_step": 3.0, "timing_s/step": 12.0, "a": 1.0}


def test_a_line_cut_at_4096_characters_keeps_what_is_whole():
    pairs = " - ".join(f"val-aux/set_{i:03}/reward/mean:{i}.125" for i in range(200))
    line = f"step:10 - {pairs}"[:4096]
    (record,), decoder = decode(f"{line}\nstep:11 - {PAIRS}\n".encode())[0][:1], decode(f"{line}\n")[1]
    assert len(row(record)) == line.count(" - ") - 1
    assert all(value == int(key[12:15]) + 0.125 for key, value in row(record).items())
    assert (decoder.counts.rows, decoder.counts.bad_lines) == (1, 1)


def test_a_last_line_without_an_end_gives_what_is_whole():
    decoder = ConsoleDecoder()
    assert decoder.feed(b"step:1 - a:1 - b:2", 0, 0) == []
    (record,) = decoder.finish()
    assert row(record) == {"a": 1.0}


def test_a_half_line_of_the_old_file_is_forgotten():
    decoder = ConsoleDecoder()
    decoder.feed(b"step:1 - a:1\nstep:2 - a:", 0, 0)
    decoder.reset()
    (record,) = decoder.feed(b"step:7 - a:3\n", 0, 1)
    assert (record.step, record.position) == (7, (1, 0))


def test_a_rotated_log_goes_on_counting():
    decoder = ConsoleDecoder()
    decoder.feed(hf(0.1).encode(), 0, 0)
    decoder.reset(is_restart=False)
    assert [record.step for record in decoder.feed(hf(0.2).encode(), 0, 1)] == [2]
    decoder.reset()
    assert [record.step for record in decoder.feed(hf(0.1).encode(), 0, 2)] == [1]


def test_a_key_may_end_in_the_unit_of_its_value():
    (record,), decoder = decode("step:1 - train/lr(1e-3):0.010 - train/total_tokens(B):0.25 - train/time(s):8.6\n")
    assert row(record) == {"train/lr(1e-3)": 0.01, "train/total_tokens(B)": 0.25, "train/time(s)": 8.6}
    assert decoder.counts.bad_lines == 0


def test_a_row_of_transformers_may_hold_a_word() -> None:
    row = "{'loss': 0.5, 'grad_norm': 0.1, 'learning_rate': 1e-05, 'phase': 'hard', 'reward': 1.2, 'epoch': 0.01}\n"
    records, _ = decode(row * 3)
    assert len(records) == 3
    assert dict(zip(records[0].schema.keys, records[0].values, strict=True))["reward"] == 1.2
    assert decode("{'loss': 'mse', 'model': 'a', 'learning_rate': 1e-05, 'optimizer': 'adam', 'epoch': 3}\n")[0] == []


def test_a_bar_without_its_drawing_counts_as_well():
    """As the shell of a notebook prints it; unsloth's runs are often there."""
    bars = "  0% 0/300 [00:00<?, ?it/s]Loading\n  3% 10/300 [03:58<2:06:28, 26.08s/it]"
    rows = ["{'loss': 0.5, 'reward': 1.2, 'epoch': 0.0333}\n", "{'loss': 0.4, 'reward': 1.3, 'epoch': 0.0667}\n"]
    text = f"{bars}\n{rows[0]}  7% 20/300 [07:58<2:06:28, 26.08s/it]\n{rows[1]}  7% 21/300 [08:02<2:06:28, 26.08s/it]\n"
    records, _ = decode(text)
    assert [record.step for record in records] == [10, 20]


def test_the_named_bar_of_verl_tells_the_total():
    records, _ = decode(
        f"step:0 - val-core/x/acc:0.5\n\rTraining Progress:   0%|          | 1/400 [00:10<1:00:00]\nstep:1 - {PAIRS}\n"
    )
    assert [record.total_steps for record in records] == [None, 400]


# -- dictionaries --------------------------------------------------------------------------------------------------


@each_row(
    "line",
    [
        "INFO 11-20 12:00:00 ppo_trainer.py:190] ✨ Global step 12: {'policy_loss': 0.5, 'kl': nan, 'note': 'x, {y}'}",
        "\x1b[36m(PPOTrainer pid=7)\x1b[0m INFO 11-20 12:00:00 x.py:1] Global step 12: {'policy_loss': 0.5, 'kl': nan}",
        "Global step 12 [sync-partial]: {'policy_loss': np.float32(0.5), 'kl': nan, 'samples': ['a', {'b': 1}]}",
        "(Trainer pid=1) INFO 11-20 12:00:00 [monitor.py:152] Step 12: {'policy_loss': 0.5, 'kl': nan}",
        "step 12: {'policy_loss': tensor(0.5), 'kl': float_nan, 'kl': nan}".replace("'kl': float_nan, ", ""),
        'INFO metrics_tag: {"step": 12, "metrics": {"policy_loss": 0.5, "kl": NaN}}',
        '{"time": "2026-03-17 09:54:59", "step": 12, "logs": {"policy_loss": 0.5, "kl": NaN}}',
        '\x1b[36m(Trainer pid=7)\x1b[0m {"step": 12, "logs": {"policy_loss": 0.5, "kl": NaN}, "time": 1.7e9}',
        '{"logs": {"step": 12, "policy_loss": 0.5, "kl": NaN}}',
        '[rank0]: 2026-05-01 12:00:00,123 - t - INFO - {"metrics": {"global_step": 12, "policy_loss": 0.5, "kl": NaN}}',
        "2026-05-01 12:00:00.123 INFO trainer: {'step': 12, 'metrics': {'policy_loss': 0.5, 'kl': nan}}",
    ],
)
def test_a_step_and_a_dictionary(line):
    (record,), decoder = decode(line + "\n")
    assert record.step == 12
    assert row(record) == {"policy_loss": 0.5}
    assert kinds(record) == {"kl": NonFinite.NAN}
    assert decoder.counts.bad_lines == 0


@each_row(
    "front",
    [
        "",
        "[rank0]: ",
        "[rank0]: INFO ",
        "(TaskRunner pid=12) ",
        "(TaskRunner pid=12) INFO 05-01 12:00:00 [trainer.py:12] ",
        "[rank0]: 2026-05-01 12:00:00,123 - trainer - INFO - ",
        "[2026-05-01 12:00:00,123][trainer][INFO] - ",
        "[INFO|trainer.py:231] 2026-05-01 12:00:00,123 >> ",
        "12:00:00 | INFO | ",
        "INFO:trainer:",
    ],
)
def test_a_dictionary_without_a_step_is_read_behind_what_loggers_put_in_front(front: str) -> None:
    text = "".join(f"{front}{{'loss': {at / 10}, 'reward': 0.5}}\n" for at in range(3))
    records, _ = decode(text)
    assert [(record.step, row(record)) for record in records] == [
        (at + 1, {"loss": at / 10, "reward": 0.5}) for at in range(3)
    ]


@each_row("front", ["[pod/trainer-0/main] ", "trainer-1  | ", "[rank3]: "])
def test_the_cause_of_death_is_found_behind_the_name_of_a_container(front: str) -> None:
    lines = [
        "step 1/30 | loss: 0.5", "Traceback (most recent call last):", '  File "train.py", line 3, in <module>',
        "RuntimeError: no batch", "Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.",
    ]  # fmt: skip
    assert decode("".join(f"{front}{line}\n" for line in lines))[1].failure == "RuntimeError: no batch"


def test_a_dictionary_behind_words_is_no_row_without_a_step() -> None:
    for words in ("weights: ", "INFO weights: ", "the best was "):
        assert decode(f"{words}{{'loss': 0.5, 'kl': 0.1}}\n")[0] == []


def test_a_dictionary_that_was_cut_keeps_its_whole_items():
    (record,), decoder = decode("Step 3: {'a': 1.5, 'b': 2.5, 'c': 3.\n")
    assert row(record) == {"a": 1.5, "b": 2.5}
    assert decoder.counts.bad_lines == 1


def test_a_row_with_its_own_step():
    records, _ = decode("{'step': 5, 'loss': 0.5}\nx {\"step\": 6, \"loss\": 0.25} y\n")
    assert [(record.step, row(record)) for record in records] == [(5, {"loss": 0.5}), (6, {"loss": 0.25})]


def test_a_torchtune_line():
    (record,), _ = decode("Step 7 | loss:1.25 lr:2e-05 tokens_per_second_per_gpu:812.5 \n")
    assert (record.step, row(record)) == (7, {"loss": 1.25, "lr": 2e-5, "tokens_per_second_per_gpu": 812.5})


@each_row(
    "line",
    [
        "{'actor_rollout_ref': {'actor': {'lr': 1e-06, 'step': 3}}}",
        "{'prompt': 'how many?', 'answer': '3', 'epoch': 'no'}",
        "{'lr': 1e-05, 'batch_size': 8}",
        "Step 1: {'thought': 'look', 'action': 'click'}",
        '{"step": 1, "metrics": {"a": 1}, "metrics": 3}',
        'sent {"step": 1, "logs": {"policy_loss": 0.5}}',
        '{"step": 1, "logs": {"prompt": "how many?", "answer": "three"}}',
        "resumed at step:5 - done",
        "Step 1: add the numbers. Step 2: {x | x > 0}",
        "step:5",
        "{'}",
        "{" * 500,
        "Step 1 | ",
    ],
)
def test_noise_is_neither_a_row_nor_a_bad_line(line):
    records, decoder = decode(line + "\n")
    assert records == []
    assert decoder.counts.bad_lines == decoder.counts.no_step_lines == 0
    assert decoder.counts.lines == 1


# -- what went wrong -----------------------------------------------------------------------------------------------


def test_the_exception_line_and_its_number():
    _, decoder = decode(
        "loading\r 10%|█ | 1/10 [00:01]\r\n(pid=3) Traceback (most recent call last):\n"
        '(pid=3)   File "x.py", line 3, in f\n'
        "(pid=3) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
        "srun: error: node7: task 0: Exited with exit code 1\n"
    )
    error = decoder.last_error
    assert (error.line, error.is_exception, error.rows_before) == (4, True, 0)
    assert error.text.display == "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"


def test_torchrun_names_the_signal_that_ended_a_process():
    table = "  exitcode  : -15 (pid: 8)\n  exitcode  : -9 (pid: 7)\n  error_file: <N/A>\n"
    child = "Traceback (most recent call last):\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    said = (
        "E1123 10:00:01.000000 140 torch/distributed/elastic/api.py:869] failed (exitcode: -9) local_rank: 0 (pid: 7)\n"
    )
    for text, cause in (
        (said, "failed (exitcode: -9) local_rank: 0 (pid: 7)"),
        (said + child + table, "exitcode  : -9 (pid: 7)"),
        (
            child + table + "  traceback : Signal 9 (SIGKILL) received by PID 7\n",
            "Signal 9 (SIGKILL) received by PID 7",
        ),
        (f"ValueError: nan\n{child}  exitcode  : 1 (pid: 7)\n", "ValueError: nan"),
        (f"Traceback (most recent call last):\nValueError: nan\n{child}{table}", "ValueError: nan"),
    ):
        error = decode(text)[1].last_error
        assert error.text.raw.strip() == cause


@each_row(
    "line",
    [
        "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0",
        "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***",
        "[rank3]: [E ProcessGroupNCCL.cpp:616] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9)",
        "ray.exceptions.RayTaskError(ValueError): ray::TaskRunner.run() (pid=1)",
        "KeyboardInterrupt",
        "Killed",
        "[rank0]: torch.distributed.DistBackendError: NCCL error in: x.cpp:1",
    ],
)
def test_signs_of_a_crash(line):
    _, decoder = decode(f"step:1 - {PAIRS}\n{line}\n")
    assert decoder.last_error.line == 2
    assert decoder.last_error.rows_before == 1


@each_row(
    "line", ["my_error: 0.5", "the Error rate fell", "ignoring ValueErrors", "val-core/error:0.5", "Exiting soon"]
)
def test_no_sign_of_a_crash(line):
    assert decode(line + "\n")[1].last_error is None


def test_an_error_text_cannot_move_the_cursor():
    _, decoder = decode("ValueError: \x1b]0;x\x07 a\x1b[2Jb\u202ec\n")
    assert decoder.last_error.text.display == "ValueError:  ab\\u202ec"


def test_an_error_begins_with_its_first_letter():
    _, decoder = decode(
        "terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: unspecified\n"
    )
    assert decoder.last_error.text.raw == "what():  CUDA error: unspecified"


# -- rows that name no step ------------------------------------------------------------------------------------------


def hf(epoch, loss=0.5, **more):
    return repr({"loss": f"{loss:.4g}", "grad_norm": "1.2", **more, "epoch": f"{epoch:.4g}"}) + "\n"


def bar(done, total):
    return f"\r {100 * done // total:3}%|█▏        | {done}/{total} [00:10<01:00,  1.05it/s]"


def terminal_log(total, every, epochs, *, first=0, logging_first=False, evaluate=0):
    """As it stands in a file when every write is flushed: the bar is cleared, the row printed, the bar drawn again."""
    out = bar(first, total)
    for step in range(first + 1, total + 1):
        out += bar(step, total)
        if step % every == 0 or (logging_first and step == 1):
            out += "\r" + " " * 40 + "\r" + hf(epochs * step / total) + bar(step, total)
        if evaluate and step % evaluate == 0:
            out += (
                "\r  5%|▏ | 1/68 [00:00<00:05]\r" + repr({"eval_loss": "0.5", "epoch": "1"}) + "\n" + bar(step, total)
            )
    return out + "\n" + repr({"train_runtime": "9.5", "train_loss": "0.5", "epoch": f"{epochs}"}) + "\n"


@pytest.mark.parametrize(
    ("total", "every", "epochs"),
    [(300, 10, 3), (40, 5, 2), (100, 1, 1), (1000, 25, 1), (500, 10, 0.067), (7473, 100, 3), (96, 8, 1.5)],
)
def test_steps_beside_a_flushed_bar(total, every, epochs):
    records, _ = decode(terminal_log(total, every, epochs))
    steps = list(range(every, total + 1, every))
    assert [record.step for record in records] == [*steps, steps[-1]]
    assert {record.total_steps for record in records} == {total}


def test_the_first_step_may_be_logged_out_of_turn():
    records, _ = decode(terminal_log(300, 10, 3, logging_first=True))
    assert [record.step for record in records][:4] == [1, 10, 20, 30]


def test_a_resumed_run_goes_on_where_its_bar_does():
    records, _ = decode(terminal_log(300, 10, 3, first=100))
    assert [record.step for record in records][-4:] == [280, 290, 300, 300]
    assert [record.step for record in records][1] == 120


def test_evaluations_have_the_step_of_the_row_before():
    records, _ = decode(terminal_log(40, 5, 2, evaluate=20))
    assert [record.step for record in records] == [5, 10, 15, 20, 20, 25, 30, 35, 40, 40, 40]
    assert "eval_loss" in row(records[4])


@each_row("block", [3, 5, 13])
@each_row(("total", "every", "epochs"), [(160, 10, 1), (300, 10, 3), (600, 5, 2)])
def test_steps_of_an_output_written_in_blocks(total, every, epochs, block):
    out, held = "", []
    for step in range(1, total + 1):
        out += bar(step, total)
        if step % every == 0:
            held.append(hf(epochs * step / total))
        if len(held) == block:
            out += "".join(held)
            held.clear()
    records, _ = decode(out + "".join(held))
    assert [record.step for record in records] == list(range(every, total + 1, every))


def test_without_a_bar_a_row_has_its_own_number():
    records, _ = decode("".join(hf(i / 10) for i in range(1, 6)))
    assert [record.step for record in records] == [1, 2, 3, 4, 5]
    assert row(records[0]) == {"loss": 0.5, "grad_norm": 1.2, "epoch": 0.1}
    assert records[0].total_steps is None


def test_a_second_training_in_the_same_log_begins_anew():
    records, _ = decode(terminal_log(40, 5, 2) + terminal_log(30, 10, 1))
    assert [record.step for record in records][-4:] == [10, 20, 30, 30]


def test_rows_read_from_the_middle_are_not_numbered():
    records, decoder = decode(hf(0.1), DecoderOptions(may_count_rows=False))
    assert records == []
    assert decoder.counts.no_step_lines == 1


def test_an_endless_line_is_counted_and_skipped():
    decoder = ConsoleDecoder()
    piece = b"x" * (1024 * 1024)
    for i in range(20):
        decoder.feed(piece, i * len(piece), 0)
    (record,) = decoder.feed(f"tail step:1 - a:1\nstep:2 - {PAIRS}\n".encode(), 20 * len(piece), 0)
    assert record.step == 2
    assert (decoder.counts.oversize_lines, decoder.counts.lines) == (1, 2)


def test_a_bar_that_is_not_drawn_over_yet_numbers_the_row_before_it():
    log = (bar(9, 40) + bar(10, 40) + "\r" + hf(0.25) + bar(10, 40)).encode()
    decoder = ConsoleDecoder()
    assert decoder.feed(log, 0, 0) == decoder.feed(b"", len(log), 0) == []
    assert [record.step for record in decoder.flush()] == [10]
    assert decoder.flush() == []


@pytest.mark.parametrize("piece", [7, 50, 333])
@pytest.mark.parametrize(("total", "every", "epochs"), [(300, 10, 3), (100, 1, 1), (500, 10, 0.067), (96, 8, 1.5)])
def test_a_pause_anywhere_changes_no_step(total, every, epochs, piece):
    data = terminal_log(total, every, epochs, evaluate=4 * every).encode()
    decoder, records = ConsoleDecoder(), []
    for at in range(0, len(data), piece):
        records += decoder.feed(data[at : at + piece], at, 0) + decoder.flush()
    whole, _ = decode(data.decode())
    assert [(record.step, row(record)) for record in [*records, *decoder.finish()]] == [
        (record.step, row(record)) for record in whole
    ]


def test_a_number_of_ten_thousand_digits_is_a_number() -> None:
    (record,), _ = decode(f"{{'loss': {'9' * 10_000}, 'reward': 1.5, 'epoch': 1.0}}\n")
    assert kinds(record) == {"loss": NonFinite.POS_INF}
    assert row(record)["reward"] == 1.5


@pytest.mark.parametrize("torn", ["", "step:3 - actor/pg"])
@pytest.mark.parametrize("piece", [1 << 18, 1 << 30])
def test_the_line_behind_a_hole_is_a_line_of_its_own(torn: str, piece: int) -> None:
    before = f"step:2 - {PAIRS}\n{torn}".encode()
    data = before + bytes(17 << 20) + f"step:4 - {PAIRS}\nstep:5 - {PAIRS}\n".encode()
    decoder = ConsoleDecoder()
    records = [record for at in range(0, len(data), piece) for record in decoder.feed(data[at : at + piece], at, 0)]
    assert [record.step for record in records] == [2, 4, 5]
    assert records[1].position.offset == len(before) + (17 << 20)
    assert decoder.counts.oversize_lines == 0
    assert decoder.counts.lines == 3


# -- loops that print a line a step ---------------------------------------------------------------------------------


@each_row(
    ("line", "step", "total", "row"),
    [
        ("step 10/500 | loss: 0.52 | reward: 1.5", 10, 500, {"loss": 0.52, "reward": 1.5}),
        ("STEP 10/500 | loss: 0.52 | lr: 1e-5", 10, 500, {"loss": 0.52, "lr": 1e-5}),
        ("Step: 7 | loss: nan | grad_norm: 2.5", 7, None, {"loss": None, "grad_norm": 2.5}),
        (
            " samples/sec: 120.553 | iteration      100/  320000 | elapsed time per iteration (ms): 530.1 | "
            "learning rate: 1.875E-06 | approx flops per GPU: 39.1TFLOPS | lm_loss: 9.105401E+00 | "
            "number of nan iterations:   0 |",
            100,
            320_000,
            {
                "elapsed time per iteration (ms)": 530.1,
                "learning rate": 1.875e-06,
                "approx flops per GPU": 39.1,
                "lm_loss": 9.105401,
                "number of nan iterations": 0.0,
            },
        ),
        (
            "[INFO] 3DBall. Step: 12000. Time Elapsed: 35.123 s. Mean Reward: 1.193. Std of Reward: 0.703. Training.",
            12_000,
            None,
            {"Time Elapsed": 35.123, "Mean Reward": 1.193, "Std of Reward": 0.703},
        ),
        (
            "2026-11-28 06:00:00 INFO [stats.py:145] SoccerTwos?team=0. Step: 20000. Time Elapsed: 20.1 s. "
            "Mean Reward: -0.5. Mean Group Reward: -0.151. Training. ELO: 1203.200. ",
            20_000,
            None,
            {"Time Elapsed": 20.1, "Mean Reward": -0.5, "Mean Group Reward": -0.151},
        ),
        ("[run] epoch=0 step=1 loss=0.25 lr=0.001", 1, None, {"loss": 0.25, "lr": 0.001, "epoch": 0.0}),
        ("[gsm8k]   5/100 | loss=-4.6162 | acc=62.5%", 5, 100, {"loss": -4.6162, "acc": 0.625}),
        ("2025-01-02 03:04:05,678 - INFO - step=12 loss=0.5, time=3.1s", 12, None, {"loss": 0.5, "time": 3.1}),
        ("2025-01-02 03:04:05,678 - sft - INFO - Step 17 loss: 7.5 acc: 0.5", 17, None, {"loss": 7.5, "acc": 0.5}),
        ("[2025-01-02 03:04:05,678][__main__][INFO] - step 3: loss=0.5 kl=3.1", 3, None, {"loss": 0.5, "kl": 3.1}),
        ("[2025-01-02 03:04:05,678][sft.loop][INFO] - Step 17 | loss: 7.5", 17, None, {"loss": 7.5}),
        ("I0102 03:04:05.123456 123 loop.cc:1] step 3: loss=0.5 kl=3.1", 3, None, {"loss": 0.5, "kl": 3.1}),
        ("[INFO|loop.py:123] 2025-01-02 03:04:05,678 >> Step 17 | loss: 7.5", 17, None, {"loss": 7.5}),
        ("INFO 01-02 03:04:05 [loop.py:1] step: 3, loss: 0.5", 3, None, {"loss": 0.5}),
        ("INFO:2025-01-02 03:04:05,678:step=3 loss=0.5", 3, None, {"loss": 0.5}),
        ("[default0]:2025-01-02 03:04:05 INFO step=3 loss=0.5", 3, None, {"loss": 0.5}),
        ("Epoch:[2/3](7/100), Reward: -1.5, Adv Std: 0.9", 107, 300, {"Reward": -1.5, "Adv Std": 0.9}),
        ("Epoch:[1/1](20/100) loss:8.5 lr:0.5 epoch_Time:6.0min:", 20, 100, {"loss": 8.5, "lr": 0.5, "epoch_Time": 6}),
        (
            "INFO:__main__:Epoch 0 | Step   10/6501 | Loss: 8.5 | LR: 5.97e-05 | Time: 0.507s",
            10,
            6501,
            {"Loss": 8.5, "LR": 5.97e-05, "Time": 0.507, "epoch": 0.0},
        ),
        ("[step 0025] avg_loss=-0.0784 acc=0.0600", 25, None, {"avg_loss": -0.0784, "acc": 0.06}),
        ("Episode 20 \t avg length: 169 \t reward: -8.25", 20, None, {"avg length": 169.0, "reward": -8.25}),
        ("Episode 100/1000, Reward: 23.5, Epsilon: 0.5", 100, 1000, {"Reward": 23.5, "Epsilon": 0.5}),
        (
            " iteration       10/  500 | consumed samples:   512 | elapsed time per iteration (ms): 12.5 | "
            "learning rate: 1.5E-04 | lm loss: 7.5E+00 | grad norm: 3.5 | number of nan iterations:   0 |",
            10,
            500,
            {
                "consumed samples": 512.0,
                "elapsed time per iteration (ms)": 12.5,
                "learning rate": 1.5e-4,
                "lm loss": 7.5,
                "grad norm": 3.5,
                "number of nan iterations": 0.0,
            },
        ),
        ("iter 100: loss 3.25, time 250.5ms, mfu 12.5%", 100, None, {"loss": 3.25, "time": 250.5, "mfu": 0.125}),
        ("step 250: train loss 2.5, val loss 2.75", 250, None, {"train loss": 2.5, "val loss": 2.75}),
        ("[12:30:01] step 5 loss 0.5 reward 0.25", 5, None, {"loss": 0.5, "reward": 0.25}),
        ("Iteration 12: avg_reward = 3.5, best = 5", 12, None, {"avg_reward": 3.5, "best": 5.0}),
        ("train step 5: loss=0.5, rewards=[1.0, 0.0]", 5, None, {"loss": 0.5}),
        (
            "Step 10/100 | reward=0.5±0.25 | kl: 0.5 | ETA: 0:12:33 | took: 1h 20m | 12.5 tok/s",
            10,
            100,
            {"reward": 0.5, "reward_std": 0.25, "kl": 0.5, "tok/s": 12.5},
        ),
        (
            "[2023-04-14 06:32:50,171] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[9.65e-06, "
            "0.0005], mom=[(0.9, 0.95), (0.9, 0.95)]",
            10,
            None,
            {"skipped": 0.0, "lr": 9.65e-06},
        ),
        ("Epoch: 0 | Step: 4 | Actor Loss: 0.5 | lr: 1e-5", 4, None, {"Actor Loss": 0.5, "lr": 1e-5, "epoch": 0.0}),
    ],
)
def test_a_line_of_a_loop_of_ones_own(line, step, total, row):
    (record,) = lines_of(line)
    assert (record.step, record.total_steps) == (step, total)
    values = dict(zip(record.schema.keys, record.values, strict=True))
    assert {key: None if value != value else value for key, value in values.items()} == row


@each_row(
    "line",
    [
        "step 3 of the plan: loss=0.5 is what we want",
        "Let us go step by step: x=1",
        "[worker] 3/8 shards loaded, loss=0 of them",
        "Step 4: reward=1 because the answer is right",
        "Step 4, The Answer: 5",
        "Step 4, x = 5",
        "Step 4: x = 5, loss of 3",
        "Step 2: reward 5 points",
        "Episode 3: we got reward 5",
        "[2023-04-14 06:32:50,171] [INFO] [logging.py:96:log_dist] [Rank 0] step=0, skipped=0, lr=[0.0], mom=[(0.9,)]",
        "Step 4 | Final Reward: 5 for everybody",
        "Epoch:[1/2](3/4), the loss: 5",
        "2025-01-02 03:04:05,678 - train - INFO - loss: 0.5, as expected",
        "2025-01-02 03:04:05,678 - train - INFO - loss: 0.5",
        "2025-01-02 03:04:05,678 - train - INFO - eval_loss: 0.5, eval_acc: 0.25",
        "2025-01-02 03:04:05,678 - train - INFO - reward: {'answer_reward': 0.0, 'reward': 0.0}",
        "2025-01-02 03:04:05,678 - train - INFO - prompt: What is 3 + 4, loss: 5",
        "average reward score: 1.5",
        "Evaluating Acc: 1.00:  10%|#  | 1/10 [00:01<00:09, 1.0it/s]",
        "Evaluating: 10%|#  | 1/10 [00:01<00:09, 1.0it/s, acc=0.5]",
    ],
)
def test_a_sentence_with_a_step_in_it_is_no_row(line):
    assert lines_of(line) == []


def test_what_deepspeed_says_stands_beside_the_lines_of_the_loop():
    engine = "[2023-04-14 06:32:50,171] [INFO] [logging.py:96:log_dist] [Rank 0] step={}, skipped=0, lr=[1e-05, 5e-4]"
    chat = "epoch: {}|step: {}|ppo_ep: 1|act_loss: 0.5|cri_loss: 0.25"
    records = lines_of(
        "ppl: 4.5, loss: 1.5", chat.format(0, 0), chat.format(0, 9), engine.format(20), chat.format(1, 0),
        "***** Evaluating perplexity, Epoch 1/2 *****", "ppl: 3.5",
    )  # fmt: skip
    assert [record.step for record in records] == [0, 0, 9, 9, 10, 10]
    assert row(records[0]) == {"eval_ppl": 4.5, "eval_loss": 1.5}
    assert row(records[3]) == {"skipped": 0.0, "lr": 1e-5}
    assert row(records[5]) == {"eval_ppl": 3.5}
    judge = "chosen_last_scores (higher is better) : 0.25, acc (higher is better) : 0.75"
    records = lines_of(judge, engine.format(470), "Epoch 1/1 with loss 0.5", judge)
    assert [record.step for record in records] == [0, 470, 470, 470]
    assert row(records[2]) == {"epoch_loss": 0.5}, "the mean of an epoch is not the loss of its last step"
    assert row(records[0]) == row(records[3]) == {"eval_acc": 0.75, "eval_chosen_score": 0.25}
    records = lines_of("Epoch 1/2 with loss 0.5", judge, "Epoch 2/2 with loss 0.25", judge)
    assert [record.step for record in records] == [1, 1, 2, 2], "where nothing else counts, an epoch does"


def test_a_loop_counts_either_steps_or_episodes():
    records = lines_of("Episode 1 | reward: 5", "step 40 | loss: 0.5", "Episode 2 | reward: 6")
    assert [record.step for record in records] == [1, 2]


def test_lines_of_a_loop_beside_the_rows_of_a_trainer_are_remarks():
    records = lines_of("step:1 - actor/pg_loss:0.5", "step 2/9 | loss: 0.1", "step:2 - actor/pg_loss:0.4")
    assert [record.schema.keys for record in records] == [("actor/pg_loss",)] * 2


def test_what_a_bar_says_behind_its_pace_counts_on_from_epoch_to_epoch():
    def bar(done):
        return f"Epoch:  50%|#### | {done}/3 [00:01<00:02, 1.05it/s, loss=0.{done}, lr=1e-5]"

    records = lines_of("\r".join(bar(done) for done in (1, 2, 2, 3)), "\r".join(bar(done) for done in (1, 2, 3)))
    assert [record.step for record in records] == [1, 2, 2, 3, 4, 5, 6]


_LOGGED = (
    "2025-01-02 03:04:05,678 - train - INFO - rl_loss: {}, time: 100.5, reward_data: {{'total': {}, 'right': 3.0}}"
)
_CHAT = "epoch: {}|step: {}|ppo_ep: 1|act_loss: 0.5|cri_loss: 0.25\nnoise\naverage reward score: 0.{}\n"
_DESCRIBED = (
    "Loss: {}.5 | Acc: 1.00 | Speed: 0.2 steps/s | GPU: 6.4/8.8GB:  40%|██▉   | {}/9 [17:47:01<25:55:32,  6.27s/it]"
)
_BRACKETED = "[losses/total_loss: {}.5 | losses/policy_loss: -0.25]:  40%|██▉   | {}/9 [36:46<5:52:38,  6.5s/it]"


@each_row("piece", [1, 7, 61, 5000])
@each_row(
    ("text", "steps", "row"),
    [
        (
            "noise\n".join(_LOGGED.format(-0.5, number) + "\n" for number in range(3)),
            [1, 2, 3],
            {"rl_loss": -0.5, "time": 100.5, "reward_data/total": 2.0, "reward_data/right": 3.0},
        ),
        (
            "".join(_CHAT.format(epoch, step, step) for epoch in (0, 1) for step in (0, 1, 2)),
            [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5],
            {"average_reward_score": 0.2},
        ),
        (
            "\r".join(_DESCRIBED.format(*each) for each in ((8, 0), (7, 1), (6, 1), (5, 2))) + "\n",
            [1, 1, 2],
            {"Loss": 5.5, "Acc": 1.0, "Speed": 0.2},
        ),
        (
            "".join(
                f"RL SinPE Training:  1%|▏ | {done}/900 [00:09<9:32, 47.20it/s, R=0.85, U=25%]\r" for done in (1, 2)
            ),
            [1, 2],
            {"R": 0.85, "U": 0.25},
        ),
        (
            "\r".join(_BRACKETED.format(*each) for each in ((8, 0), (7, 1), (6, 1), (5, 2))) + "\n",
            [1, 1, 2],
            {"losses/total_loss": 5.5, "losses/policy_loss": -0.25},
        ),
    ],
    ids=[
        *("logging without a step", "a reward on a line of its own", "in front of a bar", "behind a bar of training"),
        "in brackets in front of one",
    ],
)
def test_lines_of_loops_in_whatever_pieces(text, steps, row, piece):
    data, decoder = text.encode(), ConsoleDecoder()
    records = [one for at in range(0, len(data), piece) for one in decoder.feed(data[at : at + piece], at, 0)]
    records += decoder.finish()
    assert [record.step for record in records] == steps
    assert dict(zip(records[-1].schema.keys, records[-1].values, strict=True)) == row


def test_lines_of_a_loop_that_name_no_step_beside_some_that_do_are_remarks():
    records = lines_of("step=1 loss=0.5", _LOGGED.format(0.25, 1), "step=2 loss=0.4")
    assert [record.step for record in records] == [1, 2]


# -- dictionaries that a terminal has wrapped -----------------------------------------------------------------------

_WRAPPED = (
    "{'loss': 0.1, 'grad_norm': 0.169, 'completions/max_len\ngth': 384.0, 'rewards/std': 0.21\n213, 'epoch': 0.0}\n"
    "noise\n{'loss': 0.2, 'grad_norm': 0.3,\n 'completions/max_length': 383.0, 'epoch': 0.01}\n"
)


@each_row("piece", [1, 7, 50, 1000])
@each_row("end", ["\n", "\r\n"])
def test_a_dictionary_over_several_lines_is_one_row(piece, end):
    text = _WRAPPED.replace("\n", end).encode()
    decoder = ConsoleDecoder()
    records = [one for at in range(0, len(text), piece) for one in decoder.feed(text[at : at + piece], at, 0)]
    records += decoder.finish()
    rows = [dict(zip(record.schema.keys, record.values, strict=True)) for record in records]
    assert [(row["loss"], row["completions/max_length"]) for row in rows] == [(0.1, 384.0), (0.2, 383.0)]
    assert rows[0]["rewards/std"] == 0.21213
    assert (decoder.counts.lines, decoder.counts.bad_lines) == (6, 0)


@each_row("piece", [1, 13, 4096])
def test_a_dictionary_that_is_never_closed_holds_up_nothing_for_long(piece):
    text = b"{'loss': 0.1, 'epoch': 0.0, 'cut':\n" + b"talk\n" * 100 + b"{'loss': 0.2, 'epoch': 0.1}\n"
    decoder = ConsoleDecoder()
    records = [one for at in range(0, len(text), piece) for one in decoder.feed(text[at : at + piece], at, 0)]
    assert [record.values[0] for record in [*records, *decoder.finish()]] == [0.2]
    assert decoder.counts.lines == 102


PRIME_RL = {
    "trainer": (
        "\x1b[2m15:04:05\x1b[0m\x1b[32m SUCCESS\x1b[0m Step 12 |   3.21s | Loss 0.0012 | Entropy 0.3 | Mismatch KL nan"
        " | Grad. Norm 0.1200 | LR 1.00e-06 | Throughput 1234 tokens/s | MFU 12.3% | Peak Mem. 45.1 GiB",
        {"time/step": 3.21, "Loss": 0.0012, "Entropy": 0.3, "Grad. Norm": 0.12, "LR": 1e-6, "Throughput": 1234.0,
         "MFU": 0.123, "Peak Mem.": 45.1},
    ),
    "orchestrator": (
        "15:04:05 SUCCESS Step 12 |  1m 3s | Reward 0.2500 | Trainable 12/16 (75.0%) | Turns 1.0 | Max Off-Policy 2"
        " | Error 0.0% | Truncation 3.5%",
        {"time/step": 63.0, "Reward": 0.25, "Trainable": 0.75, "Turns": 1.0, "Max Off-Policy": 2.0, "Error": 0.0,
         "Truncation": 0.035},
    ),
    "trainer of 2025": (
        "15:04:05 SUCCESS Step 12 | Time: 98.02s | Loss: -0.0036 | Entropy: 1.0338 | Mismatch KL: 0.3523"
        " | Grad. Norm: 0.1 | LR: 1.00e-06 | Throughput: 1234 tokens/s | MFU: 12.3% | Peak Mem.: 45.1/80.0 GiB (56.4%)",
        {"time/step": 98.02, "Loss": -0.0036, "Entropy": 1.0338, "Mismatch KL": 0.3523, "Grad. Norm": 0.1, "LR": 1e-6,
         "Throughput": 1234.0, "MFU": 0.123, "Peak Mem.": 45.1},
    ),
    "orchestrator of 2025": (
        "Step 12 | Time: 98.02s | Reward: 0.4353 | Throughput: 3000.0 tokens/s | Seq. Length: 2069.9 tokens/sample"
        " | Async Level: 1 | Max. Off-Policy Level: 2",
        {"time/step": 98.02, "Reward": 0.4353, "Throughput": 3000.0, "Seq. Length": 2069.9, "Async Level": 1.0,
         "Max. Off-Policy Level": 2.0},
    ),
}  # fmt: skip


@each_row("process", PRIME_RL)
def test_what_prime_rl_prints_for_a_step_is_a_row(process: str) -> None:
    line, told = PRIME_RL[process]
    (found,) = read_line(line)
    assert found.step == 12
    finite = {key: value for key, value in found.row.items() if value == value}
    assert finite == pytest.approx(told)


@each_row(
    "line",
    [
        "Step 3 | 2.0s | Loading the model | Loss 0.1 | Entropy 0.2",
        "Step 3 | 2.0s | Loss 0.1",
        "Step 3 | then 4 of 5 | Reward was 0.5 | Turns",
    ],
)
def test_a_step_between_bars_with_words_is_no_row(line: str) -> None:
    assert read_line(line) == []


def slime_lines(generations: int, steps_each: int) -> str:
    """What slime prints, from two of its processes; miles prints the same."""
    lines = []
    for n in range(generations):
        told = f"{{'rollout/response_len/mean': {200 + n}.5, 'perf/rollout_time': 30.2}}"
        lines.append(f"(RolloutManager pid=7) [2026-08-21 10:00:00] rollout_metrics.py:268 - perf {n}: {told}")
        lines.append(f"(Actor pid=8) train_metric_utils.py:135 - rollout {n}: {{'rollout/raw_reward': {n}.0}}")
        for step in range(n * steps_each, (n + 1) * steps_each):
            told = f"{{'train/loss': {step}.25, 'train/grad_norm': np.float64(0.5), 'train/lr-pg_0': 1e-06}}"
            lines.append(f"(Actor pid=8) [2026-08-21 10:00:00] model.py:918 - step {step}: {told}")
        lines.append(f"(Actor pid=8) perf {n}: {{'perf/step_time': 46.0}}")
        lines.append(f"(RolloutManager pid=7) eval {n}: {{'eval/aime': 0.5}}")
    return "\n".join(lines) + "\n"


@each_row("steps_each", [1, 3])
def test_what_slime_logs_of_a_generation_stands_at_its_first_step(steps_each: int) -> None:
    records, decoder = decode(slime_lines(4, steps_each))
    found = {
        (record.step, key): value
        for record in records
        for key, value in zip(record.schema.keys, record.values, strict=True)
    }
    assert {step: value for (step, key), value in found.items() if key == "train/loss"} == {
        step: step + 0.25 for step in range(4 * steps_each)
    }
    for key, values in {
        "rollout/raw_reward": [0.0, 1.0, 2.0, 3.0], "rollout/response_len/mean": [200.5, 201.5, 202.5, 203.5],
        "perf/step_time": [46.0] * 4, "eval/aime": [0.5] * 4,
    }.items():  # fmt: skip
        assert [found[n * steps_each, key] for n in range(4)] == values
    assert decoder.counts.bad_lines == 0


@each_row("line", ["worker 3: {'host': 'a', 'gpu': 1}", "request 5: {'latency': 0.5, 'tokens': 20}"])
def test_another_numbered_dictionary_is_no_generation(line: str) -> None:
    assert read_line(line) == []


def test_dictionaries_of_a_loop_that_name_no_step_are_numbered() -> None:
    lines = [f"{{'loss': {1 / i}, 'reward': {i}.0}}" for i in range(1, 6)]
    records = lines_of("Loading the model", *lines[:3], "saved", *lines[3:])
    assert [(record.step, row(record)["reward"]) for record in records] == [(i, float(i)) for i in range(1, 6)]


@each_row(
    "line",
    [
        "{'eval_loss': 0.5}", "{'lr': 0.1, 'batch': 4}", "{'loss': 'mse', 'lr': 0.1}", "result {'loss': 0.5}",
        "{'loss': 0.5, 'by_class': {'a': 1}}", "{'loss': 0.5} is what it was",
    ],
)  # fmt: skip
def test_another_dictionary_without_a_step_is_no_row(line: str) -> None:
    assert read_line(line) == []


def test_rows_of_a_part_of_an_epoch_are_not_taken_for_twice_their_steps() -> None:
    lines = [
        f"  1%|█  | {i}/60 [00:01<01:00,  1.2s/it]\r{{'loss': {1 / i}, 'epoch': {i / 100}}}\n" for i in range(1, 61)
    ]
    records, _ = decode("".join(lines))
    assert [record.step for record in records] == list(range(1, 61))


DONE_LINES = [
    "(TaskRunner pid=3) 'Final validation metrics: None'",
    "\x1b[36m(TaskRunner pid=3)\x1b[0m Final validation metrics: {'val/acc': 0.5}",
    "2026-05-01 12:00:00 INFO Training completed successfully",
    "Training finished!",
    "Saved final model to out/",
    "Job 'raysubmit_x' succeeded",
]


@each_row("line", DONE_LINES)
def test_a_line_behind_the_newest_row_says_that_the_run_is_done(line: str) -> None:
    steps = "".join(f"step:{step} - loss:0.5 - reward:0.25\n" for step in range(3))
    for pieces in (1, 7):
        decoder, text = ConsoleDecoder(), f"{steps}{line}\nsaving\n".encode()
        size = -(-len(text) // pieces)
        for at in range(0, len(text), size):
            decoder.feed(text[at : at + size], at, 0)
        assert decoder.is_done
        decoder.feed(b"step:3 - loss:0.5 - reward:0.25\n", len(text), 0)
        assert not decoder.is_done
    assert not decode(f"{steps}Training done epoch 3\n")[1].is_done


@each_row("front", ["", "INFO:train:", "2026-05-01 12:00:00,123 - t - INFO - "])
@each_row("name", ["", "logs", "metrics"])
def test_an_object_over_indented_lines_is_a_row_however_it_comes(front: str, name: str) -> None:
    rows = [{"step": step, "loss": 0.5, "kl": 0.25} for step in range(3)]
    shown = "".join(f"{front}{json.dumps({name: each} if name else each, indent=2)}\nnoise {{\n" for each in rows)
    expected = [(step, {"loss": 0.5, "kl": 0.25}) for step in range(3)]
    text = shown.encode()
    for size in (1, 7, len(text)):
        decoder = ConsoleDecoder()
        records = [record for at in range(0, len(text), size) for record in decoder.feed(text[at : at + size], at, 0)]
        records += decoder.finish()
        assert [(record.step, row(record)) for record in records] == expected
    assert decoder.counts.lines == shown.count("\n")


def test_a_line_that_ends_in_a_brace_holds_nothing_back() -> None:
    decoder = ConsoleDecoder()
    assert decoder.feed(b"config = {\nstep:1 - loss:0.5 - reward:0.25\n", 0, 0)
    assert decode('settings {\n  "step": 3,\n  "model": {\n    "loss": 1\n  }\n}\n')[0] == []


@each_row(
    "line",
    [
        "{'loss': 0.5, 'round': %d}",
        "step 1 loss=0.5 round=%d",
        "step:1 - loss:0.5 - round:%d",
        '{"loss": 0.5, "round": %d}',
    ],
)
def test_a_step_key_that_was_asked_for_counts_in_every_kind_of_line(line):
    text = "".join(f"{line % step}\n" for step in (10, 20, 30))
    records, _ = decode(text, DecoderOptions(step_key="round"))
    assert [record.step for record in records] == [10, 20, 30]
    assert row(records[0])["loss"] == 0.5
