from pathlib import Path

from rltop.catalog import metrics
from rltop.catalog.metrics import CATALOG, text_of
from rltop.catalog.row_sets import ROW_SETS
from rltop.model import Algorithm, Traits
from rltop.resources import read_toml
from rltop.trainers import ALL


def test_every_entry_is_filed_under_its_own_name() -> None:
    assert all(name == metric.name for name, metric in CATALOG.items())
    assert len(CATALOG) >= 90


def test_titles_fit_their_column_and_help_is_two_sentences() -> None:
    for metric in CATALOG.values():
        assert 0 < len(metric.title) <= 18, metric.name
        text = text_of(metric).help
        assert text.endswith(".") and text.count(". ") == 1, (
            f"help of {metric.name}: two sentences, each with its point"
        )


def test_titles_are_distinct_within_a_section() -> None:
    seen = [(metric.section, metric.title) for metric in CATALOG.values()]
    assert len(seen) == len(set(seen))


def test_related_metrics_exist_and_are_others() -> None:
    for metric in CATALOG.values():
        assert all(name in CATALOG and name != metric.name for name in text_of(metric).related), metric.name


def test_each_section_has_the_texts_of_its_metrics_and_no_others() -> None:
    texts = {file.stem: list(read_toml(file)) for file in (Path(metrics.__file__).parent / "texts").iterdir()}
    of_sections: dict[str, list[str]] = {}
    for metric in CATALOG.values():
        of_sections.setdefault(metric.section.replace(" ", "_"), []).append(metric.name)
    assert {name: sorted(own) for name, own in texts.items()} == {
        name: sorted(own) for name, own in of_sections.items()
    }


def test_bounds_are_ordered() -> None:
    bounded = [metric for metric in CATALOG.values() if metric.low is not None and metric.high is not None]
    assert bounded
    assert all(metric.low < metric.high for metric in bounded)


def test_every_alias_names_a_metric_and_every_metric_has_a_spelling() -> None:
    aliased = {alias.metric for dialect in ALL for alias in dialect.aliases}
    assert aliased <= set(CATALOG)
    assert set(CATALOG) <= aliased


def test_trait_evidence_names_fields_of_traits() -> None:
    for dialect in ALL:
        for evidence in dialect.traits:
            assert isinstance(getattr(Traits(), evidence.trait), bool), dialect.name


def test_every_algorithm_has_rows_of_known_metrics_each_in_one_row() -> None:
    for algorithm in Algorithm:
        rows = ROW_SETS[algorithm]
        assert len(rows) >= 8
        names = [name for row in rows for name in row.metrics]
        assert len(names) == len(set(names)), algorithm
        assert set(names) <= set(CATALOG)
        assert all(name in CATALOG for row in rows for name in row.trailing_metrics)
