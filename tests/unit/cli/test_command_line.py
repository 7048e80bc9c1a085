"""The command line as a person or a CI job meets it: words, exit codes, documents."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import threading
import zipapp
from pathlib import Path

import pytest
from tables import each_row

from rltop.cli import main, resolve_paths
from rltop.cli.arguments import parse
from rltop.cli.plain import COMMANDS, plain
from rltop.run import run_stream
from rltop.run import session as session_module
from rltop.sources.file import FileSystem

FIRING = Path(__file__).parents[3] / "fixtures" / "trl" / "grpo_straggler" / "metrics.jsonl"


def rows(path: Path, count: int, bad: range = range(0)) -> Path:
    """A small run; on the steps of `bad` the gradient norm is NaN."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(
            json.dumps({"step": i, "loss": float("nan") if i in bad else 0.1, "grad_norm": 1.0, "reward": 0.5}) + "\n"
            for i in range(1, count + 1)
        )
    )
    return path


def run(argv: list[object], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    try:
        code = main([str(each) for each in argv])
    except SystemExit as leaving:
        code = int(leaving.code or 0)
    said = capsys.readouterr()
    return code, said.out, said.err


@each_row(
    "words",
    [[], ["run.jsonl"], ["a", "b/", "*.jsonl"], ["a", "check"], ["check", "a"], ["check", "a", "b"],
     ["check", "--json", "a", "b"], ["check", "a", "b", "--json"], ["check", "--json", "check"]],
)  # fmt: skip
def test_paths_alone_mean_what_the_parser_makes_of_them(words: list[str]) -> None:
    short = plain(words)
    assert short is not None
    assert vars(short) == {name: value for name, value in vars(parse(words)).items() if name in vars(short)}
    assert all(value is None for name, value in vars(parse(words)).items() if name not in vars(short))


@each_row(
    "words",
    [[""], ["-"], ["check", " "], ["--once", "a"], ["a", "--json"], ["check"],
     *([word, "a"] for word in COMMANDS if word != "check"), ["check", "--json"],
     ["check", "-"], ["check", "a", "--json", "b"], ["check", "--js", "a"], ["check", "--", "a"]],
)  # fmt: skip
def test_everything_else_is_left_to_the_parser(words: list[str]) -> None:
    assert plain(words) is None


@each_row(
    ("bad", "flags", "code"),
    [
        (range(0), [], 0),
        (range(0), ["--ever", "--fail-on", "warn"], 0),
        (range(38, 41), [], 1),
        (range(10, 11), [], 0),
        (range(10, 11), ["--ever"], 1),
    ],
)
def test_exit_codes_of_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bad: range, flags: list[str], code: int
) -> None:
    path = rows(tmp_path / "metrics.jsonl", 40, bad)
    assert run(["check", path, *flags], capsys)[0] == code


@each_row("content", [b"", b"not json\n", b'{\n  "a": 1\n}\n'])
def test_a_file_without_metrics_is_3_with_a_whole_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(content)
    code, out, _ = run(["check", "--json", path], capsys)
    assert code == 3
    assert json.loads(out)["records"] == 0
    assert run(["--once", path], capsys)[0] == 3


@each_row("behind", ["Training finished!\n", "Training finished!\nKilled\n", "Killed\n", ""])
def test_check_and_where_say_alike_how_a_console_log_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], behind: str
) -> None:
    path = tmp_path / "train.log"
    path.write_text("".join(f"step:{step} - loss:0.5 - reward:0.25\n" for step in range(40)) + behind)
    os.utime(path, (1e9, 1e9))
    state = json.loads(run(["check", "--json", path], capsys)[1])["state"]
    where = json.loads(run(["where", "--json", path], capsys)[1])
    expected = {"": ("ended", "ended"), "Killed\n": ("died", "dead")}.get(behind, ("finished", "finished"))
    assert (state, where["state"]) == expected
    assert ("killed" in (where["cause"] or "").casefold()) == ("Killed" in behind)


@each_row(
    ("argv", "says"),
    [
        *((argv, "is empty, but must be a path") for argv in (
            ["check", ""], ["check", "FILE", " "], ["where", ""], [""], ["--once", ""], ["watch", ""], ["replay", ""],
            ["report", "", "-o", "a.md"], ["report", "FILE", "-o", ""], ["check", "FILE", "--summary", ""],
            ["check", "FILE", "--config", ""], ["--once", "FILE", "--baseline", ""],
        )),
        *((["where", "FILE", flag, ""], "is empty, but must be a value") for flag in ("--nodes", "--via", "--metrics")),
        *((argv, "must be a number of columns from 40 to 10,000") for number in ("-3", "0", "39", "1e300", "nan", "x")
          for argv in (["check", "FILE", "--width", number], ["--once", "FILE", "--width", number])),
        (["report", "FILE", "-o", "a.md", "--since", "1e300"], "must be a step number, not '1e300'"),
        (["report", "FILE", "-o", "a.md", "--since", "41"], "has no such steps\n  it has 1 to 40"),
        (["report", "FILE", "-o", "a.md", "--steps", "50-60"], "has no such steps"),
    ],
)  # fmt: skip
def test_what_is_empty_or_out_of_range_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], argv: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    rows(tmp_path / "FILE", 40, range(0))
    code, out, err = run(argv, capsys)
    assert (code, out) == (2, "")
    assert says in err
    assert not (tmp_path / "a.md").exists()


@pytest.mark.parametrize("beside", [True, False])
def test_a_crash_in_a_later_epoch_is_raised_although_the_step_begins_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], beside: bool
) -> None:
    path = tmp_path / "metrics.jsonl"
    numbers = [(epoch, step, 0.02 if epoch == 3 and step >= 40 else 0.5) for epoch in range(4) for step in range(60)]
    path.write_text(
        "".join(
            json.dumps(
                {"step": step, **({"epoch": epoch} if beside else {}), "reward": reward + (step + 3 * epoch) % 7 / 100}
            )
            + "\n"
            for epoch, step, reward in numbers
        )
    )
    code, out, _ = run(["check", "--width", 200, path], capsys)
    assert code == 1 and ("reward crash  since 220" if beside else "reward crash  since 40") in out
    assert ("180 rows whose step begins anew in each epoch, counted on" in out) is beside
    assert ("as before: a step that begins anew in each epoch needs `epoch` beside it" in out) is not beside


def test_what_cannot_be_read_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["check", tmp_path / "missing"], ["replay", tmp_path / "missing"]):
        code, out, err = run(argv, capsys)
        assert (code, out) == (2, "")
        assert str(tmp_path) in err


def test_the_events_of_the_last_record_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.jsonl"
    healthy = {"reward": 0.5, "entropy": 0.3, "lr": 1e-6}
    rows = [{"step": step, **healthy, "loss": 0.1, "grad_norm": 0.5} for step in range(1, 40)]
    rows.append({"step": 40, **healthy, "loss": math.nan, "grad_norm": math.nan})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for argv in (["check", "--json", path], ["--once", "--json", path]):
        document = json.loads(run(argv, capsys)[1])
        last = [(event["rule"], event["state"]) for event in document["events"] if event["record"] == 40]
        assert ("L1", "firing") in last
        assert (document["level"], document["worst"]) == ("crit", "crit")
        (incident,) = document["incidents"]
        assert (incident["level"], incident["first_rule"], incident["since_step"]) == ("crit", "L1", 40)


def test_two_checks_are_the_same_to_the_byte_and_hold_no_literal_that_is_not_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def refuse(literal: str) -> None:
        raise AssertionError(literal)

    for path in (FIRING, rows(tmp_path / "metrics.jsonl", 40, range(30, 41))):
        first, second = (run(["check", "--json", path], capsys)[1] for _ in range(2))
        assert first == second
        document = json.loads(first, parse_constant=refuse)
        assert list(document) == [
            "schema", "run", "dialect", "algorithm", "records", "step", "state", "failure", "level", "worst",
            "worst_alert", "earlier_alert", "muted_alerts", "own_rules", "incidents", "pipeline", "verdicts",
            "events", "counts",
        ]  # fmt: skip
        assert document["events"]
        always = ["record", "step", "since_step", "rule", "family", "level", "state", "message"]
        for event in document["events"]:
            assert [name for name in event if name not in {"incident", "part"}] == always
            assert ("incident" in event) <= (event["state"] != "fact")


def test_check_judges_every_run_of_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [rows(tmp_path / name / "metrics.jsonl", 40) for name in ("a", "b")]
    code, out, _ = run(["check", "--json", tmp_path], capsys)
    assert code == 0
    documents = json.loads(out)
    assert {document["path"] for document in documents} == set(map(str, paths))
    assert all(document["records"] == 40 for document in documents)


def test_once_prints_a_line_of_each_of_several_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [rows(tmp_path / name / "metrics.jsonl", 40) for name in ("a", "b")]
    code, out, err = run(["--once", *paths], capsys)
    assert code == 0
    assert [line.split()[1] for line in out.splitlines()[2:]] == ["a", "b"]
    assert "2 runs" in err
    code, out, _ = run(["--once", "--json", tmp_path], capsys)
    assert {document["run"] for document in json.loads(out)} == {"a", "b"}


def test_reading_many_runs_reports_progress(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolve_paths, "SAY_S", 0.0)
    for name in "abc":
        rows(tmp_path / name / "metrics.jsonl", 40)
    for command in (["--once"], ["report", "-o", tmp_path / "report.md"]):
        assert "2 of 3 runs read so far" in run([*command, tmp_path], capsys)[2]


def test_once_prints_the_newest_of_several_where_it_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for at, name in enumerate(("b", "c", "a")):
        os.utime(rows(tmp_path / name / "metrics.jsonl", 40), (at, at))
    for paths in ([tmp_path], sorted(tmp_path.glob("*/*"))):
        assert json.loads(run(["--newest", "--json", *paths], capsys)[1])["run"] == "a"
        assert run(["--newest", "--once", *paths], capsys)[1].startswith(" a ·")


def test_where_says_of_which_of_several_runs_it_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [rows(tmp_path / name / "metrics.jsonl", 40) for name in ("a", "b", "c")]
    os.utime(paths[1])
    for shown in (tmp_path, tmp_path / "*" / "metrics.jsonl"):
        _, out, err = run(["where", "--json", shown], capsys)
        assert json.loads(out)["source"] == str(paths[1])
        assert f"{paths[1]}, the newest of 3 runs; others: " in err
    assert not run(["where", paths[0]], capsys)[2]


@pytest.mark.parametrize("command", [["--once"], ["--json"], ["check"]])
def test_completions_that_are_not_where_they_are_said_to_be_are_an_error(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = rows(tmp_path / "metrics.jsonl", 40)
    for name in ("none", "none*"):
        code, out, err = run([*command, "--rollouts", tmp_path / name, path], capsys)
        assert (code, out) == (2, "")
        assert err.startswith("rltop: --rollouts: ") and name in err


@pytest.mark.parametrize("command", ["--once", "check"])
@pytest.mark.parametrize("name", ["metrics.jsonl", "trainer_state.json"])
def test_of_a_step_key_that_no_row_has_the_keys_there_are_are_told(
    command: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = [{**{f"loss/{n}": 0.5 for n in range(20)}, "my_step": step} for step in range(1, 40)]
    lines = "".join(json.dumps(row) + "\n" for row in cells)
    (tmp_path / name).write_text(json.dumps({"log_history": cells}) if name.endswith("json") else lines)
    code, out, _ = run([command, "--step-key", "bogus", tmp_path / name], capsys)
    said = " ".join(out.split())
    assert code == 3
    assert "39 rows have no key bogus, which --step-key names" in said
    assert re.search(r"\(first (line 1: )?my_step, loss/0, ", said) and "--step-key KEY" not in said


def test_a_theme_that_does_not_exist_is_refused_where_it_was_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('theme = "nope"\n')
    for argv, place in ((["--config", config], str(config)), (["--theme", "nope"], "--theme")):
        code, _, err = run(["check", *argv, FIRING], capsys)
        assert code == 2
        assert place in err and "'nope'" in err and "dark, " in err and ", terminal, terminal-light;" in err


@each_row("speed", ["abc", "0", "-1", "nan", "1e9"])
def test_a_speed_that_cannot_be_is_refused_in_words(capsys: pytest.CaptureFixture[str], speed: str) -> None:
    code, _, err = run(["replay", FIRING, f"--speed={speed}"], capsys)
    assert code == 2
    assert speed in err and "_speed" not in err


def test_a_closed_pipe_is_not_a_crash(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A pipe of one page that nobody reads from: the first write already fails."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    program = [sys.executable, "-m", "rltop", "check", "--json", str(FIRING)]
    done = subprocess.run(program, stdout=write_end, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (141, b"")
    for argv in (["check", str(FIRING)], ["--once", str(FIRING)], ["--json", str(FIRING)]):
        with os.fdopen(os.dup(write_end), "w") as pipe:
            monkeypatch.setattr(sys, "stdout", pipe)
            assert main(argv) == 141
        monkeypatch.undo()
        assert capsys.readouterr().err == ""
    os.close(write_end)


def test_several_files_are_judged_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calm, firing = rows(tmp_path / "calm" / "m.jsonl", 40), rows(tmp_path / "firing" / "m.jsonl", 40, range(38, 41))
    empty, missing = tmp_path / "empty.jsonl", tmp_path / "missing.jsonl"
    empty.touch()
    for paths, expected in (
        ([calm, calm], 0), ([calm, firing], 1), ([calm, empty], 3), ([calm, missing, empty], 2), ([missing, firing], 1),
    ):  # fmt: skip
        code, out, err = run(["check", *paths], capsys)
        assert code == expected
        assert out.count("up to step 40") == sum(path in (calm, firing) for path in paths)
        assert (str(missing) in err) == (missing in paths)
        code, out, _ = run(["check", "--json", *paths], capsys)
        assert code == expected
        documents = json.loads(out)
        assert [document["path"] for document in documents] == [str(path) for path in paths]
        assert [("error" in document) for document in documents] == [path == missing for path in paths]


def test_since_leaves_out_what_happened_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = rows(tmp_path / "metrics.jsonl", 60, range(10, 11))
    assert run(["check", "--ever", path], capsys)[0] == 1
    code, out, _ = run(["check", "--ever", "--since", 30, "--json", path], capsys)
    assert code == 0 and all(event["step"] >= 30 for event in json.loads(out)["events"])
    code, out, _ = run(["check", "--ever", "--since", 10, path], capsys)
    assert code == 1 and "events since step 10: " in out and "recovered NaN/Inf, since step" in out
    code, _, err = run(["check", "--since", "soon", path], capsys)
    assert code == 2 and "'soon'" in err


def test_rules_are_explained_with_and_without_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = rows(tmp_path / "metrics.jsonl", 40, range(38, 41))
    code, out, _ = run(["check", "--explain", "l1"], capsys)
    assert code == 0 and out.startswith(" L1  NaN/Inf") and "check next" in out and "\x1b" not in out
    code, out, _ = run(["check", "--explain", "L1", path], capsys)
    assert code == 1 and "alert       CRIT, since step 38" in out
    code, out, _ = run(["check", "--explain", "L1", "--json", path], capsys)
    document = json.loads(out)
    assert [each["rule"] for each in document["verdicts"]] == ["L1"] and document["events"]
    assert {each["rule"] for each in json.loads(run(["check", "--rules", "--json"], capsys)[1])} > {"L1", "O1"}
    code, out, _ = run(["check", "--rules", path], capsys)
    assert code == 1 and "evaluated; raised 1×" in out
    for argv, words in ((["--explain", "nope"], "no such rule: nope"), ([], "name a metric file")):
        code, out, err = run(["check", *argv], capsys)
        assert (code, out) == (2, "") and words in err


@pytest.mark.parametrize("is_written", [False, True], ids=["sparse", "written"])
@pytest.mark.parametrize("before", [0, 50])
def test_a_hole_is_not_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], before: int, *, is_written: bool
) -> None:
    whole = rows(tmp_path / "whole.jsonl", 60, range(51, 61)).read_bytes().splitlines(keepends=True)
    path = tmp_path / "m.jsonl"
    with path.open("wb") as file:
        file.write(b"".join(whole[:before]))
        if is_written:
            file.write(bytes(40 << 20))
        else:
            file.seek(1 << 30, os.SEEK_CUR)
        file.write(b"".join(whole[before:]))
    code, out, _ = run(["check", path, "--json"], capsys)
    document = json.loads(out)
    assert (code, document["records"], document["step"]) == (1, 60, 60)
    for flags in ([], ["--live"]):
        _, out, _ = run(["--once", *flags, path], capsys)
        assert "step 60" in out
        assert "checking" not in out


@each_row("flags", [["check", "--json"], ["--once", "--json"], ["--once", "--live", "--json"]])
def test_a_file_that_grows_is_not_chased(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    path = rows(tmp_path / "m.jsonl", 50)
    read_at, step = FileSystem.read_at, 50

    def and_grows(self: FileSystem, handle: int, size: int, offset: int) -> bytes:
        nonlocal step
        step += 1
        assert step < 1000, "it never ends"
        with path.open("a") as file:
            file.write(json.dumps({"step": step, "loss": 0.1, "grad_norm": 1.0, "reward": 0.5}) + "\n")
        return read_at(self, handle, size, offset)

    monkeypatch.setattr(FileSystem, "read_at", and_grows)
    _, out, _ = run([*flags, path], capsys)
    assert 50 <= json.loads(out)["step"] <= 55


@each_row(
    ("words", "meant"),
    [
        (["chek", "FILE"], "rltop check"),
        (["Check", "FILE"], "rltop check"),
        (["chek", "--json", "FILE"], "rltop check"),
        (["chek", "--explain", "O11", "FILE"], "rltop check"),
        (["repaly", "FILE"], "rltop replay"),
        (["wacth", "FILE"], "rltop watch"),
        (["demoo"], "rltop demo"),
        (["--json", "check", "FILE"], "commands come first"),
        (["FILE", "watch"], "commands come first"),
        (["--onse", "FILE"], "--once"),
        (["--once", "FILE", "--step", "5"], "--step-key"),
        (["--thme=dark", "FILE"], "--theme"),
        (["check", "--fial-on=warn", "FILE"], "--fail-on"),
        (["watch", "FILE", "--on-crti", "true"], "--on-crit"),
    ],
)
def test_a_word_that_is_mistyped_is_told_what_was_meant(
    words: list[str], meant: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = rows(tmp_path / "metrics.jsonl", 10)
    code, out, err = run([path if word == "FILE" else word for word in words], capsys)
    assert (code, out) == (2, "")
    assert meant in err and ("did you mean" in err or "commands come first" in err)


def test_a_run_that_is_called_like_a_command_can_be_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows(tmp_path / "chek" / "metrics.jsonl", 10)
    rows(tmp_path / "demo" / "metrics.jsonl", 10)
    for name in ("chek", "./demo", "chek*", "che[k]"):
        assert run(["--once", name], capsys)[0] == 0
    assert "no such file" in run(["--once", "./repaly"], capsys)[2]
    assert "no such file" in run(["--once", "run_7"], capsys)[2]


class OfTerminal:
    """A stream that writes to a pseudo-terminal, of which everything is read at once: its buffer is small."""

    def __init__(self) -> None:
        self._master, slave = os.openpty()
        self.stream = os.fdopen(slave, "w", encoding="utf-8")
        self._written = b""
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        # Reading fails once nobody has the other end any more.
        with contextlib.suppress(OSError):
            while data := os.read(self._master, 4096):
                self._written += data

    def close(self) -> str:
        """Give both ends back; what has been written."""
        self.stream.close()
        self._thread.join()
        os.close(self._master)
        return self._written.decode()


@pytest.mark.parametrize("words", [["check"], ["--once"], ["--json"]])
def test_progress_is_drawn_on_a_terminal_and_wiped_away(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_stream, "LONG_S", 0.0)
    monkeypatch.setattr(run_stream, "TELLING_S", 0.0)
    monkeypatch.setattr(session_module, "WATCHED_MS", 0.1)
    path = rows(tmp_path / "a run" / "metrics.jsonl", 800)
    expected = run([*words, path], capsys)
    terminal = OfTerminal()
    try:
        monkeypatch.setattr(sys, "stderr", terminal.stream)
        code, out, _ = run([*words, path], capsys)
    finally:
        drawn = terminal.close()
    assert (code, out) == expected[:2]
    lines = drawn.split("\r\x1b[K")
    assert lines[0] == lines[-1] == ""
    shares = [int(re.fullmatch(r"reading a run [█░]{24} (\d+) %, \d+ s left", line)[1]) for line in lines[1:-1]]  # type: ignore[index]
    assert len(shares) > 3 and shares == sorted(shares)
    assert "reading" not in expected[2]


def test_check_judges_group_lengths_from_rollout_dumps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Group lengths that only the dumps know: the same rule as for a logged ratio."""
    metrics = rows(tmp_path / "metrics.jsonl", 40)
    dumps = tmp_path / "rollouts"
    dumps.mkdir()
    for step in range(1, 41):
        completions = [
            {
                "input": f"question {group}",
                "output": "word " * (700 if each == 0 else 100),
                "score": each % 2,
                "step": step,
            }
            for group in range(4)
            for each in range(8)
        ]
        (dumps / f"{step}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in completions))
    for command in (["check", "--json"], ["--once", "--json"], ["check", "--json", "--rollouts", dumps]):
        _, said, _ = run([*command, metrics], capsys)
        (found,) = [event for event in json.loads(said)["events"] if event["rule"] == "P5"]
        assert (found["level"], found["since_step"]) == ("warn", 1)
        assert "7.00× its group's median" in found["message"] and "lengths in characters" in found["message"]


def test_from_inside_of_a_zip_archive_it_says_how_to_install_it(tmp_path):
    package = Path(parse.__code__.co_filename).parents[1]
    shutil.copytree(package, tmp_path / "app" / "rltop", ignore=shutil.ignore_patterns("__pycache__"))
    archive = tmp_path / "rltop.pyz"
    zipapp.create_archive(tmp_path / "app", archive, main="rltop.__main__:main")
    words = [sys.executable, str(archive), "--once", "x.jsonl"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "Traceback" not in done.stderr
    assert "rltop.pyz, where the files" in done.stderr and "  install it" in done.stderr


def test_a_run_is_printed_beside_the_baseline_run_as_the_screen_shows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, reward in (("one", 0.5), ("two", 0.25)):
        (tmp_path / name).mkdir()
        rows = [{"step": n, "reward": reward + 0.001 * n, "loss": 0.1} for n in range(1, 41)]
        (tmp_path / name / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    two, one = str(tmp_path / "two"), str(tmp_path / "one")
    for paths in ([two], [str(tmp_path)]):
        code, said, _ = run(["--once", *paths, "--baseline", one, "--width", "140"], capsys)
        assert code == 0 and said.startswith(" two ") and "vs one: " in said
        row = next(line for line in said.splitlines() if line.startswith("   reward"))
        assert "vs run" in said and "−0.25" in row
    assert [each["run"] for each in json.loads(run(["--json", two, "--baseline", one], capsys)[1])] == ["two", "one"]
    assert "no run to compare with" in run(["--once", one, "--baseline", one], capsys)[2]
