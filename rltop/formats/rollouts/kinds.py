"""Selects the reader of a rollout dump, by its name and its first bytes."""

from __future__ import annotations

from pathlib import Path

from rltop.errors import SourceError
from rltop.files import open_regular
from rltop.formats.parquet import MAGIC as PARQUET
from rltop.formats.rollouts.archives import Archives
from rltop.formats.rollouts.files import EpisodeFiles, StepFiles, holds_episodes, is_by_step, numbered
from rltop.formats.rollouts.lines import LinesDump, parsed
from rltop.formats.rollouts.rows import has_answer, step_of_row
from rltop.formats.rollouts.sqlite import ExperienceBuffer
from rltop.model.completions import RolloutSource
from rltop.model.table_rows import SQLITE_MAGIC as SQLITE

MAX_SHARDS = 64
_HEAD_BYTES = 256 * 1024
_LINES = (".jsonl", ".ndjson", ".json")
_VALIDATION = "val_data_step"
_DATABASES = (".db", ".sqlite", ".sqlite3")


def dumps_in(path: str) -> list[RolloutSource]:
    """The dumps that a path means: a file, or a folder of files.

    Raises:
        SourceError: there is nothing in it that can be read as rollouts, and why.
        OSError: it cannot be looked at.
    """
    where = Path(path)
    if where.is_dir():
        return _in_folder(where)
    with open_regular(where) as file:
        head = file.read(16)
    if head.startswith(SQLITE):
        return [ExperienceBuffer(path)]
    if head.startswith(PARQUET):
        return [_one_table(where)]
    if head.startswith((b"PK\x03\x04", b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
        raise SourceError(
            f"{path} is compressed", "decompress it; for Telescope's archives name the folder that contains steps/"
        )
    return [LinesDump(path)]


def _one_table(where: Path) -> RolloutSource:
    for (kind, prefix), names in numbered(str(where.parent)).items():
        if kind == "parquet" and where.name in names.values():
            return StepFiles(str(where.parent), kind, prefix)
    raise SourceError(f"{where} has no step in its name", "expected completions_<step>.parquet")


def _in_folder(folder: Path) -> list[RolloutSource]:
    if any(folder.glob("steps/*.zip")):
        return [Archives(str(folder))]
    if folder.name == "steps" and any(folder.glob("*.zip")):
        return [Archives(str(folder.parent))]
    if holds_episodes(folder):
        return [EpisodeFiles(str(folder))]
    by_step = [
        StepFiles(str(folder), kind, prefix)
        for (kind, prefix), names in sorted(numbered(str(folder)).items())
        if is_by_step(str(folder), names, kind)
    ]
    if by_step:
        # NeMo-RL: val_data_step<N>.jsonl lies beside train_data_step<N>.jsonl, and is no part of the training.
        return [each for each in by_step if each.prefix != _VALIDATION] or [*by_step]
    files = sorted(each for each in folder.iterdir() if each.is_file())
    found: list[RolloutSource] = [ExperienceBuffer(str(each)) for each in files if each.suffix in _DATABASES]
    lines = [each for each in files if each.suffix in _LINES and holds_answers(each)]
    found += [LinesDump(str(each)) for each in lines[:MAX_SHARDS]]
    if not found:
        raise SourceError(
            f"no rollouts found in {folder}",
            "name the file, or the folder with <step>.jsonl or completions_<step>.parquet",
        )
    return found


def holds_answers(path: Path) -> bool:
    """Does a file that nobody named hold completions, step by step? Of lines the first is asked; others tell later."""
    if path.suffix not in _LINES:
        return True
    try:
        with open_regular(path) as file:
            row = parsed(file.read(_HEAD_BYTES).split(b"\n", 1)[0])
    except OSError:
        return False
    return row is not None and step_of_row(row) is not None and has_answer(row)
