"""prime-rl: a trainer and an orchestrator that write to the same file.

Both log `time/step`; the other keys of a row show which of the two it belongs to.
They run concurrently, so the orchestrator's stages have their own lane.
"""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, TimingPlan, TraitEvidence, key_tables, spellings, stages
from rltop.model import Algorithm

_OWN = (
    "mismatch_kl/*",
    "train/agg/*",
    "time/wait_for_batch",
    "time/wait_for_policy",
    "kl_ent_ratio/mean",
    "is_masked/mean",
    "masked_advantage_positive/mean",
    "off_policy/in_flight/*",
    "dispatcher/inflight/*",
)


_ORCHESTRATOR = stages(
    "time/{}",
    *(
        "wait_for_policy",
        "wait_for_ckpt",
        "wait_for_weight_ckpt",
        "update_weights",
        "generate_completions",
        "teacher_logprobs",
        "parallel_preprocess",
        "pack",
    ),
    lane=1,
)

DIALECT = Dialect(
    name="prime-rl",
    fingerprints=(
        Fingerprint(Algorithm.GRPO, any_of=_OWN, weight=28),
        Fingerprint(Algorithm.GRPO, all_of=("Loss", "Mismatch KL"), weight=24),
        Fingerprint(Algorithm.GRPO, all_of=("Reward", "Max Off-Policy"), weight=24),
        Fingerprint(Algorithm.GRPO, all_of=("Reward", "Seq. Length"), weight=24),
        Fingerprint(Algorithm.SFT, all_of=("loss/perplexity", "optim/lr", "time/forward_backward"), weight=26),
    ),
    aliases=spellings(key_tables(__file__)["keys"]),
    timing=TimingPlan(
        step_keys=("time/step",),
        stages=(
            *stages("time/{}", "broadcast_weights", "save_ckpt", "wait_for_batch", "load_data", "forward_backward"),
            *stages("time/{}", "save_weights", "compute_logprobs"),
            *(stage._replace(name=f"orchestrator: {stage.name}") for stage in _ORCHESTRATOR),
        ),
        namespace=("time/",),
    ),
    hidden=("progress/*",),
    staleness_bounds=("max_off_policy_steps",),
    gpus=(("num_train_gpus",), ("num_infer_gpus",)),
    training_keys=("optim/*", "loss/*", "time/forward_backward", "time/pack"),
    traits=(
        TraitEvidence("is_async", ("off_policy/*", "dispatcher/*", "time/wait_for_batch", "batch/off_policy_level/*")),
    ),
)
