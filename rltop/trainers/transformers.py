"""transformers: the Trainer that TRL, LLaMA-Factory and others build on, where it logs nothing but its own keys.

A loss, a learning rate and an epoch say that it trains, and not who called it: no trainer on top of it is claimed.
"""

from __future__ import annotations

from rltop.catalog.dialect import Alias, Dialect, Fingerprint
from rltop.model import Algorithm
from rltop.structs import replace
from rltop.trainers import trl

FINGERPRINTS = (
    Fingerprint(Algorithm.SFT, all_of=("loss", "learning_rate", "epoch"), weight=6),
    Fingerprint(Algorithm.UNKNOWN, all_of=("epoch",), any_of=("eval_loss", "eval_runtime", "train_runtime"), weight=3),
)

DIALECT: Dialect = replace(
    trl.DIALECT,
    name="transformers",
    fingerprints=FINGERPRINTS,
    aliases=(
        Alias("loss", "loss"),
        Alias("grad_norm", "grad_norm"),
        Alias("learning_rate", "lr"),
        Alias("eval_loss", "val_loss"),
        Alias("eval_*_loss", "val_loss"),
        Alias("eval_accuracy", "val_acc"),
        Alias("eval_*_accuracy", "val_acc"),
        Alias("num_input_tokens_seen", "num_tokens"),
        Alias("epoch", "epoch"),
    ),
    timing=None,
    traits=(),
    group_size_keys=(),
)
