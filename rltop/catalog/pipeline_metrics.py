"""Who waits for whom: staleness, queues, what is thrown away, engines, tools and environments of asynchronous runs."""

from __future__ import annotations

from functools import partial

from rltop.catalog.entry import DOWN, NONE, UP, entry, fraction
from rltop.model import Direction, Metric, Unit

_pipe = partial(entry, section="pipeline", unit=Unit.COUNT, low=0.0)


def _time(name: str, title: str, help_text: str, related: str = "time_step", direction: Direction = DOWN) -> Metric:
    return entry(name, title, "pipeline", Unit.SECONDS, direction, help_text, related, 0.0)


def _count(name: str, title: str, help_text: str, related: str, direction: Direction = DOWN) -> Metric:
    return entry(name, title, "pipeline", Unit.COUNT, direction, help_text, related, 0.0)


def _share(name: str, title: str, help_text: str, related: str, direction: Direction = DOWN) -> Metric:
    return fraction(name, title, "pipeline", direction, help_text, related)


_STALENESS = (
    _pipe(
        name="staleness_mean", title="staleness", direction=DOWN, related="staleness_max off_policy_kl queue_size",
        help_text="Mean number of policy versions between sampling and training. "
        "0 is on-policy; how much is tolerable depends on the off-policy correction.",
    ),
    _pipe(
        name="staleness_max", title="max staleness", direction=DOWN, related="staleness_mean stale_count",
        help_text="Largest number of policy versions between sampling and training in the batch. "
        "At the configured limit, samples are being dropped.",
    ),
    _pipe(
        name="staleness_worst_max", title="stalest token", direction=DOWN, related="staleness_max traj_span_mean",
        help_text="Age of the oldest token of any trajectory in the batch, in policy versions. "
        "Partial rollouts mix tokens of several policies.",
    ),
    _pipe(
        name="traj_span_mean", title="versions/rollout", direction=DOWN, related="staleness_mean partial_frac",
        help_text="Mean number of policy versions that generated one trajectory. "
        "1: every trajectory comes from a single policy.",
    ),
    _pipe(
        name="stale_count", title="stale samples", direction=DOWN, related="dropped_stale staleness_max",
        help_text="Stale samples, trained on or dropped, by trainer. "
        "Some trainers log it as a running total.",
    ),
    _pipe(
        name="dropped_stale", title="dropped as stale", direction=DOWN, related="stale_count staleness_max",
        help_text="Samples dropped as too stale; veRL logs a running total. "
        "Each of them was generated for nothing.",
    ),
    fraction(
        "partial_frac", "partial rollouts", "pipeline", NONE,
        "Share of rollouts interrupted by a weight update and then continued. "
        "They save waiting but mix policies within a completion.",
        "traj_span_mean staleness_mean",
    ),
    fraction(
        "cancelled_frac", "cancelled", "pipeline", DOWN,
        "Share of rollouts that were cancelled, mostly as too stale. "
        "Rising: generation is too slow for the trainer.",
        "staleness_max aborted_frac",
    ),
    _pipe(
        name="queue_size", title="queue size", direction=NONE,
        related="trainer_idle_frac staleness_mean time_wait_data",
        help_text="Samples waiting to be trained on. "
        "Always empty: generation is the bottleneck; always full: the trainer is.",
    ),
    _pipe(
        name="rollout_failures", title="failed groups", direction=DOWN, related="aborted_frac evicted_samples",
        help_text="Groups lost because a rollout failed. "
        "Check the inference engines and the environment.",
    ),
    _pipe(
        name="param_version", title="policy version", direction=UP, related="staleness_mean",
        help_text="Version of the policy weights in use. "
        "It should advance with the training step.",
    ),
    _pipe(
        name="sample_version", title="sample version", direction=UP, related="staleness_mean param_version",
        help_text="Mean version of the policy that generated the trained samples, in trainer steps. "
        "The farther behind the step, the more off-policy the update.",
    ),
    _count("staleness_min", "min staleness", "Policy versions between sampling and training of the freshest sample. "
           "Above 0 even the newest sample is off-policy.", "staleness_mean staleness_max"),
    _share("stale_frac", "off-policy share", "Share of the trained samples that an earlier policy version generated. "
           "How much of it is tolerable depends on the off-policy correction.", "staleness_mean staleness_max"),
    entry("staleness_share_limit", "stale share bound", "pipeline", Unit.FRACTION, NONE,
          "Samples of earlier policy versions that the next batch may have, as a share of it, as veRL sets it. "
          "It is no number of versions, and not comparable with one.", "stale_frac dropped_stale", 0.0),
    _count("staleness_violations", "beyond the bound", "Samples or groups trained on although they are staler than the "
           "bound. "
           "Above 0, the bound does not hold.", "staleness_max"),
    _count("staleness_inflight_mean", "stale in flight", "Policy versions by which rollouts fall behind while they "
           "are generated, of trained ones or of those in flight now, by trainer. "
           "High: rollouts take long for the pace of the trainer.", "staleness_mean staleness_queued_mean"),
    _count("staleness_inflight_max", "max in flight", "Largest number of policy versions by which a rollout fell "
           "behind while it was generated. "
           "One slow rollout is enough.", "staleness_inflight_mean staleness_max"),
    _count("staleness_queued_mean", "stale in queue", "Policy versions by which samples fall, or are, behind in the "
           "queue, by trainer. "
           "High: more is generated than trained.", "staleness_mean queue_size staleness_inflight_mean"),
    _count("staleness_queued_max", "max in queue", "Largest number of policy versions by which a sample fell, or is, "
           "behind in the queue. "
           "At the bound it will be dropped.", "staleness_queued_mean queue_size"),
    _count("staleness_dropped_mean", "dropped: staleness", "Mean number of policy versions that dropped samples were "
           "behind. "
           "Just above the bound: a slightly larger bound would have kept them.", "dropped_stale evicted_samples"),
    _count("staleness_dropped_max", "dropped: max stale", "Largest number of policy versions that a dropped sample was "
           "behind. "
           "Far above the bound: single rollouts hang.", "staleness_dropped_mean dropped_stale"),
    _count("traj_span_max", "max versions", "Largest number of policy versions that generated one trajectory, or that "
           "passed meanwhile, by trainer. "
           "Long rollouts are the ones that span several.", "traj_span_mean partial_frac"),
    _count("partial_count", "partial, n", "Rollouts interrupted by a weight update and then continued. "
           "Their tokens come from several policies.", "partial_frac traj_span_max", NONE),
    _count("sample_version_min", "oldest version", "Oldest policy version that generated a trained sample. "
           "The step minus it is the largest staleness.", "sample_version staleness_max", UP),
    _count("sample_version_max", "newest version", "Newest policy version that generated a trained sample. "
           "Far behind the step, even fresh samples are off-policy.", "sample_version param_version", UP),
    _count("sample_update", "sample's update", "Weight update that generated the trained samples, counted since the "
           "process started. "
           "It advances by one with every sync; a restart begins again.", "sample_version_min partial_frac", UP),
    _count("weight_updates", "weight updates", "Weight updates that the engines took so far. "
           "It stands still where weights no longer arrive.", "param_version time_weight_sync", UP),
)  # fmt: skip

_FLOW = (
    _count("queue_limit", "queue limit", "Samples that the queue can hold. "
           "At it, generation pauses.", "queue_size time_gen_blocked", NONE),
    _count("queue_missing", "batch lacks", "Samples that the next batch still lacks when training is ready for it. "
           "Above 0 the trainer has to wait.", "queue_size time_wait_data"),
    _count("gen_queue_size", "prompts waiting", "Prompts or tasks that wait for a free slot in generation. "
           "Growing: generation is the bottleneck.", "inflight_count inflight_limit", NONE),
    _count("score_queue_size", "waiting for scores", "Finished rollouts that wait for the reward function. "
           "Growing: scoring is the bottleneck.", "time_score_wait time_score_mean"),
    _count("inflight_count", "rollouts in flight", "Rollouts that are being generated. "
           "At the limit generation is saturated, well below it starved.", "inflight_limit queue_size", NONE),
    _count("inflight_limit", "in-flight limit", "Rollouts that may be in flight at once. "
           "Where a controller sets it, it follows the load of the engines.", "inflight_count", NONE),
    _time("time_in_queue", "time in queue", "Mean time that a sample lies in the queue before it is trained on. "
          "It is the part of its staleness that a shorter queue removes.", "queue_size staleness_mean"),
    _time("time_gen_blocked", "queue full", "Time that generation is held back because the queue is full; of all "
          "threads since the start in NeMo-RL. "
          "The trainer is the bottleneck.", "queue_size rollouter_idle_frac"),
    _time("time_gen_limited", "generation paused", "Time that generation pauses at its bound on staleness; of all "
          "threads since the start in NeMo-RL. "
          "A larger bound would keep the engines busy.", "time_gen_blocked"),
    _time("time_no_progress", "no progress", "Time since the last rollout or step was completed. "
          "Growing over many minutes, something hangs.", "inflight_count queue_size"),
    _time("time_version", "version time", "Time that one policy version was in use. "
          "The idle time of generation is a share of it.", "time_gen_active rollouter_idle_frac", NONE),
    _time("time_gen_active", "generation active", "Time in which rollouts were generated under one policy version. "
          "Far below the version's time, generation waited.", "time_version rollouter_idle_frac", NONE),
    _time("time_wait_sample", "wait for a sample", "Mean time that the trainer waits for one more sample. "
          "Times what a batch lacks, it is the wait to come.", "queue_missing time_wait_data"),
    _time("time_trainer_active", "training active", "Time in which the trainer's GPUs computed. "
          "Divided by the time that they were allocated it is their busy share.", "trainer_idle_frac", NONE),
    _time("time_trainer_held", "training allocated", "Time for which the trainer held its GPUs. "
          "What it did not compute in it was idle.", "time_trainer_active trainer_idle_frac", NONE),
    _share("gpu_busy_frac", "GPUs busy", "Share of the time of all GPUs that training or generation used. "
           "The rest is waiting on either side.", "trainer_idle_frac rollouter_idle_frac", UP),
    _time("event_loop_lag", "event loop lag", "Mean delay with which the orchestrator's event loop runs what is due. "
          "Above a second, the orchestrator itself is the bottleneck.", "event_loop_lag_max inflight_count"),
    _time("event_loop_lag_max", "max loop lag", "Longest delay of the orchestrator's event loop, or a high percentile "
          "of it, as the key says. "
          "Single spikes are pauses of its process.", "event_loop_lag"),
    _count("mode_flag", "mode", "Which of its modes the scheduler is in, as a number. "
           "The key and the trainer's documentation say what it means.", "inflight_count", NONE),
    _time("time_weight_sync_pause", "sync: pause", "Time until generation has paused for a weight sync. "
          "It is long where running requests have to finish.", "time_weight_sync time_weight_sync_transfer"),
    _time("time_weight_sync_barrier", "sync: barrier", "Time that ranks wait for each other in a weight sync. "
          "One slow rank sets it.", "time_weight_sync time_weight_sync_transfer"),
    _time("time_weight_sync_transfer", "sync: transfer", "Time to send new weights to the engines. "
          "It depends on the size of the model and on the network.", "time_weight_sync weight_sync_mb"),
    _time("time_wait_sync", "idle in sync", "Time that the trainer or the engines idle while weights are handed over. "
          "Part of the price of every new policy version.", "time_weight_sync"),
    _count("weight_sync_mb", "sync size, MB", "Megabytes sent in a weight sync. "
           "Compressed and sparse transfers send less than the model has.", "time_weight_sync_transfer", NONE),
    _share("weight_sync_density", "changed weights", "Share of the weights that changed since the last sync, where "
           "only those are sent. "
           "The smaller it is, the cheaper the sync.", "weight_sync_mb time_weight_sync_transfer", NONE),
)  # fmt: skip

_LOST = (
    _count("dropped_oversize", "dropped: too long", "Samples dropped because they fit in no batch. "
           "Raise the token budget, or limit the length of completions.", "discarded_count response_len_max"),
    _count("dropped_surplus", "dropped: surplus", "Finished samples dropped because the batch was full already. "
           "The price of generating more than is needed.", "discarded_count"),
    _count("replaced_groups", "replaced groups", "Groups of a batch that were lost and replaced by spare ones or by "
           "those of a later batch. "
           "Above 0, rollouts fail, but the batch stays whole.", "missing_groups rollout_failures"),
    _count("missing_groups", "missing groups", "Groups by which a batch was smaller than configured. "
           "Its update is noisier than that of others.", "replaced_groups rollout_failures"),
    _share("kept_frac", "groups kept", "Share of the finished groups that are trained on. "
           "The rest was generated for nothing.", "discarded_count zero_std_count", UP),
    _count("retry_count", "retries", "Rollouts, requests or rows that were sent again after an error, or retries per "
           "request, by trainer. "
           "Rising: an engine or environment is unstable.", "rollout_failures"),
    _count("no_engine_count", "no engine", "Requests for which no engine was available. "
           "Above 0, the fleet is down or being restarted.", "engines_serving retry_count"),
    _count("engines_serving", "engines serving", "Inference engines that take requests. "
           "Fewer than were started: some have failed.", "engine_restarts", UP),
    _count("engines_in_state", "engines by state", "Inference engines that are healthy, suspect, dead or restarting. "
           "The key says which.", "engines_serving engine_restarts", NONE),
    _count("engine_restarts", "engine restarts", "Attempts to restart an inference engine. "
           "Several in a row: its node is broken.", "engines_serving"),
    _count("requests_total", "requests", "Requests routed to the engines so far. "
           "It stands still where generation hangs.", "engines_serving", UP),
    _share("token_drift_frac", "token mismatch", "Share of turns or sessions whose tokens no longer match those "
           "that were sampled, or that had to be split for it. "
           "They come from re-tokenising text; training then sees other tokens than the policy chose.",
           "token_drift off_policy_kl"),
    _count("token_drift", "drifted tokens", "Tokens per turn, at mean or at most, that re-tokenising changed. "
           "0 is right.", "token_drift_frac"),
)  # fmt: skip

_ENGINES = (
    fraction(
        "prefix_cache_hit", "prefix cache hits", "pipeline", UP,
        "Share of prompt tokens found in the inference engine's prefix cache. "
        "Completions of a group share their prompt, so it should be high.", "gen_throughput time_gen",
    ),
    fraction(
        "spec_accept_rate", "draft acceptance", "pipeline", UP,
        "Share of speculative draft tokens that the model accepts. "
        "It drops as the policy moves away from the draft model.", "gen_throughput time_gen",
    ),
    fraction(
        "trainer_idle_frac", "trainer idle", "pipeline", DOWN,
        "Share of time the trainer waits for rollouts. "
        "High: generation is the bottleneck.", "rollouter_idle_frac queue_size time_wait_data",
    ),
    fraction(
        "rollouter_idle_frac", "rollout idle", "pipeline", DOWN,
        "Share of time the rollout workers wait. "
        "High: the trainer is the bottleneck.", "trainer_idle_frac queue_size",
    ),
    _count("engine_running", "requests running", "Requests that the inference engines are decoding. "
           "Times the tokens per second of one request it is their throughput.", "engine_waiting kv_cache_frac", NONE),
    _count("engine_waiting", "requests waiting", "Requests that wait inside the inference engines. "
           "Above 0 for long, the engines are saturated.", "engine_running kv_cache_frac"),
    _share("kv_cache_frac", "KV cache in use", "Share of the inference engines' KV cache in use. "
           "Near 100 % requests are preempted.", "engine_waiting engine_preemptions", NONE),
    _count("engine_preemptions", "preemptions", "Requests preempted because the KV cache was full, in all or per "
           "second, as the key says. "
           "Each is computed again; fewer in flight avoids it.", "kv_cache_frac inflight_limit"),
    _pipe(name="prompt_throughput", title="prompt speed", unit=Unit.TOKENS_PER_S, direction=UP,
          related="gen_throughput prefix_cache_hit", help_text="Prompt tokens that the engines take in per second. "
          "High next to the generation speed: long contexts, or few cache hits."),
    _pipe(name="gen_throughput_sample", title="speed per request", unit=Unit.TOKENS_PER_S, direction=UP,
          related="gen_throughput engine_running", help_text="Tokens per second of one request. "
          "It falls as more run at once."),
    _time("time_first_token", "first token", "Time until a request gets its first token. "
          "It grows with the queue inside the engines.", "engine_waiting time_engine_queue"),
    _pipe(name="time_next_token", title="per token", unit=Unit.MILLISECONDS, direction=DOWN,
          related="gen_throughput engine_running", help_text="Time between two tokens of a request. "
          "It grows with the number of requests that run at once."),
    _time("time_request", "request time", "Time of one request to the engines, from its arrival to its end. "
          "The mean, median, largest or smallest, as the key says.", "time_engine_queue time_first_token"),
    _time("time_engine_queue", "wait in engine", "Time that a request waits inside the engines before it is "
          "computed. "
          "Growing: the engines are saturated.", "engine_waiting time_request"),
    _time("time_prefill", "prefill part", "Time of one part of a request's prefill: waiting, allocating, computing, "
          "sending on. "
          "The key says which part and which statistic.", "time_first_token time_request"),
    _time("time_decode", "decode part", "Time of one part of a request's decoding: allocating, receiving, computing. "
          "The key says which part and which statistic.", "time_next_token time_request"),
    _count("kv_transfer", "KV transfer", "Cache sent from prefill to decode engines: megabytes, or gigabytes per "
           "second, as the key says. "
           "Slow transfers delay the first token.", "time_first_token", NONE),
    _pipe(name="cached_tokens_mean", title="cached tokens", unit=Unit.TOKENS, direction=UP,
          related="prefix_cache_hit", help_text="Mean number of prompt tokens per sample found in the prefix cache. "
          "They cost no prefill."),
    _count("spec_accept_len", "accepted length", "Tokens per step of the model with speculative decoding, its own one "
           "included. "
           "1 is no gain, 2 is half the steps.", "spec_accept_rate", UP),
    _share("spec_accept_pos", "acceptance, place", "Share of draft rounds whose token at one place is accepted. "
           "It falls from place to place; drafts longer than what is accepted are wasted.", "spec_accept_rate", UP),
    _count("spec_tokens", "draft tokens", "Drafts, or tokens drafted or accepted, as the key says. "
           "Accepted over drafted tokens is the acceptance.", "spec_accept_rate", NONE),
    _count("engine_load", "engine load", "What the limit on concurrency is derived from: capacity, turnover or the "
           "signal of the controller, as the key says. "
           "Read it next to the limit.", "inflight_limit kv_cache_frac", NONE),
)  # fmt: skip

_ENVIRONMENTS = (
    _time("time_env_reset", "environment reset", "Time to set up an environment or sandbox for a rollout. "
          "It holds a slot in which nothing is generated.", "time_env_step time_gen_sample_mean"),
    _time("time_env_step", "environment step", "Time of one step of the environment, or of a rollout in it, by "
          "trainer. "
          "High next to the generation time: the environments hold the slots.", "time_env_step_max time_infer_step"),
    _time("time_env_step_max", "env. step, max", "Longest time of a step of the environment, or a high percentile. "
          "At the timeout, an environment hung.", "time_env_step"),
    _time("time_infer_step", "inference per turn", "Time in the engines of a turn, or of a whole rollout, by trainer. "
          "Next to the environment's time it says which of the two is slow.", "time_infer_step_max time_env_step"),
    _time("time_infer_step_max", "inference, max", "Longest time of a rollout's turn in the engines, or a high "
          "percentile. "
          "Long completions, or a queue inside the engine.", "time_infer_step"),
    _time("time_agent_overhead", "agent overhead", "Time of a turn that is neither generation nor environment: proxy, "
          "parsing, waiting. "
          "It should be small.", "time_env_step time_infer_step"),
    _share("agent_busy_frac", "agent's work", "Share of a rollout's time spent in one part: its own work, setting up "
           "the environment, setting up the agent. "
           "The key says which.", "time_env_reset time_env_step", NONE),
    _count("rollouts_per_s", "turns/s", "Turns per second of one rollout. "
           "It falls where environments or engines are overloaded.", "time_env_step time_infer_step", UP),
    _share("env_timeout_frac", "env. timeouts", "Share of rollouts that end in a timeout of the environment. "
           "Rising: sandboxes are overloaded, or the policy hangs them.", "time_env_step_max"),
    _time("time_tool_call", "tool call", "Mean time of one tool call, of all or of the one that the key names. "
          "A slow tool holds a slot in generation.", "tool_failures time_tool_sample_mean"),
    _count("tool_calls_total", "tool calls, n", "Calls of a tool in this step, of the one that the key names. "
           "A tool that is no longer called was given up by the policy.", "tool_failures tool_calls_mean", NONE),
    _count("tool_failures", "failed tool calls", "Failed calls of a tool in this step, of the one that the key names. "
           "Over its calls it is its failure rate.", "tool_calls_total tool_failure_frac"),
    _count("tool_unknown", "unknown tools", "Calls of tools that do not exist. "
           "The policy invents names; it should fall with training.", "tool_failures"),
    _count("tool_parallel", "calls at once", "Tool calls in one turn. "
           "More at once need fewer turns.", "tool_calls_total num_turns_mean", NONE),
    _share("turn_limit_frac", "turn limit", "Share of rollouts that end because they have used up their turns. "
           "Most of them score as failures, so the reward then measures the limit.", "num_turns_max"),
    _count("stop_share", "ends by reason", "Rollouts that end for one reason, or their share, by trainer. "
           "The key says which.", "truncated_frac turn_limit_frac", NONE),
    _count("rollout_errors", "errors by kind", "Rollouts that ended in one kind of error, in this step or so far, by "
           "trainer. "
           "The key says which.", "aborted_count rollout_failures"),
    _time("time_gen_sample_high", "slow rollouts", "Time to generate a slow rollout: a high percentile, as the key "
          "says. "
          "Far above the mean, the batch waits for a few.", "time_gen_sample_mean time_gen_sample_max"),
    _time("time_group", "group time", "Time until all rollouts of a group are finished. "
          "The mean, largest or a percentile, as the key says.", "time_group_spread time_gen_sample_mean"),
    _time("time_group_spread", "spread in group", "Standard deviation of the finishing times within a group. "
          "A wide spread: finished rollouts wait for slow ones.", "time_group group_time_cv"),
    _count("group_time_cv", "group time CV", "Standard deviation over mean of the finishing times within a group. "
           "It rises before the slowest reaches a limit.", "time_group_spread group_len_cv"),
    _time("time_score_mean", "scoring", "Mean time to score a rollout or a group. "
          "It runs beside generation and holds a slot where the reward is slow.", "time_score_max time_score_wait"),
    _time("time_score_max", "scoring, slowest", "Longest time to score a rollout or a group. "
          "At the timeout, the reward function hung.", "time_score_mean"),
    _time("time_score_wait", "wait for scoring", "Time that a finished group waits for the reward function. "
          "Growing: scoring is the bottleneck.", "score_queue_size time_score_mean"),
    _time("time_score_blocked", "scorer full", "Time that generation is held back because the scorer's queue is full. "
          "Scoring is the bottleneck.", "score_queue_size time_score_mean"),
    _count("samples_per_rollout", "samples/rollout", "Training samples that one rollout is split into. "
           "Above 1, turns do not share their history.", "token_drift_frac num_turns_mean", NONE),
)  # fmt: skip

_BATCH = (
    _share("batch_fill_frac", "batch filled", "Share of the token budget that the batch uses. "
           "The rest is room that was paid for.", "pad_frac row_imbalance", UP),
    _share("pad_frac", "padding", "Share of the batch that is padding. "
           "It costs time and teaches nothing.", "batch_fill_frac"),
    _share("untrained_token_frac", "tokens not trained", "Share of forwarded tokens without a loss: prompts, tool "
           "results. "
           "They cost as much as the others.", "trained_tokens total_tokens", NONE),
    _count("packing_ratio", "packing ratio", "Tokens of the samples over tokens forwarded, where shared beginnings "
           "are computed once. "
           "Above 1 it saves work.", "batch_fill_frac", UP),
    _count("row_imbalance", "row imbalance", "Heaviest over mean load of the rows of a batch. "
           "1 is even; all ranks wait for the heaviest.", "pad_frac"),
    _count("batch_count", "batch counts", "Rows, microbatches, groups or adapters of a batch, as the key says. "
           "Fewer than usual: the batch is short.", "sample_count", NONE),
    _pipe(name="trained_tokens", title="trained tokens", unit=Unit.TOKENS, direction=NONE,
          related="total_tokens untrained_token_frac", help_text="Tokens with a loss, in this step or per sample. "
          "The rest of what is forwarded is context."),
    _pipe(name="trained_throughput", title="trained tokens/s", unit=Unit.TOKENS_PER_S, direction=UP,
          related="throughput trainer_idle_frac", help_text="Tokens with a loss per second of wall clock. "
          "Waiting included: it is what the whole machine turns into training."),
    _share("mfu_wall", "MFU, wall clock", "Share of the hardware's peak FLOP/s over the whole step, waits included. "
           "Next to the MFU of the update it says what waiting costs.", "mfu trainer_idle_frac", UP),
    _time("time_optimizer", "optimiser step", "Time of the optimiser's step. "
          "It grows with offloading.", "time_update_actor"),
)  # fmt: skip

ENTRIES = (*_STALENESS, *_FLOW, *_LOST, *_ENGINES, *_ENVIRONMENTS, *_BATCH)
