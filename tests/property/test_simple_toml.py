"""Themes are read without `tomllib`: what is read so is what `tomllib` reads, and anything else is left to it."""

from __future__ import annotations

import tomllib

from hypothesis import example, given
from hypothesis import strategies as st
from tables import each_row

from rltop import resources
from tests.examples import examples

THEMES = {
    path.name: path.read_text(encoding="utf-8") for path in resources.toml_files(resources.folder("themes")).values()
}


@each_row("name", sorted(THEMES))
def test_a_theme_needs_no_tomllib(name: str) -> None:
    assert resources.simple_toml(THEMES[name]) == tomllib.loads(THEMES[name])


_PIECES = st.sampled_from((
    "", "#", "# x", "[a]", "[b]", "[a.b]", "[[a]]", "a", "b", '"a"', "-", " = ", "=", ' = "x"', " = 'x'", "true", "1",
    " ", "\t", "\n", "\r", "{ ", " }", ", ", '"', "\\", '{ a = "x", b = true }', "{ a = true, a = false }", "é",
    "\x00", "\x7f", "\u2028", "{ }", "{  }", '"""',
))  # fmt: skip


@examples(200)
@given(st.lists(_PIECES, max_size=14).map("".join))
@example('a = "x"\n[a]\nb = true\n')
@example('[a]\nb = "x"\n[a]\n')
@example('[a]\n[b]\na = "x" # why\n')
def test_what_is_read_simply_is_what_tomllib_reads(text: str) -> None:
    simple = resources.simple_toml(text)
    if simple is not None:
        assert simple == tomllib.loads(text)


@examples(200)
@given(st.data())
def test_a_damaged_theme_is_read_as_tomllib_reads_it(data: st.DataObject) -> None:
    text = THEMES[data.draw(st.sampled_from(sorted(THEMES)))]
    place = data.draw(st.integers(0, len(text)))
    text = text[:place] + data.draw(_PIECES) + text[place + data.draw(st.integers(0, 3)) :]
    simple = resources.simple_toml(text)
    if simple is not None:
        assert simple == tomllib.loads(text)
