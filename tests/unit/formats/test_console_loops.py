"""Lines of loops of one's own: prefixes of launchers, parentheses, two lines a record, bars alone, wrapped lines."""

from __future__ import annotations

import textwrap

import pytest

from rltop.formats.console.decoder import ConsoleDecoder


def decode(text):
    decoder = ConsoleDecoder()
    return [*decoder.feed(text.encode(), 0, 0), *decoder.finish()], decoder


def rows(text):
    """Step → what was logged of it, rows of one step put together."""
    found = {}
    for record in decode(text)[0]:
        values = zip(record.schema.keys, record.values, strict=True)
        found.setdefault(record.step, {}).update({key: value for key, value in values if value == value})
    return found


def plain(record):
    return record.step, record.schema.keys, list(record.values), record.position, record.total_steps


@pytest.mark.parametrize(
    "prefix",
    ["(sweep-3, pid=2710) ", "(WorkerDict pid=99, ip=10.0.0.7) ", "[rank0]: ", "\x1b[36m(head, rank=0, pid=7)\x1b[0m "],
)
@pytest.mark.parametrize(
    "line", ["step 10/500 | loss: 0.2 | reward: 0.5", "{'step': 10, 'loss': 0.2, 'reward': 0.5}", "step:10 - loss:0.2"]
)
def test_what_a_launcher_puts_in_front_of_a_line(prefix, line):
    (record,), _ = decode(f"{prefix}{line}\n")
    assert (record.step, dict(zip(record.schema.keys, record.values, strict=True))["loss"]) == (10, 0.2)


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    "line", ["saved at step=5 loss=0.5", "x=5 step=5", "loss=0.5 step=5.5", "reward=0.5 at step=5"]
)
def test_a_sentence_with_pairs_and_a_step_is_no_row(line):
    assert rows(f"{line}\n") == {}


@pytest.mark.parametrize("printed", ["tensor([-1., 1., 3.])", "tensor([[-1., 3.], [0., 2.]], device='cuda:0')"])
def test_a_tensor_of_several_numbers_is_their_mean(printed):
    assert rows(f"step 5 | loss: 0.5 | rewards: {printed}\n") == {5: {"loss": 0.5, "rewards": 1.0}}
    assert rows(f"{{'step': 5, 'loss': 0.5, 'rewards': {printed}}}\n") == {5: {"loss": 0.5, "rewards": 1.0}}
    assert rows(f"step:5 - loss:0.5 - rewards:{printed}\n") == {5: {"loss": 0.5, "rewards": 1.0}}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
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


def test_bars_beside_rows_and_bars_of_something_else_are_none():
    assert rows(f"step 7 | loss: 0.5\n{BARS}\n") == {7: {"loss": 0.5}}
    assert rows(f"{BARS.replace(' 12%', 'Loading weights:  12%')}\n") == {}


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


def test_a_line_that_a_terminal_wrapped_at_its_separators():
    text = "step 10/50 | loss: 0.25 | reward: 0.5 |\n kl: 0.125 | entropy: 2\n"
    assert rows(text) == {10: {"loss": 0.25, "reward": 0.5, "kl": 0.125, "entropy": 2.0}}


@pytest.mark.parametrize("size", [1, 2, 3, 17])
def test_cut_anywhere_it_is_the_same(size):
    text = (
        f"Epoch: 1, global_step=5\r\nSPS: 12, pg_loss=0.5\nstep 7 | loss: 0.5\n\nkl: 0.1, lr: 0.5\n{BARS}\n{WRAPPED}\n"
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
    assert (decoder.counts.bad_lines, decoder.counts.partial_lines) == (1, 1)
