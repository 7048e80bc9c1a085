"""The words that narrow the list of runs down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st
from tables import each_row

from rltop.pages.runs import TEXTS, read_query


class Run:
    """A run that is asked, without a file."""

    def __init__(self, told: Mapping[str, Sequence[str]], numbers: Mapping[str, float], words: str) -> None:
        self.told = {name: told.get(name, ()) for name in TEXTS}
        self._numbers, self.words = numbers, words

    def number(self, name: str) -> float | None:
        return self._numbers.get(name)

    def settings(self, name: str) -> Sequence[str]:
        return ["grpo"] if name == "adv_estimator" else []


RUN = Run(
    {"state": ["live"], "rule": ["O11", "P1"], "name": ["grpo_lr5"], "level": ["crit"]},
    {"reward": 0.7, "actor/lr": 1e-6, "tok": 1200.0},
    "grpo_lr5 /data/grpo_lr5/metrics.jsonl verl grpo live kl to reference",
)


@each_row(
    ("text", "holds"),
    [
        ("", True),
        ("grpo", True),
        ("grpo kl", True),
        ("grpo ppo", False),
        ("-ppo", True),
        ("-grpo", False),
        ("reward>0.5", True),
        ("reward>=0.7 reward<=0.7 reward=0.7", True),
        ("reward>70%", False),
        ("reward<0.5", False),
        ("reward!=0.5", True),
        ("-reward>0.5", False),
        ("tok>1k", True),
        ("tok>1.3k", False),
        ("actor/lr<1e-5", True),
        ("nothing>0", False),
        ("state:live", True),
        ("state:liv", True),
        ("state=lost", False),
        ("state!=stuck", True),
        ("rule:O11", True),
        ("rule=o11", True),
        ("rule=O1", False),
        ("rule:E1", False),
        ('"kl to" level:crit', True),
        ("/data/grpo_lr5", True),
        ("adv_estimator=grpo", True),
        ("adv_estimator=ppo", False),
        ("adv_estimator!=ppo", True),
        ("adv_estimator:gr", True),
        ("no_such=grpo", False),
        ("no_such!=grpo", False),
        ("12:30", False),
    ],
)
def test_a_query_holds_or_does_not(text: str, holds: bool) -> None:
    query = read_query(text)
    assert not query.trouble
    assert query.holds(RUN) is holds


@each_row(
    ("text", "names"),
    [("reward>", "wants a value"), ("reward>high", "high is not a number"), ("state>live", "state:live")],
)
def test_what_is_not_understood_is_named_and_leaves_the_rest(text: str, names: str) -> None:
    query = read_query(f"grpo {text}")
    assert names in query.trouble
    assert query.holds(RUN)


@each_row("text", ["state:banana", "level=cri", "worst!=bad", "-state:banana"])
def test_a_state_or_level_that_none_can_be_is_named_with_those_that_are(text: str) -> None:
    trouble = read_query(text).trouble
    assert trouble.startswith("no ") and ("live" in trouble or "warn" in trouble)
    assert not read_query("state:liv level:crit worst=ok").trouble


@given(st.text())
def test_whatever_is_typed_is_answered(text: str) -> None:
    query = read_query(text)
    assert query.holds(RUN) in (True, False)


@given(st.sampled_from(sorted(TEXTS)), st.from_regex(r"[a-z0-9_]{1,12}", fullmatch=True))
def test_a_text_and_its_opposite_never_both_hold(name: str, value: str) -> None:
    query = read_query(f"{name}:{value}")
    assert query.holds(RUN) is not read_query(f"-{name}:{value}").holds(RUN)
