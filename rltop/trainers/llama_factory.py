"""LLaMA-Factory: `trainer_log.jsonl`, a small fixed set of keys for every algorithm."""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, key_tables, spellings
from rltop.model import Algorithm

_OWN = ("percentage", "lr")
_OLD = ("percentage", "learning_rate")
"""Keys of 2024 versions, in which a key that the algorithm does not use is null on every row."""
_PAIRS = ("rewards/accuracies", "rewards/margins", "rewards/chosen")

DIALECT = Dialect(
    name="LLaMA-Factory",
    fingerprints=(
        Fingerprint(Algorithm.PPO, all_of=(*_OWN, "reward"), weight=32),
        Fingerprint(Algorithm.DPO, all_of=(*_OWN, "accuracy"), weight=31),
        Fingerprint(Algorithm.SFT, all_of=(*_OWN, "loss"), none_of=("accuracy", "reward"), weight=30),
        Fingerprint(Algorithm.DPO, all_of=("percentage",), any_of=_PAIRS, weight=33),
        Fingerprint(Algorithm.PPO, all_of=(*_OLD, "reward"), weight=32),
        Fingerprint(Algorithm.DPO, all_of=(*_OLD, "accuracy"), weight=31),
        Fingerprint(Algorithm.SFT, all_of=(*_OLD, "loss"), none_of=("accuracy", "reward"), weight=30),
        Fingerprint(Algorithm.UNKNOWN, all_of=("percentage", "total_steps"), weight=10),
    ),
    aliases=spellings(key_tables(__file__)["keys"]),
    hidden=("percentage", "epoch", "total_steps", "elapsed_time", "remaining_time"),
    training_keys=("loss", "lr", "learning_rate", "reward"),
)
