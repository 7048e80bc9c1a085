"""The newest rows, read from the end of a file, are those that reading all of it gives."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import NamedTuple

import pytest
from binary_files import block_log, event, frame, history, run_record, span, stats, value, version_event
from examples import EXPLORES, examples
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from recorded import runs_root
from stores import contents

from rltop.cli.early import read_newest
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.formats.kinds import CONSOLE, CSV, JSONL, KINDS, TENSORBOARD, WANDB, Kind
from rltop.resources import folder
from rltop.run import pipeline as pipeline_module
from rltop.run import session as session_module
from rltop.run.options import IngestOptions
from rltop.run.places import FoundRun, name_of
from rltop.run.run import Run
from rltop.run.run_stream import last_rows
from rltop.run.session import Session
from rltop.run.sniff import sniff
from rltop.sources import tail
from rltop.sources.feed import DirectFeed
from rltop.store.stream import Stream

NAMES = {JSONL: "m.jsonl", CSV: "progress.csv", TENSORBOARD: "events.out.tfevents.1", WANDB: "run-a.wandb"}
NAMES[CONSOLE] = "train.log"


def test_every_format_whose_end_can_be_read_by_itself_is_in_this_test() -> None:
    assert set(NAMES) == {kind for kind in KINDS if last_rows(kind, 1) is not None}, "NAMES, files and _row have it"


class Made(NamedTuple):
    """A file as a trainer leaves it, and the ends of its rows."""

    kind: Kind
    data: bytes
    ends: list[int]

    def __repr__(self) -> str:
        return f"{self.kind.name}, {len(self.data)} bytes, {len(self.ends)} rows"


def made(kind: Kind, rng: random.Random) -> Made:
    """Rows of a few keys, with what else stands in such files."""
    keys = [f"loss/{i}" for i in range(rng.randint(1, 12))]
    own = rng.choice(["", "train/global_step"])
    steps, step = [], rng.choice([0, 1, 500])
    for _ in range(rng.randint(1, 150)):
        steps.append(step)
        step += rng.choice([1, 1, 1, 10])
    total = rng.choice([0, 300, 9_000])
    parts = [_head(kind, keys, total)]
    ends = []
    for number, step in enumerate(steps):
        row = {key: float(rng.randint(-9, 9)) for key in keys if kind is CSV or rng.random() < 0.9} or {keys[0]: 1.0}
        parts.append(_row(kind, rng, step, row, own, number))
        ends.append(len(parts))
    data = block_log(*_flat(parts)) if kind is WANDB else b"".join(parts)
    if kind is WANDB:
        parts = []  # the records lie in blocks: where one ends depends on those before
        return Made(kind, data, [len(data)])
    sizes = [len(b"".join(parts[:end])) for end in ends]
    return Made(kind, data, sizes)


def _head(kind: Kind, keys: list[str], total: int) -> bytes:
    if kind is CSV:
        return ",".join(["step", *keys]).encode() + b"\n"
    if kind is TENSORBOARD:
        return frame(version_event()) + frame(b"\x09" + bytes(8) + span(4, bytes(total)))
    if kind is WANDB:
        return run_record({"max_steps": 1_000, "padding": "x" * total})
    return b"some banner\n" * (total // 100) if kind is CONSOLE else b""


def _row(
    kind: Kind, rng: random.Random, step: int, row: dict[str, float], own: str, number: int
) -> bytes | list[bytes]:
    if kind is CSV:
        cells = [str(number) if rng.random() < 0.95 else "" for number in row.values()]
        return ",".join([str(step), *cells]).encode() + rng.choice([b"\n", b"\r\n"])
    if kind is CONSOLE:
        noise = b"INFO something else\n" if rng.random() < 0.5 else b""
        return noise + b"step:%d - " % step + b" - ".join(b"%b:%f" % (k.encode(), v) for k, v in row.items()) + b"\n"
    if kind is JSONL:
        return json.dumps({"step": step, **row}).encode() + b"\n"
    if kind is WANDB:
        extra = [stats(gpu=rng.random()) for _ in range(rng.choice([0, 0, 1, 3]))]
        steps = {own: step} if own else {}
        return [*extra, history({**row, **steps, "_step": number, "_timestamp": 1.7e9 + number}, num=number)]
    return _events(rng, step, row)


def _events(rng: random.Random, step: int, row: dict[str, float]) -> bytes:
    values = [value(key, cell) for key, cell in row.items()]
    if rng.random() < 0.3:
        return frame(event(step, *values, wall=1.7e9 + step))
    picture = span(1, span(1, b"p") + span(4, bytes(rng.choice([10, 3_000]))))
    events = [*values, *([picture] if rng.random() < 0.1 else [])]
    return b"".join(frame(event(step, one, wall=1.7e9 + step)) for one in events)


def _flat(parts: list[bytes | list[bytes]]) -> list[bytes]:
    return [one for part in parts for one in ([part] if isinstance(part, bytes) else part)]


files = st.builds(
    lambda kind, seed: made(kind, random.Random(seed)),
    st.sampled_from([JSONL, CSV, TENSORBOARD, WANDB, CONSOLE]),
    st.integers(0, 2**32),
)
"""A file of any of the formats whose end can be read by itself."""


def found_at(path: Path, kind: Kind) -> FoundRun:
    return FoundRun(str(path), name_of(str(path)), path.stat().st_size, kind=kind)


def newest(path: Path, kind: Kind, rows: int) -> Run:
    """What the first frame shows."""
    last = last_rows(kind, rows)
    assert last is not None
    return read_newest(found_at(path, kind), kind, last, Config(), FakeClock())


def followed(path: Path, kind: Kind, *, has_preview: bool) -> Run:
    """The file read to its end by a session, as the screen reads it."""
    clock = FakeClock()
    options = IngestOptions(has_preview=has_preview)
    session = Session(
        [found_at(path, kind)], lambda each, last: DirectFeed(each, clock=clock, last=last), clock, options
    )
    while session.step(1e9):
        pass
    clock.advance(1.0)
    while session.step(1e9):
        pass
    return session.runs[0]


def rows_of(stream: Stream) -> dict[int, dict[str, float]]:
    """Every step that is held, with the values logged on it."""
    steps = stream.steps()
    cells = {step: {key: stream.value(key, step) for key in stream.keys} for step in steps}
    return {step: {key: number for key, number in row.items() if number is not None} for step, row in cells.items()}


@pytest.fixture
def small_blocks(monkeypatch):
    """Files of a few kilobytes are read as large ones are."""
    monkeypatch.setattr(session_module, "PREVIEW_FROM_BYTES", 0)
    monkeypatch.setattr(session_module, "PREVIEW_ROWS", 20)
    monkeypatch.setattr(tail, "FIRST_BLOCK", 700)


SLOW = examples(30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


@SLOW
@given(files, st.floats(0, 1), st.integers(4, 40))
def test_the_newest_rows_are_those_of_the_whole_file(small_blocks, tmp_path_factory, file, share, rows):
    path = tmp_path_factory.mktemp("newest") / NAMES[file.kind]
    path.write_bytes(file.data[: round(share * len(file.data))])
    whole, first = rows_of(followed(path, file.kind, has_preview=False).main.stream), newest(path, file.kind, rows)
    shown = rows_of(first.main.stream)
    if not shown:
        assert len(whole) <= 3  # of W&B's rows the first three wait until it is known what their step is
        return
    assert max(shown) == max(whole)
    assert shown == {step: whole[step] for step in shown}
    assert first.main.is_preview or len(shown) == len(whole)


@SLOW
@given(files, st.integers(0, 3_000), st.binary(max_size=200) | st.just(bytes(900)))
def test_a_damaged_end_is_the_same_run_with_and_without_the_newest_rows_first(
    small_blocks, tmp_path_factory, file, back, damage
):
    path = tmp_path_factory.mktemp("damaged") / NAMES[file.kind]
    at = max(0, len(file.data) - back)
    path.write_bytes(file.data[:at] + damage + file.data[at + len(damage) :])
    plain, quick = (followed(path, file.kind, has_preview=has_preview) for has_preview in (False, True))
    assert contents(quick.main.stream) == contents(plain.main.stream)
    assert quick.counts == plain.counts
    assert list(quick.events) == list(plain.events)
    assert quick.loading is None and not quick.main.is_preview
    newest(path, file.kind, 5)


@SLOW
@given(files, st.integers(0, 2**32))
def test_the_newest_rows_do_not_depend_on_the_blocks(tmp_path_factory, file, seed):
    path = tmp_path_factory.mktemp("blocks") / NAMES[file.kind]
    path.write_bytes(file.data)
    whole = rows_of(followed(path, file.kind, has_preview=False).main.stream)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tail, "FIRST_BLOCK", random.Random(seed).choice([60, 999, 4_096, 50_000]))
        shown = rows_of(newest(path, file.kind, 8).main.stream)
    assert max(shown, default=None) == (max(whole) if len(whole) > 3 or shown else None)


def recorded_files():
    """Every fixture of these formats that holds rows, and every other recorded file."""
    root = runs_root()
    names = ("*.wandb", "*tfevents*", "*.csv", "*.log", "*.jsonl")
    places = [folder("fixtures"), *([root] if root is not None else [])]
    fixtures, *recorded = (
        sorted({path for name in names for path in place.rglob(name) if path.is_file()}) for place in places
    )
    paths = fixtures + [path for found in recorded for path in found[:: 1 if EXPLORES else 8]]
    return [pytest.param(path, id=f"{path.parent.name}/{path.name}") for path in paths]


@pytest.mark.parametrize("path", recorded_files())
def test_a_recorded_file_is_the_same_run_with_and_without_its_newest_rows_first(small_blocks, path):
    kind, refused = sniff(str(path))
    if kind not in NAMES or refused:
        return
    plain, quick = (followed(path, kind, has_preview=has_preview) for has_preview in (False, True))
    assert contents(quick.main.stream) == contents(plain.main.stream)
    assert list(quick.events) == list(plain.events)
    first = newest(path, kind, 32)
    assert first.main.stream.last_step in (plain.main.stream.last_step, None)


class Pieces:
    """A budget that is spent after some pieces."""

    def __init__(self, pieces: int) -> None:
        self.left = pieces

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0


@pytest.fixture
def small_pieces(monkeypatch):
    """Files of a few kilobytes are decoded in as many slices as large ones."""
    monkeypatch.setattr(pipeline_module, "MOST_BYTES", 2_048)
    monkeypatch.setattr(pipeline_module, "FEWEST_BYTES", 256)
    monkeypatch.setattr(pipeline_module, "TAKE_BYTES", 3_000)


@SLOW
@given(files, st.floats(0.3, 1), st.integers(0, 2**32))
def test_a_file_that_grows_while_its_history_is_read(small_blocks, small_pieces, tmp_path_factory, file, share, seed):
    rng = random.Random(seed)
    path = tmp_path_factory.mktemp("growing") / NAMES[file.kind]
    written = round(share * len(file.data))
    path.write_bytes(file.data[:written])
    clock = FakeClock()
    run = Session([found_at(path, file.kind)], lambda each, last: DirectFeed(each, clock=clock, last=last), clock).runs[
        0
    ]
    seen: list[int] = []
    while True:
        if written < len(file.data) and rng.random() < 0.4:
            stop = min(len(file.data), written + rng.choice([1, 30, 400, 3_000]))
            with path.open("ab") as out:
                out.write(file.data[written:stop])
            written = stop
        has_moved = run.advance(Pieces(rng.randint(1, 6)))
        clock.advance(rng.choice([0.0, 0.0, 0.05, 0.3]))
        if not run.main.is_opening and run.main.stream.last_step is not None:
            seen.append(run.main.stream.last_step)
        if not has_moved and written == len(file.data) and run.loading is None:
            break
    clock.advance(1.0)
    while run.advance(Pieces(5)):
        pass
    whole = followed(path, file.kind, has_preview=False)
    assert rows_of(run.main.stream) == rows_of(whole.main.stream)
    counts = run.counts
    # A row of several events that is shown as far as it goes is counted again when its rest comes.
    counts.rows = whole.counts.rows if file.kind is TENSORBOARD else counts.rows
    assert counts == whole.counts
    # The newest step never goes back, nor is any other shown than one that the file has.
    assert [*seen, run.main.stream.last_step] == sorted([*seen, run.main.stream.last_step])
    assert set(seen) <= rows_of(whole.main.stream).keys()


@pytest.mark.parametrize("kind", [JSONL, CSV])
def test_no_older_step_is_shown_while_the_last_rows_are_decoded(small_blocks, small_pieces, tmp_path, kind):
    path = tmp_path / NAMES[kind]
    lines = [json.dumps({"step": step, "loss": 0.5, "reward": 1.5}) for step in range(1, 1_001)]
    if kind is CSV:
        lines = ["step,loss,reward", *(f"{step},0.5,{'1' * 40}" for step in range(1, 1_001))]
    path.write_text("".join(f"{line}\n" for line in lines))
    clock = FakeClock()
    run = Session([found_at(path, kind)], lambda each, last: DirectFeed(each, clock=clock, last=last), clock).runs[0]
    seen = set()
    while run.advance(Pieces(1)):
        clock.advance(0.01)
        if not run.main.is_opening and run.main.stream.last_step is not None:
            seen.add(run.main.stream.last_step)
    assert seen == {1_000}
