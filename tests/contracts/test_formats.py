"""No format without a fuzz target and without a case: a new row in `KINDS` needs both."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tables import each_row

from rltop.formats import kinds as kinds_module
from rltop.formats.decoder import Decoder, DecoderOptions
from rltop.formats.kinds import HEAD_BYTES, KINDS, Kind, kind_of
from rltop.model.table_rows import may_be_database
from rltop.run.discover import discover

ROOT = Path(__file__).resolve().parents[2]
FUZZ = runpy.run_path(str(ROOT / "bench" / "fuzz_target.py"))
LAZY = runpy.run_path(str(Path(__file__).with_name("test_lazy_imports.py")))
TARGETS = [name for name in FUZZ["PROMISES"] if name != "anything"]
"""`anything` reaches every decoder by way of detection, but is not about one of them."""


def decoder_class(kind: Kind) -> type[Decoder]:
    return type(kind.make(DecoderOptions()))


def is_fed(cls: type[Decoder], call: Callable[[], object]) -> bool:
    """Does `call` give bytes to a decoder of this class?"""
    fed: list[bool] = []
    with pytest.MonkeyPatch.context() as patch:
        plain: Any = cls.feed

        def feed(self: Any, *args: Any) -> Any:
            fed.append(True)
            return plain(self, *args)

        patch.setattr(cls, "feed", feed)
        call()
    return bool(fed)


def cases() -> list[tuple[str, bytes]]:
    """Name and first bytes of the file of each row of `FORMATS`."""
    found = []
    for name, (place, _) in LAZY["FORMATS"].items():
        path = ROOT / "fixtures" / place
        paths = sorted(path.glob("*")) if path.is_dir() else [path]
        heads = [LAZY["MADE"][name]] if name in LAZY["MADE"] else [each.read_bytes() for each in paths]
        found += [(each.name, head[:HEAD_BYTES]) for each, head in zip(paths, heads, strict=True)]
    return found


@each_row("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_a_format_has_a_fuzz_target_with_a_seed_of_its_own(kind: Kind) -> None:
    """The target feeds the decoder of the format, and one of its seeds is recognised as this format."""
    cls = decoder_class(kind)
    for name in TARGETS:
        own = [seed for seed in FUZZ["seeds"](name) if kind_of(seed[:HEAD_BYTES], "x", is_all=True) is kind]
        if own and is_fed(cls, lambda name=name, own=own: FUZZ["PROMISES"][name](min(own, key=len))):
            return
    seed = "a seed that is recognised without its file's name"
    pytest.fail(f"{kind.name}: no target in bench/fuzz_target.py feeds {cls.__name__} {seed}")


@each_row("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_a_format_has_a_case(kind: Kind) -> None:
    """A row in `FORMATS` of test_lazy_imports.py, whose file is recognised as this format."""
    assert any(kind_of(head, name, is_all=True) is kind for name, head in cases()), (
        f"{kind.name}: no row in FORMATS of test_lazy_imports.py"
    )


def test_a_copy_in_a_checkpoint_is_no_run_in_any_format(tmp_path: Path) -> None:
    for name, (place, _) in LAZY["FORMATS"].items():
        path = ROOT / "fixtures" / place
        if path.is_dir() or may_be_database(str(path)):
            continue  # a run of Telescope is a folder; a database is read run by run
        data = LAZY["MADE"][name] if name in LAZY["MADE"] else path.read_bytes()
        run = tmp_path / name
        for folder in (run, run / "checkpoint-20"):
            folder.mkdir()
            (folder / path.name).write_bytes(data)
        found = discover([str(run)])
        assert [(each.path, each.earlier) for each in found.found] == [(str(run / path.name), ())], name
        assert [skipped for skipped, _ in found.passed_over] == [str(run / "checkpoint-20" / path.name)], name


NAMED = {"JSONL", "CONSOLE", "TABLES"}
"""The default, the log of the job, and the databases that are read run by run."""


def test_what_the_program_asks_of_a_format_is_a_field_of_its_row() -> None:
    """Outside of `formats/` no kind is named, where a new one would be forgotten; `run/sniff.py` tells text apart."""
    kinds = {name for name, value in vars(kinds_module).items() if isinstance(value, Kind)}
    for path in (ROOT / "rltop").rglob("*.py"):
        if path.parent.name == "formats" or "formats" in path.parent.parts:
            continue
        allowed = NAMED | {"sniff.py": {"CSV", "WHOLE_JSON"}, "where.py": {"TRACE"}}.get(path.name, set())
        imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
        named = {one.name for node in imports if node.module == "rltop.formats.kinds" for one in node.names}
        assert named & kinds <= allowed, f"{path.name}: make it a field of `Kind`"
