"""What the policy generates: lengths, agents, and how faithful the samples are."""

from __future__ import annotations

from functools import partial

from rltop.catalog.entry import DOWN, NONE, TARGET, UP, entry, fraction
from rltop.model import Unit

_length = partial(entry, section="length", unit=Unit.TOKENS, low=0.0)
_agent = partial(entry, section="agent", unit=Unit.COUNT, low=0.0)
_match = partial(entry, section="mismatch", unit=Unit.NONE)

ENTRIES = (
    _length(
        name="response_len_mean", title="response length", direction=NONE,
        related="response_len_max truncated_frac reward_mean time_gen",
        help_text="Mean number of generated tokens per completion; of veRL's two keys the one without aborted "
        "completions comes first. "
        "Doubling or halving within a few steps often goes with reward hacking or a policy that no longer emits EOS.",
    ),
    _length(
        name="response_len_max", title="longest response", direction=NONE,
        related="response_len_mean truncated_frac group_len_ratio",
        help_text="Length of the longest completion in the step. "
        "It sits at the limit on most steps of healthy runs, so it is no alarm by itself.",
    ),
    _length(
        name="response_len_min", title="shortest response", direction=NONE, related="response_len_mean aborted_frac",
        help_text="Length of the shortest completion in the step. "
        "Zero usually means aborted completions.",
    ),
    _length(
        name="response_len_std", title="length std", direction=NONE, related="response_len_mean group_len_ratio",
        help_text="Standard deviation of the completion lengths in the step. "
        "Batches wait for their longest completion, so a wider spread costs time.",
    ),
    _length(
        name="response_len_p90", title="length p90", direction=NONE, related="response_len_mean response_len_max",
        help_text="90th percentile of the completion lengths in the step. "
        "Unlike the maximum it moves before the limit is reached.",
    ),
    _length(
        name="terminated_len_mean", title="finished length", direction=NONE, related="response_len_mean truncated_frac",
        help_text="Mean length of finished completions, those that emitted EOS. "
        "Zero means that none finished, not that they are empty.",
    ),
    _length(
        name="terminated_len_max", title="finished, longest", direction=NONE, related="terminated_len_mean",
        help_text="Length of the longest completion that emitted EOS. "
        "Close to the limit, the limit decides which completions finish.",
    ),
    _length(
        name="terminated_len_min", title="finished, shortest", direction=NONE, related="terminated_len_mean",
        help_text="Length of the shortest completion that emitted EOS. "
        "A few tokens: some completions are nothing but an end.",
    ),
    fraction(
        "truncated_frac", "truncated", "length", DOWN,
        "Share of completions truncated at the length limit. "
        "Most of them score as failures, so the reward then measures the limit.",
        "response_len_mean response_len_max reward_mean entropy",
    ),
    fraction(
        "aborted_frac", "aborted", "length", DOWN,
        "Share of completions that failed or were aborted. "
        "Check the inference engine, the tools and the context limit.",
        "response_len_min aborted_count tool_failure_frac",
    ),
    entry(
        "aborted_count", "rollout errors", "length", Unit.COUNT, DOWN,
        "Rollouts that ended in an error. "
        "Lost time at best, biased samples at worst.",
        "aborted_frac tool_failure_frac", 0.0,
    ),
    _length(
        name="prompt_len_mean", title="prompt length", direction=NONE, related="prompt_clip_frac total_len_mean",
        help_text="Mean number of tokens per prompt or observation. "
        "A jump means other data.",
    ),
    _length(
        name="prompt_len_max", title="longest prompt", direction=NONE, related="prompt_len_mean prompt_clip_frac",
        help_text="Length of the longest prompt in the step. "
        "At the limit, prompts are being truncated.",
    ),
    _length(
        name="prompt_len_min", title="shortest prompt", direction=NONE, related="prompt_len_mean prompt_len_max",
        help_text="Length of the shortest prompt in the step. "
        "Near zero, a prompt may have been lost.",
    ),
    _length(
        name="prompt_len_std", title="prompt length std", direction=NONE, related="prompt_len_mean prompt_len_max",
        help_text="Standard deviation of the prompt lengths in the step. "
        "A change means other data.",
    ),
    fraction(
        "prompt_clip_frac", "prompts truncated", "length", DOWN,
        "Share of prompts truncated at the length limit. "
        "A truncated prompt may have lost its question.",
        "prompt_len_mean prompt_len_max",
    ),
    _length(
        name="total_len_mean", title="total length", direction=NONE, related="prompt_len_mean response_len_mean",
        help_text="Mean length of prompt and completion together. "
        "It sets the cost of training and the memory it needs.",
    ),
    _length(
        name="total_len_max", title="longest sample", direction=NONE, related="total_len_mean response_len_max",
        help_text="Length of the longest prompt and completion together. "
        "It sets the peak of memory.",
    ),
    _length(
        name="total_len_min", title="shortest sample", direction=NONE, related="total_len_mean response_len_min",
        help_text="Length of the shortest prompt and completion together. "
        "Near zero, a sample is empty.",
    ),
    _length(
        name="total_len_std", title="total length std", direction=NONE, related="total_len_mean response_len_std",
        help_text="Standard deviation of the lengths of prompt and completion together. "
        "The wider the spread, the more padding or imbalance between ranks.",
    ),
    fraction(
        "repetition_frac", "repetitive", "length", DOWN,
        "Share of completions that repeat themselves. "
        "When a policy starts to loop, it rises before the lengths do.",
        "response_len_mean truncated_frac entropy",
    ),
    _agent(
        name="episode_len", title="episode length", direction=NONE, related="success_frac num_turns_mean",
        help_text="Mean number of environment steps per episode. "
        "Where success ends an episode, it falls as the policy learns.",
    ),
    _agent(
        name="num_turns_mean", title="turns", direction=NONE, related="num_turns_max tool_calls_mean reward_mean",
        help_text="Mean number of turns per episode. "
        "A sudden rise means loops, or tools that fail and are retried.",
    ),
    _agent(
        name="num_turns_max", title="max turns", direction=NONE, related="num_turns_mean time_gen_sample_max",
        help_text="Turns of the longest episode. "
        "At the configured limit, episodes are being truncated.",
    ),
    _agent(
        name="num_turns_min", title="min turns", direction=NONE, related="num_turns_mean",
        help_text="Turns of the shortest episode. "
        "At one, some episodes no longer use their tools.",
    ),
    _agent(
        name="tool_calls_mean", title="tool calls", direction=NONE, related="num_turns_mean tool_failure_frac",
        help_text="Mean number of tool calls per episode. "
        "At zero the policy has stopped using its tools.",
    ),
    _agent(
        name="tool_call_freq", title="tool calls/sample", direction=NONE, related="tool_failure_frac num_turns_mean",
        help_text="Tool calls per completion. "
        "Read it next to the failure rate.",
    ),
    fraction(
        "tool_failure_frac", "tool failures", "agent", DOWN,
        "Share of tool calls that failed. "
        "A rise is more often an overloaded sandbox than a worse policy.",
        "tool_call_freq time_tool_sample_max",
    ),
    entry(
        "off_policy_kl", "rollout mismatch", "mismatch", Unit.NATS, DOWN,
        "Rollout/train mismatch: KL between the policy as it sampled and as the trainer computes it, on the same "
        "tokens. "
        "Near 0.001 is normal; a lasting climb precedes many collapses.",
        "is_ratio_mean rollout_prob_diff_mean grad_norm staleness_mean",
    ),
    entry(
        "off_policy_kl_max", "max mismatch", "mismatch", Unit.NATS, NONE,
        "Largest rollout/train mismatch over tokens or sequences. "
        "Single tokens differ widely on healthy runs: watch the mean.",
        "off_policy_kl",
    ),
    _match(
        name="rollout_prob_diff_mean", title="prob diff", direction=DOWN, low=0.0, high=1.0,
        related="off_policy_kl rollout_prob_corr",
        help_text="Mean absolute difference of a token's probability between inference engine and trainer. "
        "Below 0.005 is normal; above 0.01 suspect a bug in one of the two.",
    ),
    _match(
        name="rollout_prob_diff_max", title="prob diff, max", direction=NONE, low=0.0, high=1.0,
        related="rollout_prob_diff_mean",
        help_text="Largest difference of a token's probability between inference engine and trainer. "
        "Values near 1 occur on healthy runs.",
    ),
    _match(
        name="rollout_prob_diff_std", title="prob diff, std", direction=DOWN, low=0.0,
        related="rollout_prob_diff_mean",
        help_text="Standard deviation of the difference in token probability between inference engine and trainer. "
        "It grows with low precision and with stale weights.",
    ),
    _match(
        name="prob_ratio_error", title="prob ratio error", direction=DOWN, low=0.0,
        related="off_policy_kl rollout_logp_diff_mean",
        help_text="Mean factor between the token probabilities of inference engine and trainer; 1 is agreement. "
        "A rising level matters, a spike that recovers does not.",
    ),
    _match(
        name="rollout_prob_corr", title="prob correlation", direction=UP, low=-1.0, high=1.0,
        related="rollout_prob_diff_mean off_policy_kl",
        help_text="Correlation of token probabilities between inference engine and trainer. "
        "Close to 1, unless the two see different inputs or use different temperatures.",
    ),
    entry(
        "rollout_logp_diff_mean", "logp diff", "mismatch", Unit.NATS, DOWN,
        "Mean absolute difference of log-probabilities between inference engine and trainer. "
        "It is not a KL, but rises for the same reasons.",
        "off_policy_kl is_ratio_mean", 0.0,
    ),
    entry(
        "rollout_logp_diff_max", "logp diff, max", "mismatch", Unit.NATS, NONE,
        "Largest absolute difference of log-probabilities between inference engine and trainer. "
        "It grows with the batch, so compare it only with its own history.",
        "rollout_logp_diff_mean", 0.0,
    ),
    _match(
        name="is_ratio_mean", title="IS weight", direction=TARGET, low=0.0,
        related="is_ess off_policy_kl is_ratio_max",
        help_text="Mean importance-sampling weight that corrects for rollout/train mismatch. "
        "It should be 1.",
    ),
    _match(
        name="is_ratio_min", title="IS weight, min", direction=NONE, low=0.0, related="is_ratio_mean",
        help_text="Smallest importance-sampling weight in the step. "
        "Tokens with such a weight hardly count.",
    ),
    _match(
        name="is_ratio_max", title="IS weight, max", direction=NONE, low=0.0, related="is_ratio_mean is_clip_frac",
        help_text="Largest importance-sampling weight in the step. "
        "Where weights are truncated, it sits at the cap.",
    ),
    _match(
        name="is_ratio_std", title="IS weight, std", direction=DOWN, low=0.0, related="is_ratio_mean is_ess",
        help_text="Standard deviation of the importance-sampling weights. "
        "Above 1 a few tokens dominate the update.",
    ),
    fraction(
        "is_ess", "effective samples", "mismatch", UP,
        "Effective sample size over the size of the batch, after importance-sampling weights. "
        "Below 50 %, most of the generated tokens are wasted.",
        "is_ratio_mean is_ratio_std off_policy_kl",
    ),
    fraction(
        "is_clip_frac", "IS clip fraction", "mismatch", DOWN,
        "Share of importance-sampling weights that were truncated. "
        "It shows how often the mismatch exceeds what the correction allows.",
        "is_ratio_mean is_ratio_max",
    ),
    fraction(
        "rollout_masked_frac", "tokens masked", "mismatch", DOWN,
        "Share of tokens or sequences masked out for rollout/train mismatch. "
        "A high share buys stability with data.",
        "off_policy_kl is_ratio_mean",
    ),
    fraction(
        "rollout_masked_seq_frac", "sequences masked", "mismatch", DOWN,
        "Share of whole completions masked out for rollout/train mismatch. "
        "One bad token costs the completion, so it runs well above the share of tokens.",
        "rollout_masked_frac off_policy_kl",
    ),
    _match(
        name="mult_prob_error", title="mult prob error", direction=TARGET, low=1.0,
        related="off_policy_kl rollout_logp_diff_mean",
        help_text="Mean factor between the token probabilities of inference engine and trainer, always at least 1. "
        "Up to 1.02 is rounding; isolated spikes are acceptable, a climbing average is not.",
    ),
    _match(
        name="is_chi2", title="chi-square", direction=DOWN, related="off_policy_kl is_ess",
        help_text="Chi-square divergence between rollout policy and trained policy. "
        "It weighs rare large mismatches far more than the KL does.",
    ),
    _match(
        name="ppl_ratio", title="perplexity ratio", direction=TARGET, low=0.0, related="off_policy_kl is_ratio_mean",
        help_text="Perplexity of the completions under the trainer over that under the inference engine. "
        "It should be 1.",
    ),
    _match(
        name="kl_ent_ratio", title="mismatch/entropy", direction=DOWN, related="off_policy_kl entropy",
        help_text="Rollout/train mismatch divided by entropy. "
        "The same mismatch matters more once the policy is almost deterministic.",
    ),
)  # fmt: skip
