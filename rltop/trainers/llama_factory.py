"""LLaMA-Factory: `trainer_log.jsonl`, a small fixed set of keys for every algorithm."""

from __future__ import annotations

from rltop.catalog.dialect import Alias, Dialect, Fingerprint
from rltop.model import Algorithm

_OWN = ("percentage", "lr")
_OLD = ("percentage", "learning_rate")
"""As of 2024, where a key that an algorithm does not use is null on every row."""
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
        Fingerprint(Algorithm.UNKNOWN, envelope=("current_steps",), weight=10),
    ),
    aliases=(
        Alias("loss", "loss"),
        Alias("lr", "lr"),
        Alias("learning_rate", "lr"),
        Alias("reward", "reward_mean"),
        Alias("accuracy", "dpo_accuracy"),
        Alias("rewards/accuracies", "dpo_accuracy"),
        Alias("rewards/margins", "dpo_margin"),
        Alias("rewards/chosen", "dpo_chosen"),
        Alias("rewards/rejected", "dpo_rejected"),
        Alias("eval_loss", "val_loss"),
        Alias("predict_loss", "val_loss"),
        Alias("throughput", "throughput"),
        Alias("total_tokens", "num_tokens"),
        Alias("vram_allocated", "mem_alloc_gb"),
        Alias("vram_reserved", "mem_reserved_gb"),
        Alias("percentage", "progress", scale=0.01),
        Alias("epoch", "epoch"),
        Alias("total_steps", "total_steps"),
        Alias("elapsed_time", "time_elapsed"),
        Alias("remaining_time", "eta"),
    ),
    hidden=("percentage", "epoch", "total_steps", "elapsed_time", "remaining_time"),
    training_keys=("loss", "lr", "learning_rate", "reward"),
)
