"""Expressions that are compiled late: all are what they claim, and behave as compiled ones."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

import rltop
from rltop.regex import regex


def test_every_expression_of_the_program_compiles() -> None:
    found = 0
    for module in pkgutil.walk_packages(rltop.__path__, "rltop."):
        if module.name.endswith("__main__"):
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if type(value) is type(regex("")):
                assert isinstance(value.flags, int)
                found += 1
    assert found > 100


def test_a_late_expression_finds_what_a_compiled_one_finds() -> None:
    late, compiled = regex(r"(?P<key>\w+)=(\d+)", re.IGNORECASE), re.compile(r"(?P<key>\w+)=(\d+)", re.IGNORECASE)
    for _ in range(2):
        assert late.findall("a=1 B=2") == compiled.findall("a=1 B=2")
    assert (late.pattern, late.groups, late.groupindex) == (compiled.pattern, 2, compiled.groupindex)
    assert regex(rb"\d").search(b"a1") is not None


def test_what_is_no_expression_says_so_at_its_first_use() -> None:
    wrong = regex("(")
    with pytest.raises(re.error):
        wrong.match("")
