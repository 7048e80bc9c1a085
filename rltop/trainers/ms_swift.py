"""ms-swift: TRL's keys with speed and memory of its own beside them."""

from __future__ import annotations

from rltop.catalog.dialect import Alias, Dialect
from rltop.structs import replace
from rltop.trainers import transformers, trl

_STEP_KEYS = ("global_step/max_steps", "iteration")
_OWN_KEYS = ("train_speed(*", "memory(GiB)")
_FINGERPRINTS = (*trl.FINGERPRINTS, *transformers.FINGERPRINTS)

DIALECT: Dialect = replace(
    trl.DIALECT,
    name="ms-swift",
    fingerprints=(
        *(known._replace(weight=known.weight + 20, envelope=_STEP_KEYS) for known in _FINGERPRINTS),
        *(
            known._replace(weight=known.weight + 20, all_of=(*known.all_of, own))
            for own in _OWN_KEYS
            for known in _FINGERPRINTS
        ),
    ),
    aliases=(
        *trl.DIALECT.aliases,
        Alias("train_speed(s/it)", "time_step"),
        Alias("memory(GiB)", "mem_peak_gb"),
        Alias("MFU", "mfu"),
        Alias("acc", "token_accuracy"),
        Alias("eval_acc", "val_acc"),
        Alias("teacher_kl", "kl_teacher"),
        Alias("num_turns", "num_turns_mean"),
        Alias("rollout_correction/k3_kl", "off_policy_kl"),
        Alias("rollout_correction/kl", "off_policy_kl"),
        Alias("rollout_correction/is_weight_mean", "is_ratio_mean"),
        Alias("rollout_correction/ess", "is_ess"),
        Alias("rollout_correction/clipped_frac", "is_clip_frac"),
    ),
    hidden=(*trl.DIALECT.hidden, "elapsed_time", "remaining_time"),
)
