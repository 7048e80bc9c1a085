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
        help_text="Tokens assigned to the lightest data-parallel rank before balancing. "
        "With balancing on, no GPU trains on this split.",
    ),
    _balance(
        name="seqlen_max", title="heaviest rank, raw", direction=NONE, related="seqlen_min seqlen_minmax_diff",
        help_text="Tokens assigned to the heaviest data-parallel rank before balancing. "
        "With balancing on, no GPU trains on this split.",
    ),
    _balance(
        name="seqlen_mean", title="tokens per rank", direction=NONE, related="seqlen_balanced_max total_tokens",
        help_text="Mean number of tokens per data-parallel rank. "
        "It is the load that an even split would give.",
    ),
    _balance(
        name="seqlen_minmax_diff", title="raw imbalance", direction=DOWN, related="seqlen_balanced_max seqlen_mean",
        help_text="Heaviest minus lightest rank before balancing. "
        "With balancing off it is the imbalance to watch; with it on, veRL evens this split out first, and the GPUs "
        "wait for the balanced maximum.",
    ),
    _balance(
        name="seqlen_balanced_min", title="lightest rank", direction=NONE, related="seqlen_balanced_max seqlen_mean",
        help_text="Tokens of the lightest rank after balancing. "
        "This rank waits for the heaviest one in every step.",
    ),
    _balance(
        name="seqlen_balanced_max", title="heaviest rank", direction=DOWN, related="seqlen_balanced_min seqlen_mean",
        help_text="Tokens of the heaviest rank after balancing. "
        "All ranks wait for it, and it sets peak memory.",
    ),
)  # fmt: skip

_TIMING = (
    _time("time_step", "step time", "Wall time of one training step. "
          "Whether validation and checkpoints are included depends on the trainer and its version.",
          "time_gen time_update_actor throughput response_len_mean"),
    _time("time_gen", "generation", "Time to generate the rollouts; in asynchronous trainers the wait for them. "
          "Usually the largest stage; the longest completions set it.",
          "time_step response_len_max group_len_ratio time_gen_sample_max"),
    _time("time_reward", "reward stage", "Time to compute rewards. "
          "A growing share points to a slow judge, sandbox or reward model.", "time_step time_gen"),
    _time("time_old_log_prob", "old log-prob", "Time to recompute the log-probabilities of the sampled tokens. "
          "It scales with the number of tokens.", "time_step time_ref total_tokens"),
    _time("time_ref", "reference pass", "Time for the reference model's log-probabilities. "
          "The first steps are slower while weights load or kernels compile.", "time_step time_old_log_prob"),
    _time("time_values", "value pass", "Time for the critic's predictions. "
          "It scales with the number of tokens.", "time_step time_update_critic"),
    _time("time_adv", "advantages", "Time to compute advantages. "
          "Normally small; whole seconds suggest the wrong device.", "time_step"),
    _time("time_update_critic", "critic update", "Time to train the critic. "
          "It scales with the number of tokens.", "time_step time_update_actor"),
    _time("time_update_actor", "policy update", "Time to train the policy; OpenRLHF's includes the critic. "
          "It scales with the number of tokens and falls as MFU rises.", "time_step mfu total_tokens"),
    _time("time_update_all", "model updates", "Time to train policy and critic together. "
          "It contains the two single updates.", "time_update_actor time_update_critic"),
    _time("time_weight_sync", "weight sync", "Time to sync new weights to the inference engines. "
          "Above 15 % of step time it is worth a look.", "time_step time_gen"),
    _time("time_save", "checkpoint", "Time to save a checkpoint. "
          "A step that saves looks slow because of this alone.", "time_step"),
    _time("time_eval", "evaluation", "Time for evaluation; Trinity-RFT's also covers rollout tasks that run "
          "meanwhile. "
          "It lengthens the gap between two records even where it is not part of the step.", "time_step val_score"),
    _time("time_dump", "rollout dump", "Time to write the rollouts to disk. "
          "Slow shared storage shows here.", "time_step"),
    _time("time_switch", "role switch", "Time to switch GPUs between generation and training. "
          "The overhead of sharing them.", "time_step time_weight_sync"),
    _time("time_wait_data", "waiting for data", "Time the trainer waits for rollouts. "
          "A large share: generation is the bottleneck.", "time_step queue_size trainer_idle_frac"),
    _time("time_wait_explore", "wait for rollouts", "Time to wait for one rollout step of a Trinity-RFT explorer to "
          "complete. "
          "It is all that the explorer's step takes; rollouts of other steps run meanwhile.",
          "time_gen_sample_mean time_gen_sample_max time_eval"),
    _time("time_experience", "data pipeline", "Time of the experience pipeline or of one of its operators. "
          "It runs between exploring and training; a growing share points to a slow operator.", "time_step"),
    _time("time_wait_policy", "waiting for policy", "Time the rollout workers wait for new weights. "
          "A large share: the trainer is the bottleneck.", "time_weight_sync rollouter_idle_frac"),
    _time("time_prepare", "data preparation", "Time to assemble training batches. "
          "It should be a small share of the step.", "time_step"),
    _time("time_load_data", "data loading", "Time to load a batch. "
          "It should be a small share of the step.", "time_step time_wait_data"),
    _time("time_make_experience", "make experience", "Time to score rollouts: log-probabilities, values, rewards and "
          "advantages. "
          "It scales with the number of tokens.", "time_step time_gen time_update_actor"),
    _time("time_active", "active time", "Step time without the wait for data. "
          "Active plus waiting time is the step.", "time_step time_wait_data"),
    _time("time_backward", "backward pass", "Time for the backward pass. "
          "It scales with the number of tokens.", "time_forward time_update_actor"),
    _time("time_loss", "loss computation", "Time to compute the loss. "
          "Small next to forward and backward pass; growth points to long sequences.", "time_forward time_backward"),
    _time("time_kl", "KL computation", "Time to compute the KL. "
          "Part of the loss computation in most trainers.", "time_loss"),
    _time("time_entropy", "entropy pass", "Time to compute the entropy. "
          "Over a large vocabulary it is not free.", "time_loss"),
    _time("time_to_device", "copy to GPU", "Time to move the batch to the GPU. "
          "It should be a small share of the step.", "time_prepare"),
    _time("time_weight_sync_infer", "inference sync", "Time the inference engines take to load new weights. "
          "It runs on their GPUs, beside the trainer's own work.", "time_weight_sync"),
    _time("time_forward", "forward pass", "Time for the forward pass. "
          "It scales with the number of tokens.", "time_update_actor"),
    _time("time_microbatch", "microbatch", "Mean time of one operation on one microbatch. "
          "If the step is slower but this is not, there are more microbatches.", "time_microbatch_max time_forward"),
    _time("time_microbatch_max", "microbatch, max", "Longest time of one operation on a microbatch of the step. "
          "The first microbatch after compilation is much slower.", "time_microbatch"),
    _time("time_microbatch_min", "microbatch, min", "Shortest time of one operation on a microbatch of the step. "
          "A wide gap to the slowest means uneven microbatches.", "time_microbatch", NONE),
    _time("time_microbatch_std", "microbatch, std", "Standard deviation of the time of one operation over the "
          "microbatches of the step. "
          "It grows with uneven lengths.", "time_microbatch", NONE),
    _time("time_gen_sample_mean", "rollout, mean", "Mean time to generate one rollout. "
          "The batch waits for the slowest one, not for this.", "time_gen_sample_max time_gen"),
    _time("time_gen_sample_max", "rollout, slowest", "Time to generate the slowest rollout. "
          "Divided by the mean it is the long tail that everyone waits for.",
          "time_gen_sample_mean time_tool_sample_max slowest_response_len"),
    _time("time_gen_sample_min", "rollout, fastest", "Time to generate the fastest rollout. "
          "A wide gap to the slowest is the long tail.", "time_gen_sample_max time_gen_sample_mean", NONE),
    _time("time_tool_sample_mean", "tools, mean", "Mean time one rollout spends in tool calls. "
          "It rises when the sandbox is overloaded.", "time_tool_sample_max time_gen_sample_mean"),
    _time("time_tool_sample_max", "tools, slowest", "Longest time one rollout spends in tool calls. "
          "At the timeout, a tool hung.", "time_tool_sample_mean time_gen_sample_max"),
    _time("time_tool_sample_min", "tools, fastest", "Shortest time one rollout spends in tool calls. "
          "Zero where a rollout calls no tool.", "time_tool_sample_mean", NONE),
    _time("slowest_gen", "slowest: generate", "Generation time of the slowest rollout in the batch. "
          "With its tool time it is what the batch waited for.", "slowest_tool slowest_response_len time_gen"),
    _time("slowest_tool", "slowest: tools", "Tool-call time of the slowest rollout in the batch. "
          "If it is most of the rollout, the policy is not to blame.", "slowest_gen time_tool_sample_max"),
    _time("slowest_score", "slowest: reward", "Time to score the slowest rollout in the batch. "
          "If it is most of the rollout, the reward function is slow.", "slowest_gen time_reward"),
    entry("slowest_response_len", "slowest: tokens", "timing", Unit.TOKENS, NONE,
          "Completion length of the slowest rollout. "
        "Short but slow: it waited for tools or for the scheduler.", "slowest_gen response_len_max", 0.0),
    entry("slowest_prompt_len", "slowest: prompt", "timing", Unit.TOKENS, NONE,
          "Prompt length of the slowest rollout. "
          "Long prompts take longer to prefill.", "slowest_gen prompt_len_mean", 0.0),
    entry("preempted_max", "preemptions, most", "timing", Unit.COUNT, DOWN,
          "Most preemptions of one rollout because the KV cache was full; -1 means unknown. "
        "Above zero the KV cache is too small.", "preempted_mean time_gen"),
    entry("preempted_mean", "preemptions", "timing", Unit.COUNT, DOWN,
          "Mean preemptions per rollout because the KV cache was full; -1 means unknown. "
        "They slow generation and show nowhere else.", "preempted_max time_gen"),
    entry("time_per_token_gen", "ms/token: generate", "timing", Unit.MILLISECONDS, DOWN,
          "Generation time per response token. "
        "If the step is slower but this is not, the completions are just longer.",
          "time_gen response_len_mean gen_throughput", 0.0),
    entry("time_worker", "worker timer", "timing", Unit.MILLISECONDS, NONE,
          "Mean time of one part of a worker's loop: sampling, inference, loading, learning. "
          "The key says which; they run in parallel on several workers.", "time_step", 0.0),
    entry("time_per_token_ref", "ms/token: ref", "timing", Unit.MILLISECONDS, DOWN,
          "Time of the reference pass per token. "
          "It tells a slower machine from a larger batch.", "time_ref", 0.0),
    entry("time_per_token_values", "ms/token: values", "timing", Unit.MILLISECONDS, DOWN,
          "Time of the critic's predictions per token. "
          "It tells a slower machine from a larger batch.", "time_values", 0.0),
    entry("time_per_token_adv", "ms/token: adv", "timing", Unit.MILLISECONDS, DOWN,
          "Time to compute the advantages, per token. "
          "Normally next to nothing.", "time_adv", 0.0),
    entry("time_per_token_update_critic", "ms/token: critic", "timing", Unit.MILLISECONDS, DOWN,
          "Critic update time per token. "
          "It tells a slower machine from a larger batch.", "time_update_critic", 0.0),
    entry("time_per_token_update_actor", "ms/token: update", "timing", Unit.MILLISECONDS, DOWN,
          "Policy update time per token. "
          "It tells a slower machine from a larger batch.", "time_update_actor mfu", 0.0),
)  # fmt: skip

_PERFORMANCE = (
    _perf(
        name="throughput", title="throughput", unit=Unit.TOKENS_PER_S, direction=UP,
        related="time_step mfu total_tokens throughput_per_gpu",
        help_text="Tokens trained per second over all GPUs; what a trainer divides by its GPUs is throughput/GPU. "
        "It is computed from the step time, so it drops on steps that save a checkpoint.",
    ),
    _perf(
        name="throughput_per_gpu", title="throughput/GPU", unit=Unit.TOKENS_PER_S, direction=UP,
        related="time_step mfu total_tokens throughput",
        help_text="Tokens per second and GPU, as veRL and Trinity-RFT log it: comparable between runs of any size. "
        "It is computed from the step time, so it drops on steps that save a checkpoint.",
    ),
    _perf(
        name="gen_throughput", title="generation speed", unit=Unit.TOKENS_PER_S, direction=UP,
        related="time_gen time_per_token_gen", help_text="Tokens generated per second. "
        "It drops when a few long completions keep many GPUs waiting.",
    ),
    _perf(
        name="samples_per_s", title="samples/s", unit=Unit.NONE, direction=UP, related="throughput time_step",
        help_text="Samples per second; eps in TRL is episodes per second. "
        "It depends on their length, so read it next to the tokens per second.",
    ),
    _perf(
        name="total_tokens", title="tokens in step", unit=Unit.TOKENS, direction=NONE,
        related="time_step response_len_mean num_tokens",
        help_text="Prompt and completion tokens in this step. "
        "A slower step with proportionally more tokens is not slower.",
    ),
    fraction(
        "mfu", "MFU", "performance", UP,
        "Share of the hardware's peak FLOP/s that the policy update uses. "
        "50–60 % is typical of plain training and below 30 % the GPUs mostly wait, but RL runs lie anywhere from 4 % "
        "up: compare with the run's own baseline.",
        "throughput time_update_actor",
    ),
    fraction(
        "mfu_infer", "MFU, inference", "performance", UP,
        "Share of the hardware's peak FLOP/s used while recomputing log-probabilities. "
        "Compare with the run's own baseline.", "mfu time_old_log_prob",
    ),
    fraction(
        "mfu_critic", "MFU, critic", "performance", UP,
        "Share of the hardware's peak FLOP/s that the critic update uses. "
        "Compare with the run's own baseline.", "mfu time_update_critic",
    ),
    _perf(
        name="tflops_train", title="training TFLOP/s", unit=Unit.NONE, direction=UP,
        related="mfu time_update_actor tflops_rollout",
        help_text="TFLOP/s per GPU while training. "
        "Compare with the run's own baseline.",
    ),
    _perf(
        name="tflops_rollout", title="rollout TFLOP/s", unit=Unit.NONE, direction=UP,
        related="gen_throughput time_gen tflops_train",
        help_text="TFLOP/s per GPU while generating. "
        "It drops when a few long completions keep many GPUs waiting.",
    ),
    _perf(
        name="stage_rate", title="stage rate", unit=Unit.NONE, direction=NONE, related="samples_per_s time_step",
        help_text="Samples per second of one part of the trainer, such as learning or loading. "
        "The key says which.",
    ),
)  # fmt: skip

_MEMORY = (
    _memory(
        name="mem_alloc_gb", title="GPU memory", direction=DOWN, related="mem_reserved_gb seqlen_balanced_max",
        help_text="Peak GPU memory allocated to tensors so far. "
        "Most trainers never reset the peak, so it only rises.",
    ),
    _memory(
        name="mem_reserved_gb", title="GPU reserved", direction=DOWN, related="mem_alloc_gb mem_peak_gb",
        help_text="Peak GPU memory reserved by the allocator so far. "
        "A wide gap to the allocated memory is fragmentation.",
    ),
    _memory(
        name="mem_peak_gb", title="GPU peak", direction=DOWN, related="mem_alloc_gb mem_reserved_gb",
        help_text="Peak GPU memory that the trainer saw. "
        "New peaks late in a run precede out-of-memory errors.",
    ),
    _memory(
        name="mem_cpu_gb", title="host memory", direction=DOWN, related="mem_alloc_gb",
        help_text="Host memory in use, other jobs on the machine included. "
        "A steady climb ends in an out-of-memory kill.",
    ),
    fraction(
        "disk_free_frac", "disk free", "memory", UP,
        "Share of the checkpoint disk that is free. "
        "A full disk ends the run at the next checkpoint.", "time_save",
    ),
)  # fmt: skip

_MACHINE = (
    fraction(
        "gpu_util", "GPU utilisation", "machine", NONE,
        "Share of the time in which a kernel ran on the GPU, as trackers sample it. "
        "A kernel that waits counts as well, so MFU says more; near zero for long, the GPU waits for other work.",
        "mfu gpu_power time_wait_data",
    ),
    fraction(
        "gpu_mem_frac", "GPU memory share", "machine", NONE,
        "Share of the GPU's memory in use, as trackers sample it. "
        "Inference engines take most of it from the start.", "gpu_mem_gb mem_alloc_gb",
    ),
    entry(
        "gpu_mem_gb", "GPU memory in use", "machine", Unit.GIGABYTES, NONE,
        "GPU memory in use, as trackers sample it. "
        "Peaks between two samples are not in it.", "gpu_mem_frac mem_alloc_gb", 0.0,
    ),
    entry(
        "gpu_power", "GPU power", "machine", Unit.WATTS, NONE,
        "Power that the GPU draws. "
        "High utilisation at low power: kernels that wait for memory or for other GPUs.", "gpu_util gpu_temp", 0.0,
    ),
    entry(
        "gpu_temp", "GPU temperature", "machine", Unit.NONE, NONE,
        "Temperature of the GPU in degrees Celsius. "
        "Close to its limit it lowers its clock, and its steps get slower than those of the others.", "gpu_power",
    ),
    entry(
        "gpu_errors", "GPU memory errors", "machine", Unit.COUNT, DOWN,
        "Uncorrected memory errors of the GPU so far. "
        "Anything above zero is a reason to take the GPU out of service.", "gpu_temp", 0.0,
    ),
    fraction(
        "cpu_util", "CPU", "machine", NONE,
        "Share of the processors of the machine in use. "
        "Near 100 % the simulators wait for each other.", "samples_per_s ram_util",
    ),
    fraction(
        "ram_util", "RAM", "machine", NONE,
        "Share of the memory of the machine in use, other jobs included. "
        "A steady climb ends in an out-of-memory kill.", "mem_cpu_gb cpu_util",
    ),
)  # fmt: skip

_PROGRESS = (
    _progress(
        name="epoch", title="epoch", unit=Unit.NONE, related="progress num_tokens",
        help_text="Passes over the data so far. "
        "Small data sets repeat quickly, and repeated prompts get memorised.",
    ),
    fraction(
        "progress", "progress", "progress", NONE,
        "Share of the planned steps that are done. "
        "The trainer's own count.", "epoch total_steps",
    ),
    _progress(
        name="total_steps", title="planned steps", unit=Unit.COUNT, related="progress epoch",
        help_text="Number of steps the run is planned for. "
        "The learning-rate schedule is tied to it.",
    ),
    _progress(
        name="steps_trained", title="steps trained", unit=Unit.COUNT, related="time_step loss",
        help_text="Samples or updates trained on since the start. "
        "It is 0 while a replay buffer is being filled.",
    ),
    _progress(
        name="curriculum_level", title="curriculum level", unit=Unit.NONE, related="reward_mean response_len_mean",
        help_text="Stage or difficulty of the curriculum. "
        "A change of it is a new phase: rewards before and after are not comparable.",
    ),
    _progress(
        name="episode", title="episodes", unit=Unit.COUNT, related="samples_per_s epoch",
        help_text="Episodes or completions generated since the start. "
        "It advances by one batch per step.",
    ),
    _progress(
        name="num_tokens", title="tokens so far", unit=Unit.TOKENS, related="total_tokens epoch",
        help_text="Tokens processed since the start; in TRL input tokens. "
        "Comparable between runs with different batch sizes.",
    ),
    _progress(
        name="time_elapsed", title="elapsed", unit=Unit.SECONDS, related="eta time_step",
        help_text="Seconds on the trainer's clock, since its start or for this row, by trainer. "
        "It may start over after a restart.",
    ),
    _progress(
        name="eta", title="trainer's ETA", unit=Unit.SECONDS, related="time_elapsed progress",
        help_text="Seconds left as the trainer estimates them. "
        "Usually a mean over the whole run, so it lags behind a change of speed.",
    ),
)  # fmt: skip

ENTRIES = _BALANCE + _TIMING + _PERFORMANCE + _MEMORY + _MACHINE + _PROGRESS
