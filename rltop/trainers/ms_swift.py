"""ms-swift: TRL's keys with speed and memory of its own beside them."""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, spellings
from rltop.structs import replace
from rltop.trainers import transformers, trl

_OWN_KEYS = ("train_speed(*", "memory(GiB)")

DIALECT: Dialect = replace(
    trl.DIALECT,
    name="ms-swift",
    fingerprints=tuple(
        known._replace(weight=known.weight + 20, all_of=(*known.all_of, own))
        for own in _OWN_KEYS
        for known in (*trl.FINGERPRINTS, *transformers.FINGERPRINTS)
    ),
    aliases=(
        *trl.DIALECT.aliases,
        *spellings("""
            time_step | train_speed(s/it)
            mem_peak_gb | memory(GiB)
            mfu | MFU
            token_accuracy | acc
            val_acc | eval_acc
            kl_teacher | teacher_kl
            num_turns_mean | num_turns
            off_policy_kl | rollout_correction/k3_kl | rollout_correction/kl
            is_ratio_mean | rollout_correction/is_weight_mean
            is_ess | rollout_correction/ess
            is_clip_frac | rollout_correction/clipped_frac
        """),
    ),
    hidden=(*trl.DIALECT.hidden, "elapsed_time", "remaining_time"),
)
