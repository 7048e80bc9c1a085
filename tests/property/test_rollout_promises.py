"""Whatever stands in a dump of rollouts: nothing raises, and what can be read is read."""

from __future__ import annotations

import tempfile
from pathlib import Path

from examples import examples
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from rollout_dumps import lines_of, plain_rows, write_sqlite, write_trl, write_verl
from tables import each_row
from telescope_run import TelescopeRun

from rltop.run.rollouts import RolloutShelf

STEPS = [1, 2]


def _written(make: object) -> dict[str, bytes]:
    """Every file that a writer leaves in a folder, by its path there."""
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))  # type: ignore[operator]
        return {str(one.relative_to(folder)): one.read_bytes() for one in Path(folder).rglob("*") if one.is_file()}


DUMPS = [
    {"rollouts.jsonl": lines_of(plain_rows(STEPS))},
    _written(lambda folder: write_verl(folder, STEPS, has_uid=True)),
    _written(lambda folder: write_verl(folder, STEPS, has_uid=False)),
    _written(lambda folder: write_trl(folder, STEPS)),
    _written(lambda folder: write_sqlite(folder / "explorer_output.db", STEPS).close()),
    _written(lambda folder: TelescopeRun().add_steps(STEPS).write(folder)),
]


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, bytes]:
    """A dump with bytes changed, cut out, put in or put twice in each of its files."""
    found = {}
    for name, whole in draw(st.sampled_from(DUMPS)).items():
        data = whole
        for _ in range(draw(st.integers(0, 3))):
            start = draw(st.integers(0, len(data)))
            stop = min(len(data), start + draw(st.integers(0, 40)))
            data = data[:start] + draw(st.one_of(st.binary(max_size=20), st.just(data[start:stop] * 2))) + data[stop:]
        found[name] = data
    return found


def _read_all(folder: Path, dump: dict[str, bytes]) -> set[int]:
    """Read everything that a page could ask for; the steps that had any completions."""
    for name, data in dump.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    run = folder / "metrics.jsonl"
    run.write_text('{"step": 1, "loss": 1.0}\n')
    given = folder / next(iter(dump)) if len(dump) == 1 else folder
    shelf = RolloutShelf(str(run), str(given), lambda: None)
    found = set()
    for step in STEPS:
        shelved = shelf.settle(step)
        for completion in () if shelved is None else shelved.rollouts.completions:
            found.add(shelved.rollouts.step)
            shelf.text(completion)
    shelf.close()
    return found


@each_row("dump", DUMPS, ids=lambda dump: next(iter(dump)))
def test_a_whole_dump_gives_its_steps(dump: dict[str, bytes], tmp_path: Path) -> None:
    assert _read_all(tmp_path, dump) == set(STEPS)


@examples(60, suppress_health_check=list(HealthCheck))
@given(damaged())
def test_a_damaged_dump_raises_nothing(dump: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _read_all(Path(folder), dump)
