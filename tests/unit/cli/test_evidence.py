"""`rltop report --evidence`: what is in the bundle, and above all what is not."""

from __future__ import annotations

import json
import shutil
import stat
import time
from pathlib import Path

import pytest
from opened import told
from programs import in_path, titled
from ray_cluster import KEY, cluster
from tables import each_row

from rltop.cli import main

PROMPT = "Write a poem about Ada's unpublished novel"
TOKEN = "hf_Zq8vK2mN4xR7tW1y"
LOG = f"""\
vllm==0.33.0
torch version: 2.9.1+cu129
INFO 2026-08-01 12:00:00,123 loading with Authorization: Bearer {TOKEN}
2026-08-01 12:00:01,123 INFO Timer rollout start
[prompt] {PROMPT}
[response] Once upon a time there was a novel,
and nobody had read it. x = 3
``````
Traceback (most recent call last):
  File "/srv/train.py", line 7, in step
    raise RuntimeError("boom")
RuntimeError: boom
  5%|▏ | 8/100 [08:00<1:00:00, 60s/it]
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "metrics.jsonl").write_text("".join(json.dumps({"step": n, "loss": 0.5}) + "\n" for n in range(1, 9)))
    (folder / "train.log").write_text(LOG)
    (folder / "config.json").write_text(json.dumps({"lr": 1e-6, "wandb_api_key": "0123abcd", "max_tokens": 512}))
    (folder / "nccl_trace_rank_0").write_bytes(b"\x80\x04 a pickle that nobody opens")
    monkeypatch.chdir(tmp_path)
    return folder


def bundle(run: Path, *words: str) -> str:
    assert main(["report", "--evidence", str(run), "-o", "bundle.md", *words]) == 0
    return Path("bundle.md").read_text()


def test_what_maintainers_ask_for_is_in_it(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = bundle(run)
    for said in ("## Where it is", "vllm 0.33.0", "torch 2.9.1+cu129", "lr = 1e-06", "max_tokens = 512",
                 "Timer rollout start", 'raise RuntimeError("boom")', "8/100 [08:00", "nccl_trace_rank_0"):  # fmt: skip
        assert said in text
    said = capsys.readouterr().out
    assert "readable by you alone: 2 blanked" in said
    assert "left out: 6 lines of logs that may be text of samples.\n" in said
    assert "Nothing was sent anywhere. Read it before you pass it on." in said
    assert "2 blanked" in text


def test_a_binary_metric_file_is_no_log(run: Path, tmp_path: Path) -> None:
    shutil.copy(
        Path(__file__).resolve().parents[3] / "fixtures" / "wandb" / "own_step.wandb", tmp_path / "run-own.wandb"
    )
    assert "bytes before them" not in (text := bundle(tmp_path / "run-own.wandb")) and "�" not in text


def test_no_secret_and_no_text_of_a_sample_is_in_it(run: Path) -> None:
    text = bundle(run)
    for gone in (TOKEN, "0123abcd", PROMPT, "Once upon a time", "nobody had read it", "a pickle"):
        assert gone not in text
    assert "[4 lines left out: they may be text of samples; --with-text keeps them]" in text


SAMPLES = [
    "From memory, Ada had made an error; by default she left.",
    "Let x_1 = 3, x_2 = 4 and y_1 = 5, so Ada has 12.",
    "2026-08-01 12:00:02,123 INFO First rollout sample: ['<|im_start|>user Ada?'], label: 4, reward: 1",
    "[2026-08-01 12:00:02] prompt: Who is Ada?",
    "(RewardManager pid=7) 2026-08-01 12:00:02 INFO {'response': 'Ada was', 'score': 1}",
    "INFO <think>Ada was",
    "[2026-08-01 12:00:02] rollout.py:9 - Finish rollout: ['<\uff5cUser\uff5c>Who is Ada?'], label: 4, reward: 1",
    "2026-08-01 12:00:02 INFO Generated text: Ada was",
    "2026-08-01 12:00:02 INFO Output: Ada was",
    "2026-08-01 12:00:02 INFO {'role': 'user', 'content': 'Who is Ada?'}",
    "2026-08-01 12:00:02 INFO Input (Total Reward: 1.0): Who is Ada?",
    "2026-08-01 12:00:02 INFO messages=[{'role': 'user', 'text': 'Who is Ada?'}]",
    "2026-08-01 12:00:02 INFO [INST] Who is Ada? [/INST]",
]


def test_a_sample_is_left_out_whatever_words_stand_in_it(run: Path) -> None:
    rows = [f"2026-08-01 12:00:03,123 INFO prompt_length/mean: {100 + at}" for at in range(len(SAMPLES))]
    (run / "train.log").write_text(LOG + "".join(f"{line}\n{row}\n" for line, row in zip(SAMPLES, rows, strict=True)))
    told = bundle(run)
    assert "Ada" not in told
    assert [row for row in rows if row not in told] == []
    assert bundle(run, "--with-text").count("Ada") >= len(SAMPLES)


def test_rows_of_numbers_and_phases_are_kept_and_rows_with_words_are_not(tmp_path: Path) -> None:
    kept = [
        '{"step":24,"time":1795916374.864,"reward":0.29,"loss":NaN,"actor/lr":1e-06,"is_warm":true}',
        '{"rltop_phase":"rollout","begin":1795916338.857,"rank":2,"pid":16136,"host":"node-3.gpu","process":"8f5-1-9"}',
        '{"rltop_phase":"train","begin":1.5,"end":2.5,"pid":7,"host":"vm","error":"RuntimeError: NCCL timed out"}',
    ]
    gone = [
        '{"step":24,"time":1795916374.864,"note":"Paris"}',
        '{"step":25,"prompt_ids":[1,2,3]}',
        '{"Write a poem about Ada":1,"step":2}',
        f'{{"rltop_phase":"{PROMPT}","begin":1.5,"pid":7,"host":"vm"}}',
    ]
    path = tmp_path / "metrics.jsonl"
    path.write_text("\n".join([*kept, *gone]) + "\n")
    assert main(["report", "--evidence", "-o", str(tmp_path / "evidence.md"), str(path)]) == 0
    text = (tmp_path / "evidence.md").read_text()
    assert all(line in text for line in kept)
    assert f"[{len(gone)} lines left out" in text and not any(line in text for line in gone)


def test_a_setting_that_is_a_prompt_is_left_out(run: Path) -> None:
    (run / "config.json").write_text(json.dumps({"system_prompt": "You are Ada", "chat_template": "chatml"}))
    text = bundle(run)
    assert "Ada" not in text
    assert "chat_template = chatml" in text
    assert "system_prompt = You are Ada" in bundle(run, "--with-text")


def test_text_is_kept_where_it_is_asked_for_and_secrets_are_not(run: Path) -> None:
    text = bundle(run, "--with-text")
    assert PROMPT in text
    assert TOKEN not in text
    # Nothing in a log ends the block that it stands in.
    assert "\n```````\n" in text


def test_only_its_owner_may_read_it_whatever_it_was_before(run: Path) -> None:
    Path("bundle.md").write_text("old")
    Path("bundle.md").chmod(0o644)
    bundle(run)
    assert stat.S_IMODE(Path("bundle.md").stat().st_mode) == 0o600


def test_only_the_end_of_a_log_is_in_it_and_what_is_not_is_said(run: Path) -> None:
    lines = [f"2026-08-01 12:00:00,000 INFO line {n}{' x' * 300 * (n == 990)}\n" for n in range(1000)]
    (run / "train.log").write_text("".join(lines))
    (run / "config.json").write_text(json.dumps({f"setting_{n}": n for n in range(2_010)}))
    text = bundle(run)
    assert "INFO line 799\n" not in text
    assert "INFO line 800\n" in text
    told = next(line for line in text.splitlines() if line.startswith("rltop "))
    for said in (
        f"{sum(map(len, lines[:800])):,} bytes of logs before their last 200 lines",
        "1 ends of lines behind 400 characters",
        "10 settings behind the first 2,000",
    ):
        assert said in told
    assert "[the last 200 lines; some " in text
    (run / "train.log").write_text(lines[0])
    (run / "config.json").unlink()
    assert "left out: nothing. Read it" in bundle(run)


@pytest.mark.parametrize("sign", ["-", "key", "--key", "x.key-", "?key"])
def test_a_long_line_without_a_space_is_read_once(run: Path, sign: str) -> None:
    line = sign[0] + sign * (60_000 // len(sign))
    (run / "train.log").write_text(f"{LOG}{line}\n--api-key {TOKEN}\n")
    began_s = time.process_time()
    text = bundle(run)
    assert time.process_time() - began_s < 10  # to begin anew at each of its characters takes a minute
    assert TOKEN not in text


def test_a_run_has_its_log_once_however_it_is_named(run: Path) -> None:
    assert bundle(run).count("## End of ") == bundle(Path(run.name)).count("## End of ") == 1


def test_no_answer_of_ray_is_passed_on(run: Path) -> None:
    with cluster() as (server, _):
        text = bundle(run, "--ray", server.url)
    assert "actor_rollout_update_actor" in text
    assert KEY not in text
    assert "runtime_env" not in text
    assert "train.py --key" not in text


def test_nothing_is_sent_or_run_and_no_dump_of_nccl_is_opened(run: Path) -> None:
    with told() as seen:
        text = bundle(run)
    assert "nccl_trace_rank_0" in text
    assert any(event == "open" and path.endswith("train.log") for event, path in seen)
    assert not [path for event, path in seen if event == "open" and "nccl_trace" in path]
    assert not [each for each in seen if each[0] != "open"]


def test_a_stack_only_where_it_is_asked_for(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = in_path(
        tmp_path / "bin",
        monkeypatch,
        "py-spy",
        "echo 'Process 7: x train.py s3cret'; echo 'Thread 1 (idle): MainThread'",
    )
    with titled("ray::WorkerDict.update_actor") as pid:
        assert "MainThread" not in bundle(run)
        assert not words.exists()
        text = bundle(run, "--stack")
        assert "MainThread" in text
        assert "s3cret" not in text
    told = words.read_text().splitlines()
    assert told[:2] == ["dump", "--nonblocking"]
    assert str(pid) in told
    assert "--locals" not in told


def test_a_py_spy_that_may_not_look_says_so(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_path(tmp_path / "bin", monkeypatch, "py-spy", "echo 'Error: Permission Denied' >&2; exit 1")
    with titled("ray::WorkerDict.update_actor"):
        assert "error: Permission Denied" in bundle(run, "--stack")


@each_row(
    ("words", "reason"),
    [
        (["--evidence", "a", "b", "-o", "x.md"], "--evidence is about one run"),
        (["--evidence", "a", "-o", "x.html"], "--evidence is written as Markdown"),
        (["a", "-o", "x.md", "--stack"], "--stack goes with --evidence"),
        (["a", "-o", "x.md", "--metrics", "node:1"], "--metrics goes with --evidence"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", *words]) == 2
    assert reason in capsys.readouterr().err
