"""The highest level at which each rule is shown, given the evidence for it.

Composites and incidents see the levels that rules give their findings; only what is shown is capped here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from rltop.catalog.dialect import Identity
from rltop.model import Algorithm, Level

CLASSIC, LANGUAGE = "classic", "llm"

_OF_TEXT = frozenset(
    {Algorithm.GRPO, Algorithm.RLOO, Algorithm.DPO, Algorithm.KTO, Algorithm.REWARD, Algorithm.SFT, Algorithm.DISTILL}
)
_TEXT_METRICS = frozenset({
    "response_len_mean", "truncated_frac", "terminated_len_mean", "num_tokens", "total_tokens", "throughput", "kl_ref",
    "zero_std_frac", "reward_std", "prompt_len_mean", "dpo_accuracy",
})  # fmt: skip
_TEXT_WORDS = ("response_len", "completion", "token", "perplexity", "ppl", "chosen")


def is_of_text(identity: Identity) -> bool:
    """Whether a language model is trained, by the algorithm or by (guessed) metrics of text, references or groups."""
    if identity.algorithm in _OF_TEXT or not _TEXT_METRICS.isdisjoint([*identity.signals, *identity.guesses]):
        return True
    return any(word in key for key in identity.keys for word in _TEXT_WORDS)


def field_of(identity: Identity, profiles: Collection[str]) -> str:
    """The field whose evidence counts for a run: language models, or classic RL, which includes loops without text."""
    if CLASSIC in profiles or (identity.traits.is_generic and not is_of_text(identity)):
        return CLASSIC
    return LANGUAGE


_WARNINGS = dict.fromkeys(("C1", "H1", "L11", "M6", "M8", "O5", "O13", "T4"), Level.WARN)
_NOTES = dict.fromkeys(("C6", "O5", "O20", "U1", "E1"), Level.INFO)

HIGHEST: Mapping[str, Mapping[str, Level]] = MappingProxyType({CLASSIC: _WARNINGS | _NOTES, LANGUAGE: _WARNINGS})
"""Field → rule → the highest level that is shown there; rules not listed are not capped.

WARN: rules with a correct CRIT in no public repository, unless their CRIT ends a run by definition (`crit` in their
words). O5's only one (rookworld-rlvr) was also judged a warning: the run went on, and its loss came back each time.
INFO: rules that were wrong in at least two repositories and right in fewer than half; in classic RL, those that were
right in fewer than two, or than two thirds, and catch no synthetic fault. `evidence.csv` has the counts.
"""

NO_SIGNAL = frozenset({"R1", "R2", "R13", "X1", "X2", "G1"})
"""Rules on a lost reward, and on groups without variance."""
