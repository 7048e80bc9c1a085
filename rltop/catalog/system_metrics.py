"""Where time, tokens and memory go."""

from __future__ import annotations

from functools import partial

from rltop.catalog.entry import DOWN, NONE, UP, entry, fraction
from rltop.model import Direction, Metric, Unit

_balance = partial(entry, section="balance", unit=Unit.TOKENS, low=0.0)
_perf = partial(entry, section="performance", low=0.0)
_memory = partial(entry, section="memory", unit=Unit.GIGABYTES, low=0.0)
_progress = partial(entry, section="progress", direction=NONE, low=0.0)


def _time(name: str, title: str, help_text: str, related: str = "time_step", direction: Direction = DOWN) -> Metric:
    return entry(name, title, "timing", Unit.SECONDS, direction, help_text, related, 0.0)


_BALANCE = (
    _balance(
        name="seqlen_min", title="lightest rank, raw", direction=NONE, related="seqlen_max seqlen_minmax_diff",
        help_text="Tokens of the lightest data-parallel rank before balancing. "
        "No GPU ever sees this split if balancing is on.",
    ),
    _balance(
        name="seqlen_max", title="heaviest rank, raw", direction=NONE, related="seqlen_min seqlen_minmax_diff",
        help_text="Tokens of the heaviest data-parallel rank before balancing. "
        "No GPU ever sees this split if balancing is on.",
    ),
    _balance(
        name="seqlen_mean", title="tokens per rank", direction=NONE, related="seqlen_balanced_max total_tokens",
        help_text="Mean number of tokens per data-parallel rank. "
        "It is the load that an even split would give.",
    ),
    _balance(
        name="seqlen_minmax_diff", title="raw imbalance", direction=DOWN, related="seqlen_balanced_max seqlen_mean",
        help_text="Heaviest minus lightest rank before balancing. "
        "Only without balancing is this what the GPUs wait for.",
    ),
    _balance(
        name="seqlen_balanced_min", title="lightest rank", direction=NONE, related="seqlen_balanced_max seqlen_mean",
        help_text="Tokens of the lightest rank after balancing. "
        "This rank waits for the heaviest one in every step.",
    ),
    _balance(
        name="seqlen_balanced_max", title="heaviest rank", direction=DOWN, related="seqlen_balanced_min seqlen_mean",
        help_text="Tokens of the heaviest rank after balancing. "
        "All ranks wait for it, and it sets the peak of memory.",
    ),
)  # fmt: skip

_TIMING = (
    _time("time_step", "step time", "Wall time of one training step. "
          "Whether validation and checkpoints are inside depends on the trainer and its version.",
          "time_gen time_update_actor throughput response_len_mean"),
    _time("time_gen", "generation", "Time for generating the rollouts; in asynchronous trainers the time spent waiting "
          "for them. It usually is the largest stage and follows the longest answer.",
          "time_step response_len_max group_len_ratio time_gen_sample_max"),
    _time("time_reward", "reward stage", "Time for computing rewards. "
          "A growing share hints at a slow judge, sandbox or reward model.", "time_step time_gen"),
    _time("time_old_log_prob", "old log-prob", "Time for recomputing the log-probabilities of the sampled tokens. "
          "It scales with the number of tokens.", "time_step time_ref total_tokens"),
    _time("time_ref", "reference pass", "Time for the reference model's log-probabilities. "
          "The first steps are slower where weights are loaded or kernels compiled.", "time_step time_old_log_prob"),
    _time("time_values", "value pass", "Time for the critic's predictions. "
          "It scales with the number of tokens.", "time_step time_update_critic"),
    _time("time_adv", "advantages", "Time for computing advantages. "
          "It is small; seconds here mean that something runs on the wrong device.", "time_step"),
    _time("time_update_critic", "critic update", "Time for training the critic. "
          "It scales with the number of tokens.", "time_step time_update_actor"),
    _time("time_update_actor", "policy update", "Time for training the policy. "
          "It scales with the number of tokens and falls with better utilisation.", "time_step mfu total_tokens"),
    _time("time_update_all", "model updates", "Time for training policy and critic together. "
          "It contains the two single updates.", "time_update_actor time_update_critic"),
    _time("time_weight_sync", "weight sync", "Time for bringing the new weights to the inference engines. "
          "More than a tenth of the step is worth a look.", "time_step time_gen"),
    _time("time_save", "checkpoint", "Time for saving a checkpoint. "
          "Some steps carry it and look slow because of it alone.", "time_step"),
    _time("time_eval", "evaluation", "Time for the validation run. "
          "It lengthens the gap between two records even where it is not part of the step.", "time_step val_score"),
    _time("time_dump", "rollout dump", "Time for writing the rollouts to disk. "
          "Slow shared storage shows here.", "time_step"),
    _time("time_switch", "role switch", "Time for switching GPUs between generation and training. "
          "It is overhead of sharing them.", "time_step time_weight_sync"),
    _time("time_wait_data", "waiting for data", "Time that the trainer waits for rollouts. "
          "If it is a large share, generation is the bottleneck.", "time_step queue_size trainer_idle_frac"),
    _time("time_wait_policy", "waiting for policy", "Time that the samplers wait for new weights. "
          "If it is a large share, the trainer is the bottleneck.", "time_weight_sync rollouter_idle_frac"),
    _time("time_prepare", "data preparation", "Time for assembling training batches. "
          "It should be a small share.", "time_step"),
    _time("time_load_data", "data loading", "Time for loading a batch. "
          "It should be a small share.", "time_step time_wait_data"),
    _time("time_make_experience", "experience", "Time for scoring rollouts: log-probabilities, values, rewards and "
          "advantages. It scales with the number of tokens.", "time_step time_gen time_update_actor"),
    _time("time_active", "active time", "Time of the step in which the trainer works, without waiting for data. "
          "With the waiting time it makes up the step.", "time_step time_wait_data"),
    _time("time_backward", "backward pass", "Time for the backward pass. "
          "It scales with the number of tokens.", "time_forward time_update_actor"),
    _time("time_loss", "loss", "Time for computing the loss. "
          "It is small beside the passes; growth hints at long sequences.", "time_forward time_backward"),
    _time("time_kl", "KL", "Time for computing the KL divergence. "
          "It is part of the loss in most trainers.", "time_loss"),
    _time("time_entropy", "entropy pass", "Time for computing the entropy. "
          "Over a large vocabulary it is not free.", "time_loss"),
    _time("time_to_device", "copy to GPU", "Time for moving the batch to the GPU. "
          "It should be a small share.", "time_prepare"),
    _time("time_weight_sync_infer", "sync, samplers", "Time that the samplers spend taking over new weights. "
          "It runs on their GPUs, beside the trainer's own work.", "time_weight_sync"),
    _time("time_forward", "forward pass", "Time for the forward pass. "
          "It scales with the number of tokens.", "time_update_actor"),
    _time("time_gen_sample_mean", "rollout, mean", "Mean time that one rollout takes to generate. "
          "The batch waits for the slowest one, not for this.", "time_gen_sample_max time_gen"),
    _time("time_gen_sample_max", "rollout, slowest", "Time that the slowest rollout takes to generate. "
          "Divided by the mean it is the tail that everyone waits for.",
          "time_gen_sample_mean time_tool_sample_max slowest_response_len"),
    _time("time_tool_sample_mean", "tools, mean", "Mean time that one rollout spends in tool calls. "
          "It rises when the sandbox is overloaded.", "time_tool_sample_max time_gen_sample_mean"),
    _time("time_tool_sample_max", "tools, slowest", "Longest time that one rollout spends in tool calls. "
          "A value at the timeout means that a tool hung.", "time_tool_sample_mean time_gen_sample_max"),
    _time("slowest_gen", "slowest: generate", "Time that the slowest rollout of the batch spent generating. "
          "With its tool time it is what the batch waited for.", "slowest_tool slowest_response_len time_gen"),
    _time("slowest_tool", "slowest: tools", "Time that the slowest rollout of the batch spent in tool calls. "
          "If it is most of the rollout, the policy is not to blame.", "slowest_gen time_tool_sample_max"),
    entry("slowest_response_len", "slowest: tokens", "timing", Unit.TOKENS, NONE,
          "Answer length of the slowest rollout. "
          "A short but slow rollout waited for tools or for the scheduler.", "slowest_gen response_len_max", 0.0),
    entry("slowest_prompt_len", "slowest: prompt", "timing", Unit.TOKENS, NONE,
          "Prompt length of the slowest rollout. "
          "Long prompts take longer to prefill.", "slowest_gen prompt_len_mean", 0.0),
    entry("preempted_max", "preemptions, most", "timing", Unit.COUNT, DOWN,
          "How often one rollout was put back because the cache was full; -1 means not known. "
          "Any number above zero means that memory for the cache is short.", "preempted_mean time_gen"),
    entry("preempted_mean", "preemptions", "timing", Unit.COUNT, DOWN,
          "Mean number of times that a rollout was put back because the cache was full; -1 means not known. "
          "It slows generation without a trace elsewhere.", "preempted_max time_gen"),
    entry("time_per_token_gen", "ms/token: generate", "timing", Unit.MILLISECONDS, DOWN,
          "Generation time per response token. "
          "If the step is slower but this is not, the answers are simply longer.",
          "time_gen response_len_mean gen_throughput", 0.0),
    entry("time_per_token_update_actor", "ms/token: update", "timing", Unit.MILLISECONDS, DOWN,
          "Policy update time per token. "
          "It tells a slower machine from a larger batch.", "time_update_actor mfu", 0.0),
)  # fmt: skip

_PERFORMANCE = (
    _perf(
        name="throughput", title="throughput", unit=Unit.TOKENS_PER_S, direction=UP,
        related="time_step mfu total_tokens throughput_per_gpu",
        help_text="Tokens trained per second, per GPU in some trainers and in total in others. "
        "It drops on steps that save a checkpoint, because it is computed from the step time.",
    ),
    _perf(
        name="throughput_per_gpu", title="throughput/GPU", unit=Unit.TOKENS_PER_S, direction=UP,
        related="throughput mfu", help_text="Tokens trained per second and GPU. "
        "It allows comparing runs of different size.",
    ),
    _perf(
        name="gen_throughput", title="generation speed", unit=Unit.TOKENS_PER_S, direction=UP,
        related="time_gen time_per_token_gen", help_text="Tokens generated per second. "
        "It falls when few long answers keep many GPUs waiting.",
    ),
    _perf(
        name="samples_per_s", title="samples/s", unit=Unit.NONE, direction=UP, related="throughput time_step",
        help_text="Samples or episodes processed per second. "
        "It depends on their length, so read it beside the token rate.",
    ),
    _perf(
        name="total_tokens", title="tokens in step", unit=Unit.TOKENS, direction=NONE,
        related="time_step response_len_mean num_tokens",
        help_text="Tokens of prompts and answers in this step. "
        "A slower step with proportionally more tokens is not slower.",
    ),
    fraction(
        "mfu", "MFU", "performance", UP,
        "Share of the hardware's peak arithmetic that the policy update uses. "
        "Real reinforcement-learning runs lie anywhere between 0.04 and 0.8: compare the run with itself.",
        "throughput time_update_actor",
    ),
    fraction(
        "mfu_infer", "MFU, inference", "performance", UP,
        "Share of the hardware's peak arithmetic used while recomputing log-probabilities. "
        "Compare the run with itself.", "mfu time_old_log_prob",
    ),
    fraction(
        "mfu_critic", "MFU, critic", "performance", UP,
        "Share of the hardware's peak arithmetic that the critic update uses. "
        "Compare the run with itself.", "mfu time_update_critic",
    ),
    _perf(
        name="tflops_train", title="training TFLOP/s", unit=Unit.NONE, direction=UP,
        related="mfu time_update_actor tflops_rollout",
        help_text="Arithmetic per second and GPU while training, in TFLOP/s. "
        "Compare the run with itself.",
    ),
    _perf(
        name="tflops_rollout", title="rollout TFLOP/s", unit=Unit.NONE, direction=UP,
        related="gen_throughput time_gen tflops_train",
        help_text="Arithmetic per second and GPU while generating, in TFLOP/s. "
        "It falls when few long answers keep many GPUs waiting.",
    ),
    fraction(
        "prefix_cache_hit", "prefix cache hits", "performance", UP,
        "Share of prompt tokens that the inference engine found in its cache. "
        "Groups share their prompt, so it should be high.", "gen_throughput time_gen",
    ),
    fraction(
        "spec_accept_rate", "drafts accepted", "performance", UP,
        "Share of speculative tokens that the model accepts. "
        "It falls as the policy moves away from the draft model.", "gen_throughput time_gen",
    ),
    fraction(
        "trainer_idle_frac", "trainer idle", "performance", DOWN,
        "Share of the time that the trainer waits for rollouts. "
        "High means that generation is the bottleneck.", "rollouter_idle_frac queue_size time_wait_data",
    ),
    fraction(
        "rollouter_idle_frac", "rollouts idle", "performance", DOWN,
        "Share of the time that the samplers wait. "
        "High means that the trainer is the bottleneck.", "trainer_idle_frac queue_size",
    ),
)  # fmt: skip

_MEMORY = (
    _memory(
        name="mem_alloc_gb", title="GPU memory", direction=DOWN, related="mem_reserved_gb seqlen_balanced_max",
        help_text="Largest GPU memory in use by tensors so far. "
        "Most trainers never reset the peak, so it can only rise.",
    ),
    _memory(
        name="mem_reserved_gb", title="GPU reserved", direction=DOWN, related="mem_alloc_gb mem_peak_gb",
        help_text="Largest GPU memory held by the allocator so far. "
        "A wide gap to the memory in use is fragmentation.",
    ),
    _memory(
        name="mem_peak_gb", title="GPU peak", direction=DOWN, related="mem_alloc_gb mem_reserved_gb",
        help_text="Largest GPU memory that the trainer saw. "
        "New peaks late in a run come before out-of-memory errors.",
    ),
    _memory(
        name="mem_cpu_gb", title="host memory", direction=DOWN, related="mem_alloc_gb",
        help_text="Memory in use on the host, including other jobs on the same machine. "
        "A steady climb ends with the job being killed.",
    ),
    fraction(
        "disk_free_frac", "disk free", "memory", UP,
        "Share of the checkpoint disk that is free. "
        "A full disk ends the run at the next checkpoint.", "time_save",
    ),
)  # fmt: skip

_PROGRESS = (
    _progress(
        name="epoch", title="epoch", unit=Unit.NONE, related="progress num_tokens",
        help_text="How often the data have been seen. "
        "Small data sets repeat quickly, and repeated prompts are remembered.",
    ),
    fraction(
        "progress", "progress", "progress", NONE,
        "Share of the planned steps that are done. "
        "It is the trainer's own count.", "epoch total_steps",
    ),
    _progress(
        name="total_steps", title="planned steps", unit=Unit.COUNT, related="progress epoch",
        help_text="How many steps the run wants to make. "
        "The end of the learning-rate schedule is tied to it.",
    ),
    _progress(
        name="episode", title="episodes", unit=Unit.COUNT, related="samples_per_s epoch",
        help_text="Episodes or answers generated since the start. "
        "It advances by one batch per step.",
    ),
    _progress(
        name="num_tokens", title="tokens so far", unit=Unit.TOKENS, related="total_tokens epoch",
        help_text="Tokens seen since the start. "
        "It allows comparing runs with different batch sizes.",
    ),
    _progress(
        name="time_elapsed", title="elapsed", unit=Unit.SECONDS, related="eta time_step",
        help_text="Seconds as counted by the trainer, since its start or for this row by trainer. "
        "It may start over after a restart.",
    ),
    _progress(
        name="eta", title="trainer's ETA", unit=Unit.SECONDS, related="time_elapsed progress",
        help_text="Seconds left as the trainer estimates them. "
        "It is usually a mean over the whole run and lags behind a change of speed.",
    ),
)  # fmt: skip

ENTRIES = _BALANCE + _TIMING + _PERFORMANCE + _MEMORY + _PROGRESS
