"""What the policy generates: lengths, agents, and how fresh and faithful the samples are."""

from __future__ import annotations

from functools import partial

from rltop.catalog.entry import DOWN, NONE, TARGET, UP, entry, fraction
from rltop.model import Unit

_length = partial(entry, section="length", unit=Unit.TOKENS, low=0.0)
_agent = partial(entry, section="agent", unit=Unit.COUNT, low=0.0)
_match = partial(entry, section="mismatch", unit=Unit.NONE)
_stale = partial(entry, section="staleness", unit=Unit.COUNT, low=0.0)

ENTRIES = (
    _length(
        name="response_len_mean", title="response length", direction=NONE,
        related="response_len_max truncated_frac reward_mean time_gen",
        help_text="Mean number of generated tokens per answer, without aborted ones where the trainer counts them. "
        "Doubling or halving within a few steps usually goes with reward hacking or a policy that cannot stop.",
    ),
    _length(
        name="response_len_max", title="longest response", direction=NONE,
        related="response_len_mean truncated_frac group_len_ratio",
        help_text="Length of the longest answer in the step. "
        "It equals the limit on most steps of healthy runs, so it is no alarm by itself.",
    ),
    _length(
        name="response_len_min", title="shortest response", direction=NONE, related="response_len_mean aborted_frac",
        help_text="Length of the shortest answer in the step. "
        "Zero usually means aborted answers.",
    ),
    _length(
        name="response_len_std", title="length spread", direction=NONE, related="response_len_mean group_len_ratio",
        help_text="Standard deviation of the answer lengths in the step. "
        "Batches wait for their longest member, so a growing spread costs time.",
    ),
    _length(
        name="response_len_p90", title="length, 90 %", direction=NONE, related="response_len_mean response_len_max",
        help_text="Nine of ten answers are shorter than this. "
        "Unlike the maximum it moves before the limit is reached.",
    ),
    _length(
        name="terminated_len_mean", title="ended length", direction=NONE, related="response_len_mean truncated_frac",
        help_text="Mean length of the answers that ended by themselves. "
        "Zero means that none did, not that they are empty.",
    ),
    fraction(
        "truncated_frac", "truncated", "length", DOWN,
        "Share of answers cut off at the length limit. "
        "They are mostly scored as failures, so the reward then measures the limit.",
        "response_len_mean response_len_max reward_mean entropy",
    ),
    fraction(
        "aborted_frac", "aborted", "length", DOWN,
        "Share of answers that failed or were aborted before they said anything. "
        "Look at the inference server, at the tools and at the context limit.",
        "response_len_min aborted_count tool_failure_frac",
    ),
    entry(
        "aborted_count", "rollout errors", "length", Unit.COUNT, DOWN,
        "Number of rollouts that ended in an error. "
        "They are lost time at best and biased samples at worst.",
        "aborted_frac tool_failure_frac", 0.0,
    ),
    _length(
        name="prompt_len_mean", title="prompt length", direction=NONE, related="prompt_clip_frac total_len_mean",
        help_text="Mean number of tokens in the prompt or observation. "
        "A jump means other data.",
    ),
    _length(
        name="prompt_len_max", title="longest prompt", direction=NONE, related="prompt_len_mean prompt_clip_frac",
        help_text="Length of the longest prompt in the step. "
        "At the limit, prompts are being cut.",
    ),
    fraction(
        "prompt_clip_frac", "prompts cut", "length", DOWN,
        "Share of prompts cut at the length limit. "
        "A cut prompt may have lost its question.",
        "prompt_len_mean prompt_len_max",
    ),
    _length(
        name="total_len_mean", title="total length", direction=NONE, related="prompt_len_mean response_len_mean",
        help_text="Mean length of prompt and answer together. "
        "It sets the cost of training and the memory that it needs.",
    ),
    fraction(
        "repetition_frac", "repetitive", "length", DOWN,
        "Share of answers that repeat themselves. "
        "It rises before lengths do when a policy falls into loops.",
        "response_len_mean truncated_frac entropy",
    ),
    _agent(
        name="episode_len", title="episode length", direction=NONE, related="success_frac num_turns_mean",
        help_text="Mean number of environment steps of an episode. "
        "Where success ends an episode it falls as the policy learns.",
    ),
    _agent(
        name="num_turns_mean", title="turns", direction=NONE, related="num_turns_max tool_calls_mean reward_mean",
        help_text="Mean number of turns of an episode. "
        "A sudden rise means loops or tools that fail and are called again.",
    ),
    _agent(
        name="num_turns_max", title="most turns", direction=NONE, related="num_turns_mean time_gen_sample_max",
        help_text="Turns of the longest episode. "
        "At the configured limit, an episode was cut off.",
    ),
    _agent(
        name="num_turns_min", title="fewest turns", direction=NONE, related="num_turns_mean",
        help_text="Turns of the shortest episode. "
        "If it falls to one, some episodes stop using their tools.",
    ),
    _agent(
        name="tool_calls_mean", title="tool calls", direction=NONE, related="num_turns_mean tool_failure_frac",
        help_text="Mean number of tool calls per episode. "
        "Falling to zero means that the policy has learnt to do without.",
    ),
    _agent(
        name="tool_call_freq", title="tool calls/sample", direction=NONE, related="tool_failure_frac num_turns_mean",
        help_text="How often an answer calls a tool. "
        "Read it beside the failure rate.",
    ),
    fraction(
        "tool_failure_frac", "tool failures", "agent", DOWN,
        "Share of tool calls that failed. "
        "A rise is more often an overloaded sandbox than a worse policy.",
        "tool_call_freq time_tool_sample_max",
    ),
    entry(
        "off_policy_kl", "rollout mismatch", "mismatch", Unit.NATS, DOWN,
        "Difference between the log-probabilities of the inference engine and of the trainer for the same tokens. "
        "Near 0.001 is usual; a lasting climb comes before many collapses.",
        "is_ratio_mean rollout_prob_diff_mean grad_norm staleness_mean",
    ),
    entry(
        "off_policy_kl_max", "mismatch, largest", "mismatch", Unit.NATS, NONE,
        "Largest mismatch between inference engine and trainer over tokens or sequences. "
        "Single tokens may differ widely on healthy runs: watch the mean.",
        "off_policy_kl",
    ),
    _match(
        name="rollout_prob_diff_mean", title="prob. difference", direction=DOWN, low=0.0, high=1.0,
        related="off_policy_kl rollout_prob_corr",
        help_text="Mean difference of a token's probability between inference engine and trainer. "
        "Below 0.005 is ordinary, above 0.01 hints at a fault in one of the two.",
    ),
    _match(
        name="rollout_prob_diff_max", title="prob. diff., max", direction=NONE, low=0.0, high=1.0,
        related="rollout_prob_diff_mean",
        help_text="Largest difference of a token's probability between inference engine and trainer. "
        "Values near 1 occur on healthy runs.",
    ),
    _match(
        name="rollout_prob_diff_std", title="prob. diff. spread", direction=DOWN, low=0.0,
        related="rollout_prob_diff_mean",
        help_text="Spread of the difference in probability between inference engine and trainer. "
        "It grows with low precision and with stale weights.",
    ),
    _match(
        name="prob_ratio_error", title="prob. ratio error", direction=DOWN, low=0.0,
        related="off_policy_kl rollout_logp_diff_mean",
        help_text="Mean factor by which the probabilities of inference engine and trainer differ; 1 is agreement. "
        "What matters is a rising level, not a spike that returns.",
    ),
    _match(
        name="rollout_prob_corr", title="prob. correlation", direction=UP, low=-1.0, high=1.0,
        related="rollout_prob_diff_mean off_policy_kl",
        help_text="Correlation of token probabilities between inference engine and trainer. "
        "It is close to 1 unless the two see different inputs or use another temperature.",
    ),
    entry(
        "rollout_logp_diff_mean", "logp difference", "mismatch", Unit.NATS, DOWN,
        "Mean absolute difference of log-probabilities between inference engine and trainer. "
        "It is not a KL, but it rises for the same reasons.",
        "off_policy_kl is_ratio_mean", 0.0,
    ),
    entry(
        "rollout_logp_diff_max", "logp diff., max", "mismatch", Unit.NATS, NONE,
        "Largest absolute difference of log-probabilities between inference engine and trainer. "
        "It grows with the batch, so compare it only with itself.",
        "rollout_logp_diff_mean", 0.0,
    ),
    _match(
        name="is_ratio_mean", title="IS weight", direction=TARGET, low=0.0,
        related="is_ess off_policy_kl is_ratio_max",
        help_text="Mean weight that corrects for the mismatch between sampler and trainer. "
        "It belongs at 1.",
    ),
    _match(
        name="is_ratio_min", title="IS weight, min", direction=NONE, low=0.0, related="is_ratio_mean",
        help_text="Smallest correction weight of the step. "
        "Tokens with such a weight hardly count.",
    ),
    _match(
        name="is_ratio_max", title="IS weight, max", direction=NONE, low=0.0, related="is_ratio_mean is_clip_frac",
        help_text="Largest correction weight of the step. "
        "Where weights are truncated it sits at the cap.",
    ),
    _match(
        name="is_ratio_std", title="IS weight spread", direction=DOWN, low=0.0, related="is_ratio_mean is_ess",
        help_text="Spread of the correction weights. "
        "Above 1 a few tokens dominate the update.",
    ),
    fraction(
        "is_ess", "effective samples", "mismatch", UP,
        "Share of the batch that still counts after correction weights. "
        "Below one half, most of the generated tokens are wasted.",
        "is_ratio_mean is_ratio_std off_policy_kl",
    ),
    fraction(
        "is_clip_frac", "IS weights capped", "mismatch", DOWN,
        "Share of correction weights that were truncated. "
        "It tells how often the mismatch exceeds what the correction allows.",
        "is_ratio_mean is_ratio_max",
    ),
    fraction(
        "rollout_masked_frac", "tokens rejected", "mismatch", DOWN,
        "Share of tokens or sequences left out because sampler and trainer disagree. "
        "A high share saves stability at the price of data.",
        "off_policy_kl is_ratio_mean",
    ),
    fraction(
        "rollout_masked_seq_frac", "answers rejected", "mismatch", DOWN,
        "Share of whole answers left out because sampler and trainer disagree. "
        "An answer is lost for one bad token, so it runs well above the share of tokens.",
        "rollout_masked_frac off_policy_kl",
    ),
    _match(
        name="mult_prob_error", title="prob. error factor", direction=TARGET, low=1.0,
        related="off_policy_kl rollout_logp_diff_mean",
        help_text="Mean factor by which sampler and trainer differ in a token's probability, always at least 1. "
        "Up to 1.02 is rounding; single spikes are acceptable, an average that climbs is not.",
    ),
    _match(
        name="is_chi2", title="chi-square", direction=DOWN, related="off_policy_kl is_ess",
        help_text="Chi-square distance between sampler and trainer. "
        "It weighs rare large disagreements far more than the KL does.",
    ),
    _match(
        name="ppl_ratio", title="perplexity ratio", direction=TARGET, low=0.0, related="off_policy_kl is_ratio_mean",
        help_text="Perplexity of the answers under the trainer over that under the sampler. "
        "It belongs at 1.",
    ),
    _match(
        name="kl_ent_ratio", title="mismatch/entropy", direction=DOWN, related="off_policy_kl entropy",
        help_text="Mismatch divided by entropy. "
        "The same mismatch matters more to a policy that is almost certain.",
    ),
    _stale(
        name="staleness_mean", title="staleness", direction=DOWN, related="staleness_max off_policy_kl queue_size",
        help_text="Mean number of policy versions between sampling and training. "
        "Zero is on-policy; what is tolerable depends on the correction used.",
    ),
    _stale(
        name="staleness_max", title="staleness, worst", direction=DOWN, related="staleness_mean stale_count",
        help_text="Largest number of policy versions between sampling and training in the batch. "
        "At the configured limit, samples are being dropped.",
    ),
    _stale(
        name="staleness_worst_max", title="stalest token", direction=DOWN, related="staleness_max traj_span_mean",
        help_text="Age of the oldest part of any trajectory in the batch. "
        "Partial rollouts carry tokens of several policies.",
    ),
    _stale(
        name="traj_span_mean", title="versions/rollout", direction=DOWN, related="staleness_mean partial_frac",
        help_text="Mean number of policy versions that wrote one trajectory. "
        "One means that every trajectory comes from a single policy.",
    ),
    _stale(
        name="stale_count", title="stale samples", direction=DOWN, related="dropped_stale staleness_max",
        help_text="Samples that were trained on, or dropped, although their policy is old. "
        "Some trainers log it as a running total.",
    ),
    _stale(
        name="dropped_stale", title="stale dropped", direction=DOWN, related="stale_count staleness_max",
        help_text="Samples thrown away because their policy is too old. "
        "Every one of them was generated for nothing.",
    ),
    fraction(
        "partial_frac", "partial rollouts", "staleness", NONE,
        "Share of rollouts that were interrupted by a weight update and continued. "
        "They save waiting but mix policies within an answer.",
        "traj_span_mean staleness_mean",
    ),
    fraction(
        "cancelled_frac", "cancelled", "staleness", DOWN,
        "Share of rollouts that were cancelled, mostly for age. "
        "A rising share means that generation is too slow for the trainer.",
        "staleness_max aborted_frac",
    ),
    _stale(
        name="queue_size", title="queue", direction=NONE, related="trainer_idle_frac staleness_mean time_wait_data",
        help_text="Samples waiting to be trained on. "
        "Always empty: generation is the bottleneck; always full: the trainer is.",
    ),
    _stale(
        name="rollout_failures", title="failed groups", direction=DOWN, related="aborted_frac evicted_samples",
        help_text="Groups lost because a rollout failed. "
        "Look at the inference servers and the environment.",
    ),
    _stale(
        name="param_version", title="policy version", direction=UP, related="staleness_mean",
        help_text="Version of the weights that the samplers use. "
        "It should advance with the training step.",
    ),
)  # fmt: skip
