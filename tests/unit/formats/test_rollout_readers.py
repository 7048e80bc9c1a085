"""What each dump comes down to: steps, groups, lengths, rewards, texts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from rollout_dumps import (
    add_experiences,
    lines_of,
    plain_rows,
    trinity_rows,
    write_nemo,
    write_sqlite,
    write_trl,
    write_verl,
)
from tables import each_row
from telescope_run import TelescopeRun

from rltop.errors import SourceError
from rltop.formats.rollouts import files as lines
from rltop.formats.rollouts.files import LinesDump, dumps_in
from rltop.formats.rollouts.stores import look_inside
from rltop.model.completions import Completion, RolloutSource, joined


def only(path: Path) -> RolloutSource:
    (source,) = dumps_in(str(path))
    look_through(source)
    return source


def look_through(source: RolloutSource) -> None:
    for _ in range(10_000):
        if not source.refresh():
            return
    raise AssertionError("it never ends")


def groups_of(source: RolloutSource, step: int) -> dict[str, list[Completion]]:
    found: dict[str, list[Completion]] = {}
    for each in joined(source.read(step))[0]:
        found.setdefault(each.group, []).append(each)
    return found


def words_of(source: RolloutSource, completion: Completion) -> list[tuple[str, str]]:
    text = source.text(completion)
    return [tuple(passage) for passage in text.passages]


def test_plain_rows_are_read_as_documented(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(lines_of(plain_rows([3, 7])))
    source = only(path)
    assert list(source.steps) == [3, 7] and source.progress is None and not source.notes
    groups = groups_of(source, 7)
    assert list(groups) == ["0", "1", "2"]
    last = groups["0"][-1]
    assert (last.tokens, last.reward, last.advantage, last.stop, last.is_truncated) == (70.0, 1.0, 0.5, "stop", False)
    assert words_of(source, last) == [("prompt", "question 0 of step 7"), ("completion", "answer 3\nof group 0")]
    assert source.read(5) == []


@each_row("has_uid", [True, False])
def test_verl_groups_by_uid_or_by_the_text_of_the_prompt(tmp_path: Path, has_uid: bool) -> None:
    source = only(write_verl(tmp_path / "dump", [9, 10], has_uid=has_uid))
    assert list(source.steps) == [9, 10]
    groups = groups_of(source, 10)
    assert [len(each) for each in groups.values()] == [4, 4]
    assert (list(groups) == ["0f-0", "0f-1"]) is has_uid
    longest = max(groups.values(), key=lambda each: max(one.characters or 0 for one in each))
    assert [each.characters for each in longest] == [10, 10, 10, 40]
    assert all(each.tokens is None for each in longest)
    text = source.text(longest[-1])
    assert [passage.heading for passage in text.passages] == ["prompt", "completion", "reference answer"]
    assert dict(text.facts)["acc"] == "0"


def test_several_outputs_of_one_rollout_are_its_turns(tmp_path: Path) -> None:
    rows = [{"input": "q", "output": "ab" * (i + 1), "score": i, "step": 1, "uid": f"u_0_{i}"} for i in range(3)]
    (tmp_path / "1.jsonl").write_bytes(lines_of(rows))
    source = only(tmp_path)
    (completion,) = groups_of(source, 1)["u"]
    assert (completion.turns, completion.characters, completion.reward) == (3, 12, 2.0)
    assert [heading for heading, _ in words_of(source, completion)][-1] == "turn 3 of 3 · completion"


def test_nemo_rl_has_a_file_per_step_and_its_validation_is_left_out(tmp_path: Path) -> None:
    folder = write_nemo(write_nemo(tmp_path / "exp_001", [1, 2, 3]), [2], "val")
    source = only(folder)
    assert list(source.steps) == [1, 2, 3]
    found = source.read(2)
    assert [(one.number, one.reward, one.tokens) for one in found[:2]] == [("0", 0.0, 6.0), ("1", 1.0, 7.0)]
    assert [len(group) for group in groups_of(source, 2).values()] == [4, 4]
    assert words_of(source, found[5]) == [("completion", "question 1\nanswer 5")]
    assert list(only(write_nemo(tmp_path / "evaluations", [4], "val")).steps) == [4]


def test_a_file_per_rank_is_no_file_per_step(tmp_path: Path) -> None:
    for rank in (1, 2):
        (tmp_path / f"rank{rank}.jsonl").write_bytes(lines_of(plain_rows([1, 2, 3])))
    assert [type(source) for source in dumps_in(str(tmp_path))] == [LinesDump, LinesDump]


def test_trinity_sums_the_steps_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "explorer_output.jsonl"
    path.write_bytes(lines_of([row for batch in (4, 5) for row in trinity_rows(batch)]))
    source = only(path)
    assert list(source.steps) == [4, 5]
    groups = groups_of(source, 5)
    assert {name: [each.tokens for each in found] for name, found in groups.items()} == {
        "5/0": [20.0, 80.0],
        "5/1": [10.0, 10.0],
    }
    assert groups["5/0"][1].turns == 2


def test_trinitys_buffer_is_read_beside_its_writer_and_nothing_in_it_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "explorer_output.db"
    writer = write_sqlite(path, [4, 5])
    try:
        source = only(path)
        assert list(source.steps) == [4, 5] and not source.notes
        groups = groups_of(source, 5)
        assert {name: [each.tokens for each in found] for name, found in groups.items()} == {
            "5/0": [20.0, 80.0],
            "5/1": [10.0, 10.0],
        }
        assert groups["5/0"][0].off_policy_steps == 1.0
        assert words_of(source, groups["5/1"][0]) == [("prompt", "task 1"), ("completion", "answer 0.0")]
        stamp = source.stamp(5)
        add_experiences(writer, [5, 6])
        look_through(source)
        assert list(source.steps) == [4, 5, 6] and source.stamp(5) != stamp
        writer.execute("BEGIN EXCLUSIVE")
        assert source.read(6)
    finally:
        writer.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
@pytest.mark.parametrize("reader", [None, 1002])
def test_a_buffer_is_read_without_a_trace(tmp_path: Path, mode: str, is_open: bool, reader: int | None) -> None:
    if reader is not None and os.geteuid():
        pytest.skip("only root can read as another user")
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    path = folder / "explorer_output.db"
    writer = write_sqlite(path, [1, 2])
    writer.execute(f"PRAGMA journal_mode={mode}")
    writer.execute("PRAGMA busy_timeout=0")
    if not is_open:
        writer.close()
    before = {one.name: (one.stat().st_uid, one.read_bytes()) for one in folder.iterdir()}
    assert _read_apart(path, reader) == "[1, 2] []"
    assert {one.name: (one.stat().st_uid, one.read_bytes()) for one in folder.iterdir()} == before
    if is_open:
        add_experiences(writer, [3])
        writer.execute("BEGIN EXCLUSIVE")
        assert _read_apart(path, reader) == "[1, 2, 3] []"
        writer.close()


def _read_apart(path: Path, user: int | None) -> str:
    """Steps and notes of a buffer, read in a process of its own that may open nothing for writing and lock nothing."""
    dumps_in(str(path))  # what is imported late is there before the other user may read it no more
    shown, told = os.pipe()
    child = os.fork()
    if not child:
        try:
            if user is not None:
                os.chdir(path.parent)
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            sys.addaudithook(_refuse_traces)
            (source,) = dumps_in(path.name if user is not None else str(path))
            while source.refresh():
                pass
            assert len(source.read(2)) == 5 and source.text(source.read(2)[0])
            os.write(told, f"{list(source.steps)} {list(source.notes)}".encode())
        except BaseException as error:
            os.write(told, repr(error).encode())
        finally:
            os._exit(0)
    os.close(told)
    with os.fdopen(shown) as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return said


def _refuse_traces(event: str, args: tuple[object, ...]) -> None:
    if event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        raise AssertionError(f"{args[0]!r} is opened for writing")
    if event in ("fcntl.flock", "fcntl.lockf", "fcntl.fcntl", "sqlite3.connect", "os.mkdir", "os.remove", "os.rename"):
        raise AssertionError(f"{event} {args}")


def test_a_folder_that_cannot_be_written_to_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "buffer.db"
    write_sqlite(path, [1]).close()
    tmp_path.chmod(0o555)
    try:
        assert list(only(path).steps) == [1]
    finally:
        tmp_path.chmod(0o755)


def test_a_step_that_cannot_be_read_just_now_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "explorer_output.db"
    write_sqlite(path, range(9)).close()
    source = only(path)
    whole = path.read_bytes()
    last = source.read(8)[-1]
    stamp = source.stamp(8)
    path.write_bytes(whole[: len(whole) // 2])
    assert source.read(8) == [] and "step 8" in source.notes[0]
    text = source.text(last)
    assert text is not None and "missing" in text.note
    assert source.stamp(8) != stamp
    path.write_bytes(whole)
    stamp = source.stamp(8)
    assert len(source.read(8)) == 5 and not source.notes and source.stamp(8) == stamp
    path.write_bytes(b"")
    stamps = set()
    for _ in range(40):
        source.read(8)
        stamps.add(source.stamp(8))
    assert len(stamps) < 20


@examples(200)
@given(st.binary(max_size=200))
def test_no_pickle_surprises(blob: bytes) -> None:
    look_inside(blob)
    look_inside(b"\x80\x04" + blob)


def test_trl_tables_are_grouped_by_prompt(tmp_path: Path) -> None:
    source = only(write_trl(tmp_path / "completions", [10, 20]))
    assert list(source.steps) == [10, 20]
    groups = list(groups_of(source, 20).values())
    assert [[each.characters for each in group] for group in groups] == [[1, 5], [0, 3]]
    assert [[each.reward for each in group] for group in groups] == [[1.0, 0.0], [0.5, None]]
    assert groups[0][1].advantage == -0.5
    assert words_of(source, groups[1][1]) == [("prompt", "b?"), ("completion", "1\n2")]


def test_several_reward_functions_are_summed(tmp_path: Path) -> None:
    source = only(write_trl(tmp_path / "completions", [1], format=[0.25, 0.25, 0.25, 0.25]))
    assert [each.reward for each in source.read(1)] == [1.25, 0.25, 0.75, 0.25]


def test_telescope_joins_its_tables(tmp_path: Path) -> None:
    made = TelescopeRun().add_steps(range(8))
    source = only(made.write(tmp_path / "files"))
    assert list(source.steps) == list(range(8))
    for step in (0, 7):
        found = joined(source.read(step))[0]
        kept = [each for each in found if not each.discarded]
        rows = [i for i, at in enumerate(made.samples["step"]) if at == step]
        assert [each.number for each in kept] == [str(made.samples["sample_id"][i]) for i in rows]
        for each in kept:
            tokens = [
                count
                for sample, count in zip(made.generations["sample_id"], made.generations["tokens"], strict=True)
                if str(sample) == each.number and isinstance(count, int)
            ]
            assert each.tokens == sum(tokens) and each.turns == len(tokens)
        thrown = [each for each in found if each.discarded]
        assert len(thrown) == sum(at == step for at in made.discarded["trainer_step"])
        assert {each.discarded for each in thrown} <= {"zero_advantage", "max_async"}


def test_an_archive_that_is_being_written_is_looked_at_again(tmp_path: Path) -> None:
    made = TelescopeRun().add_steps(range(3))
    files = made.write(tmp_path / "files")
    whole = (files / "steps" / "tail.zip").read_bytes()
    for archive in files.rglob("*.zip"):
        archive.unlink()
    (files / "steps" / "tail.zip").write_bytes(whole[: len(whole) // 2])
    source = only(files)
    assert not source.steps and "is being written" in source.notes[0]
    (files / "steps" / "tail.zip").write_bytes(whole)
    look_through(source)
    assert list(source.steps) == [0, 1, 2] and not source.notes


# -- a file of lines, whatever its size and whatever is in it --------------------------------------------------------


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "PIECE_BYTES", 512)
    monkeypatch.setattr(lines, "NEWEST_BYTES", 2048)
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 4096)
    monkeypatch.setattr("rltop.formats.decoder.MAX_LINE_BYTES", 4096)
    monkeypatch.setattr(lines, "NEAR_BYTES", 64)


def test_the_newest_rows_of_a_large_file_are_known_first(tmp_path: Path, small_pieces: None) -> None:
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(lines_of(plain_rows(range(1, 101))))
    source = LinesDump(str(path))
    assert source.refresh()
    assert 100 in source.steps and 1 not in source.steps
    assert source.progress is not None
    look_through(source)
    assert list(source.steps) == list(range(1, 101)) and source.progress is None
    for step in (1, 50, 99, 100):
        assert len(source.read(step)) == 12


@examples(60)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 900)), max_size=40),
    st.lists(st.integers(0, 12_000), max_size=5),
)
def test_however_a_file_grows_every_row_is_found_once(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int]], cuts: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, size in (("PIECE_BYTES", 256), ("NEWEST_BYTES", 1024), ("MAX_LINE_BYTES", 2048), ("NEAR_BYTES", 64)):
            patch.setattr(lines, name, size)
        patch.setattr("rltop.formats.decoder.MAX_LINE_BYTES", 2048)
        data = lines_of(
            {"step": step, "group": 0, "sample": i, "reward": 1, "completion": "x" * length}
            for i, (step, length) in enumerate(rows)
        )
        path = tmp_path_factory.mktemp("grown") / "rollouts.jsonl"
        path.write_bytes(b"")
        source = LinesDump(str(path))
        for end in [*sorted(cut for cut in cuts if cut < len(data)), len(data)]:
            path.write_bytes(data[:end])
            look_through(source)
        found = {step: sorted(int(each.number) for each in source.read(step)) for step in source.steps}
        wanted: dict[int, list[int]] = {}
        for i, (step, _) in enumerate(rows):
            wanted.setdefault(step, []).append(i)
        assert found == wanted


@pytest.mark.parametrize("beside", [-1, 0, 1])
def test_a_row_that_begins_where_the_newest_bytes_begin_is_found(
    tmp_path: Path, small_pieces: None, monkeypatch: pytest.MonkeyPatch, beside: int
) -> None:
    rows = [lines_of([{"step": step, "group": 0, "completion": "x"}]) for step in range(1, 101)]
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(b"".join(rows))
    monkeypatch.setattr(lines, "NEWEST_BYTES", sum(map(len, rows[60:])) + beside)
    source = LinesDump(str(path))
    look_through(source)
    assert list(source.steps) == list(range(1, 101))


def test_what_is_no_row_is_counted_and_the_rest_is_read(tmp_path: Path, small_pieces: None) -> None:
    good = plain_rows([1], groups=1, size=1)
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(
        b'{"step": 1, "group": "a", "reward": NaN, "completion": "\\ud800"}\n'
        + b"[1, 2]\nnot json\n\n"
        + b'{"group": 1, "reward": 1}\n'
        + b'{"step": 1, "completion": "' + b"x" * 9000 + b'"}\n'
        + lines_of(good)
        + b'{"step": 1, "gro'
    )  # fmt: skip
    source = LinesDump(str(path))
    look_through(source)
    assert [each.reward for each in source.read(1)] == [None, 0.0]
    assert list(source.notes) == ["2 lines not valid JSON", "1 line without a step", "1 line longer than 0 MiB"]
    with path.open("ab") as file:
        file.write(b'up": 5, "reward": 2}\n')
    look_through(source)
    assert [each.reward for each in source.read(1)] == [None, 0.0, 2.0]


def test_a_file_that_was_written_anew_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(lines_of(plain_rows(range(1, 9))))
    source = only(path)
    path.write_bytes(lines_of(plain_rows([2])))
    look_through(source)
    assert list(source.steps) == [2]


def test_a_file_that_is_gone_says_so(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(lines_of(plain_rows([1])))
    source = only(path)
    (completion, *_) = source.read(1)
    path.unlink()
    look_through(source)
    assert source.read(1) == [] and source.text(completion) is None
    assert "No such file" in source.notes[0]


@each_row(
    ("name", "data"),
    [("a.zip", b"PK\x03\x04rest"), ("a.jsonl.gz", b"\x1f\x8b\x08"), ("a.parquet", b"PAR1")],
)
def test_what_is_not_read_says_what_to_do(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(SourceError) as caught:
        dumps_in(str(tmp_path / name))
    assert caught.value.hint


def test_a_last_line_needs_no_end_and_is_read_once(tmp_path: Path) -> None:
    rows = plain_rows([1], groups=1, size=3)
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(lines_of(rows)[:-1])
    source = only(path)
    assert len(source.read(1)) == 3
    with path.open("ab") as file:
        file.write(b"\n" + lines_of(plain_rows([1], groups=1, size=1)))
    look_through(source)
    assert len(source.read(1)) == 4
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump" / "7.jsonl").write_bytes(lines_of(plain_rows([7], groups=1, size=2))[:-1])
    assert len(only(tmp_path / "dump").read(7)) == 2


def test_a_byte_that_is_no_utf_8_costs_no_completion(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(lines_of(plain_rows(range(1, 4))).replace(b"answer", b"answ\xe9r"))
    dump = only(path)
    assert [len(dump.read(step)) for step in dump.steps] == [12, 12, 12]
    text = dump.text(dump.read(1)[0])
    assert [passage.text for passage in text.passages][1:] == ["answ\\xe9r 0\nof group 0"]
