"""What the run earns: rewards, validation, groups."""

from __future__ import annotations

from functools import partial

from rltop.catalog.entry import DOWN, NONE, TARGET, UP, entry, fraction
from rltop.model import Unit

_reward = partial(entry, section="reward", unit=Unit.NONE)
_val = partial(entry, section="validation", unit=Unit.NONE)
_groups = partial(entry, section="groups", unit=Unit.NONE)

ENTRIES = (
    _reward(
        name="reward_mean", title="reward", direction=UP, related="reward_std val_score reward_component kl_ref",
        help_text="Mean reward of the completions or rollout chunks in this step, before any KL penalty where the "
        "trainer logs both. "
        "It should rise; compare it with validation, because a hacked reward rises while the completions get worse.",
    ),
    _reward(
        name="score_mean", title="raw score", direction=UP, related="reward_mean reward_final kl_ref",
        help_text="Mean score of the reward function or reward model alone, before penalties. "
        "If it and the penalised reward drift apart, the penalty has become a large part of the objective.",
    ),
    _reward(
        name="reward_final", title="penalised reward", direction=UP, related="score_mean kl_reward kl_ref",
        help_text="Mean reward that the optimiser maximises: after KL penalty, shaping, normalisation or filtering. "
        "Where only penalties are taken off, the gap to the raw score is what they cost.",
    ),
    _reward(
        name="kl_reward", title="KL penalty", direction=NONE, related="reward_final kl_ref kl_coef",
        help_text="Part of the reward that is not the score: usually minus the KL coefficient times the KL. "
        "Large and negative: the policy pays for its distance from the reference.",
    ),
    _reward(
        name="reward_std", title="reward std", direction=TARGET, related="zero_std_frac reward_mean adv_max",
        help_text="Standard deviation of the rewards: within groups, or over all samples of the step (Telescope, "
        "rollout/reward_std). "
        "Group methods learn from this spread; at zero there is no gradient.",
    ),
    _reward(
        name="reward_max", title="max reward", direction=NONE, related="reward_mean reward_min reward_std",
        help_text="Highest reward in the step. "
        "If it equals the lowest, all completions earned the same and there is nothing to learn from.",
    ),
    _reward(
        name="reward_min", title="min reward", direction=NONE, related="reward_mean reward_max reward_std",
        help_text="Lowest reward in the step. "
        "A sudden drop usually comes from a penalty or from a reward function that failed.",
    ),
    _reward(
        name="reward_component", title="reward component", direction=UP, related="reward_mean reward_component_std",
        help_text="Mean of one of several reward functions, or of a score that a workflow reports beside the reward. "
        "If one drops while the total rises, the policy trades what you want for what is easy.",
    ),
    _reward(
        name="reward_component_std", title="component std", direction=NONE, related="reward_component reward_std",
        help_text="Standard deviation of one reward function over the step. "
        "At zero it does not tell the completions apart.", low=0.0,
    ),
    _reward(
        name="reward_component_max", title="component max", direction=NONE, related="reward_component",
        help_text="Highest value of one reward function in the step. "
        "Equal to the lowest: it says the same of every completion.",
    ),
    _reward(
        name="reward_component_min", title="component min", direction=NONE, related="reward_component",
        help_text="Lowest value of one reward function in the step. "
        "Equal to the highest: it says the same of every completion.",
    ),
    _reward(
        name="sample_metric", title="sample metric", direction=NONE, related="reward_mean sample_metric_std",
        help_text="Mean of a number that the environment returns for every sample: a part of the reward, tool calls, "
        "reasoning steps, time spent. "
        "The key says which; whether more of it is better, only the environment knows.",
    ),
    _reward(
        name="sample_metric_std", title="sample metric std", direction=NONE, related="sample_metric", low=0.0,
        help_text="Standard deviation of a sample metric over all samples of the step. "
        "At zero all samples have the same value.",
    ),
    _reward(
        name="sample_metric_max", title="sample metric max", direction=NONE, related="sample_metric",
        help_text="Highest value of a sample metric in the step. "
        "Read it next to the mean: one sample is enough to move it.",
    ),
    _reward(
        name="sample_metric_min", title="sample metric min", direction=NONE, related="sample_metric",
        help_text="Lowest value of a sample metric in the step. "
        "Read it next to the mean: one sample is enough to move it.",
    ),
    fraction(
        "success_frac", "success rate", "reward", UP,
        "Share of episodes that reached their goal, or of responses that are correct. "
        "For tasks with a yes-or-no outcome it is the reward without its shaping.",
        "reward_mean val_score num_turns_mean",
    ),
    fraction(
        "success_frac_max", "success rate max", "reward", NONE,
        "Success rate of the task of the step that was solved most often. "
        "At 100 % on most steps: it says that some tasks are easy.",
        "success_frac success_frac_min",
    ),
    fraction(
        "success_frac_min", "success rate min", "reward", NONE,
        "Success rate of the task of the step that was solved least often. "
        "Above zero no task of the step is out of reach.",
        "success_frac success_frac_max",
    ),
    _reward(
        name="episode_return", title="episode return", direction=UP, related="success_frac env_reward episode_len",
        help_text="Sum of the environment's rewards over an episode. "
        "With a sparse reward it says little before the first successes.",
    ),
    _reward(
        name="env_reward", title="step reward", direction=UP, related="episode_return success_frac",
        help_text="Reward per environment step; RLinf divides it by the episode length. "
        "Shorter episodes alone can raise it.",
    ),
    _reward(
        name="return_mean", title="return", direction=NONE, related="reward_mean value_mean adv_mean",
        help_text="Mean return that the critic is trained towards. "
        "It should stay on the scale of the predicted values.",
    ),
    _reward(
        name="adv_mean", title="advantage", direction=TARGET, related="adv_max adv_min reward_std",
        help_text="Mean advantage in the batch. "
        "Normalised advantages sit near zero; with per-token losses a lasting offset means that length and reward are "
        "correlated.",
    ),
    _reward(
        name="adv_max", title="max advantage", direction=NONE, related="adv_mean adv_min reward_std",
        help_text="Largest advantage in the batch. "
        "Normalised within groups of n it cannot exceed (n - 1)/sqrt(n), so more is a bug; other estimators have no "
        "such bound.",
    ),
    _reward(
        name="adv_min", title="min advantage", direction=NONE, related="adv_mean adv_max reward_std",
        help_text="Smallest advantage in the batch. "
        "Strongly negative outliers push a few samples down hard and often cause gradient spikes.",
    ),
    _reward(
        name="adv_std", title="advantage std", direction=NONE, related="adv_mean adv_max reward_std", low=0.0,
        help_text="Standard deviation of the advantages in the batch. "
        "At zero nothing is learned.",
    ),
    _val(
        name="val_score", title="validation", direction=UP, related="reward_mean val_best val_acc response_len_mean",
        help_text="Score on held-out tasks: what the run is for, in the evaluation's own unit (0.62 may be an "
        "accuracy of 62 % or a mean reward). "
        "Small test sets are noisy: judge by several evaluations, not by one.",
    ),
    _val(
        name="val_best", title="validation best@k", direction=UP, related="val_score val_passk entropy",
        help_text="Validation score of the best of k completions per task. "
        "If it drops while the mean rises, the policy loses diversity.",
    ),
    fraction(
        "val_passk", "pass@k", "validation", UP,
        "Share of held-out tasks that at least one of k completions solves. "
        "It shows what the policy can reach; the mean shows what it usually does.",
        "val_score val_best entropy",
    ),
    fraction(
        "val_acc", "eval accuracy", "validation", UP,
        "Accuracy on the evaluation set. "
        "If training accuracy pulls ahead of it, the run overfits.",
        "val_loss dpo_accuracy rm_accuracy val_score",
    ),
    _val(
        name="val_return", title="evaluation return", direction=UP, related="reward_mean episode_len val_score",
        help_text="Mean return of evaluation episodes, in the environment's own unit. "
        "A few episodes are noisy: judge by several evaluations, not by one.",
    ),
    _val(
        name="val_loss", title="eval loss", direction=DOWN, related="loss val_acc",
        help_text="Loss on the evaluation set. "
        "Rising while the training loss falls: overfitting.",
    ),
    _val(
        name="val_margin", title="eval margin", direction=UP, related="dpo_margin val_acc val_loss",
        help_text="Mean reward margin between chosen and rejected completions of the evaluation set. "
        "It can grow while evaluation accuracy drops, so it is no proof of progress.",
    ),
    _val(
        name="val_reward", title="validation reward", direction=UP, related="val_score reward_mean",
        help_text="Mean reward on the validation tasks, logged beside their accuracy. "
        "With a rule-based reward it follows the accuracy; where they part, the reward measures something else.",
    ),
    _val(
        name="val_worst", title="validation worst@k", direction=UP, related="val_score val_best val_std",
        help_text="Validation score of the worst of k completions per task. "
        "Its gap to the best of k is how much luck decides.",
    ),
    _val(
        name="val_std", title="validation std", direction=NONE, related="val_score val_best val_worst", low=0.0,
        help_text="Standard deviation of the validation score: over the k completions of a task, or over the tasks. "
        "The wider it is, the more evaluations it takes to see a trend.",
    ),
    _val(
        name="val_max", title="validation max", direction=NONE, related="val_score val_min",
        help_text="Validation score of the best task. "
        "It reaches its ceiling early and then says little.",
    ),
    _val(
        name="val_min", title="validation min", direction=NONE, related="val_score val_max",
        help_text="Validation score of the worst task. "
        "At zero there are tasks that are never solved.",
    ),
    entry(
        "val_turns_mean", "validation turns", "validation", Unit.COUNT, NONE,
        "Mean number of turns per validation episode. "
        "A rise without a better score points to loops or failing tools.",
        "val_score num_turns_mean", 0.0,
    ),
    entry(
        "val_turns_max", "max turns", "validation", Unit.COUNT, NONE,
        "Turns of the longest validation episode. "
        "At the configured limit, episodes are being truncated.",
        "val_turns_mean num_turns_max", 0.0,
    ),
    entry(
        "val_turns_min", "min turns", "validation", Unit.COUNT, NONE,
        "Turns of the shortest validation episode. "
        "At one, some tasks are answered without a tool.",
        "val_turns_mean num_turns_min", 0.0,
    ),
    _val(
        name="val_aux", title="validation detail", direction=NONE, related="val_score val_best",
        help_text="Secondary metric of the validation run, such as a majority vote or a spread over tasks. "
        "Use it to explain why the main score moved.",
    ),
    entry(
        "val_response_len", "eval length", "validation", Unit.TOKENS, NONE,
        "Mean completion length on the evaluation tasks. "
        "Next to the score it tells better completions from merely longer ones.",
        "val_score response_len_mean", 0.0,
    ),
    fraction(
        "val_truncated_frac", "eval truncated", "validation", DOWN,
        "Share of evaluation completions that hit the length limit. "
        "Truncated ones usually count as wrong, which hides what the policy knows.",
        "val_score truncated_frac",
    ),
    fraction(
        "zero_std_frac", "zero-var. groups", "groups", DOWN,
        "Share of groups whose completions all earned the same reward. "
        "Zero variance means zero advantage and no gradient; near 100 % training stalls.",
        "reward_std all_good_frac all_bad_frac reward_mean",
    ),
    _groups(
        name="zero_std_count", title="groups filtered", direction=DOWN, related="zero_std_frac filter_pass_rate",
        help_text="Groups (in Trinity-RFT experiences) dropped for zero reward variance. "
        "The price of dynamic sampling: each of them was generated for nothing.", low=0.0,
    ),
    fraction(
        "mixed_group_frac", "mixed groups", "groups", UP,
        "Share of groups with both better and worse completions. "
        "Only these groups give a gradient.",
        "zero_std_frac all_good_frac all_bad_frac",
    ),
    fraction(
        "all_good_frac", "all-correct groups", "groups", NONE,
        "Share of prompts that every completion solves. "
        "High: the tasks have become too easy.",
        "mixed_group_frac all_bad_frac zero_std_frac",
    ),
    fraction(
        "all_bad_frac", "all-wrong groups", "groups", DOWN,
        "Share of prompts that no completion solves. "
        "High: the tasks are too hard, or the reward function rejects everything.",
        "mixed_group_frac all_good_frac zero_std_frac",
    ),
    _groups(
        name="filter_pass_rate", title="filter pass rate", direction=UP, related="zero_std_frac zero_std_count",
        help_text="Samples kept by dynamic filtering, relative to what was generated; above 1 where a trainer divides "
        "samples by prompts. "
        "The lower it is, the more generation each useful sample costs.", low=0.0,
    ),
    _groups(
        name="group_len_ratio", title="group max/median", direction=DOWN, low=1.0,
        related="group_len_gini response_len_max truncated_frac time_step",
        help_text="Longest over median completion length within a group, averaged over the groups of the step. "
        "A straggler indicator: near 1 all lengths are alike; by how much generation slows down depends on batching "
        "too.",
    ),
    fraction(
        "group_len_gini", "group length Gini", "groups", DOWN,
        "Gini coefficient of completion lengths within a group: 0 when all are equal, towards 1 when one has all the "
        "tokens. "
        "Unlike max/median it also sees several long completions among many short ones.",
        "group_len_ratio group_len_cv",
    ),
    _groups(
        name="group_len_cv", title="group length CV", direction=DOWN, related="group_len_ratio group_len_gini", low=0.0,
        help_text="Standard deviation over mean of the completion lengths within a group. "
        "It rises before the longest completion reaches the length limit.",
    ),
    fraction(
        "reward_gini", "within-group Gini", "groups", NONE,
        "How concentrated the reward is within a group, or the sample metric that the key names: 0 all equal, towards "
        "1 one completion has it all. "
        "Not meaningful where values can be negative.",
        "reward_std zero_std_frac",
    ),
    entry(
        "discarded_count", "discarded rollouts", "groups", Unit.COUNT, DOWN,
        "Rollouts that were generated but not trained on: too stale, or from a group without advantage. "
        "All of their generation time is lost.",
        "evicted_samples zero_std_count stale_count", 0.0,
    ),
    fraction(
        "discarded_stale_frac", "stale discards", "groups", DOWN,
        "Share of the discarded rollouts that were too many policy versions behind. "
        "High: rollouts take too long for the pace of the trainer.",
        "discarded_count staleness_mean",
    ),
    fraction(
        "discarded_zero_frac", "zero-adv. discards", "groups", DOWN,
        "Share of the discarded rollouts whose group earned one and the same reward. "
        "The price of tasks that are too easy or too hard.",
        "discarded_count zero_std_frac",
    ),
    entry(
        "cancelled_count", "cancelled rollouts", "groups", Unit.COUNT, DOWN,
        "Rollouts cancelled before they finished. "
        "The tokens generated so far are lost.",
        "discarded_count cancelled_frac", 0.0,
    ),
    entry(
        "sample_count", "samples", "groups", Unit.COUNT, NONE,
        "Completions, experiences, tasks or groups in this step, by trainer. "
        "With dynamic sampling it varies, and statistics over few samples are noisy.",
        "zero_std_count discarded_count", 0.0,
    ),
    entry(
        "evicted_samples", "groups evicted", "groups", Unit.COUNT, DOWN,
        "Groups evicted from the buffer as too stale; veRL counts groups here, whatever the key says. "
        "Rising: generation and training run at different speeds.",
        "discarded_count staleness_max", 0.0,
    ),
)  # fmt: skip
