"""AReaL: asynchronous PPO and group methods; the statistics of a metric end in /avg, /max, /min.

`kl_rewards` is the KL term of the reward; `seq_len` includes the prompt; the stages
of a step are timed, but not the step itself.
"""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, TimingPlan, TraitEvidence, key_tables, spellings, stages
from rltop.model import Algorithm

_CRITIC = ("ppo_critic/*", "timeperf/critic_train_step")
_UPDATE = "ppo_actor/update"


_ALWAYS_ONE = "It is 1 in every row that has it: the mean over rollouts of which each counts one."
_LONGEST = (
    "Counts completions as long as the longest of their batch as unended: one of them always is, whatever the limit."
)


DIALECT = Dialect(
    name="AReaL",
    fingerprints=(
        Fingerprint(Algorithm.PPO, all_of=("ppo_actor/*",), any_of=_CRITIC, weight=39),
        Fingerprint(Algorithm.GRPO, all_of=("ppo_actor/*",), none_of=_CRITIC, weight=38),
        Fingerprint(Algorithm.GRPO, all_of=("grpo_actor/*", "timeperf/*"), weight=38),
        Fingerprint(Algorithm.DPO, any_of=("dpo/reward_accuracy/avg",), weight=37),
        Fingerprint(Algorithm.REWARD, any_of=("rw/correct_ratio/avg",), weight=37),
        Fingerprint(Algorithm.SFT, all_of=("sft/loss/avg", "sft/lr"), weight=37),
        Fingerprint(Algorithm.UNKNOWN, any_of=("timeperf/*",), weight=26),
    ),
    aliases=spellings(key_tables(__file__)["keys"]),
    timing=TimingPlan(
        stages=(
            *stages("timeperf/{}", "rollout", "critic_values", "recompute_logp", "ref_logp", "compute_advantage"),
            *stages("timeperf/{}", "train_step", "critic_train_step", "update_weights"),
            *stages("timeperf/{}", "save", "eval", is_outside=True),
        ),
        namespace=("timeperf/",),
    ),
    training_keys=("ppo_actor/*", "grpo_actor/*", "dpo/*", "rw/*", "sft/*", "timeperf/train_step"),
    traits=(
        TraitEvidence("has_critic", _CRITIC),
        TraitEvidence(
            "is_async",
            (f"{_UPDATE}/version_stats/*", f"{_UPDATE}/behave_approx_kl/avg", "grpo_actor/behave_approx_kl/avg"),
        ),
    ),
    group_size_keys=("n_samples", "group_size"),
    wait_keys=("timeperf/rollout",),
    staleness_bounds=("max_head_offpolicyness",),
    gpus=(("cluster.n_nodes", "cluster.n_gpus_per_node"),),
    misleading=(
        ("rollout/accepted", _ALWAYS_ONE),
        ("rollout/rejected", _ALWAYS_ONE),
        ("ppo_actor/no_eos_ratios/avg", _LONGEST),
        ("grpo_actor/no_eos_ratios/avg", _LONGEST),
    ),
)
