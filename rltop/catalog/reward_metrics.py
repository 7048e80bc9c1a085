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
        help_text="Mean reward of the completions in this step, before any KL penalty where the trainer logs both. "
        "It should rise; compare it with validation, because a reward can rise while the answers get worse.",
    ),
    _reward(
        name="score_mean", title="raw score", direction=UP, related="reward_mean reward_final kl_ref",
        help_text="Mean score of the reward function or reward model alone, before penalties are subtracted. "
        "Where it and the penalised reward drift apart, the penalty has become a large part of the objective.",
    ),
    _reward(
        name="reward_final", title="penalised reward", direction=UP, related="score_mean kl_reward kl_ref",
        help_text="Mean reward after the KL penalty and other shaping, which is what the optimiser maximises. "
        "It is lower than the raw score by what the penalties cost.",
    ),
    _reward(
        name="kl_reward", title="KL penalty", direction=NONE, related="reward_final kl_ref kl_coef",
        help_text="The part of the reward that is not the score: usually minus the KL coefficient times the KL. "
        "A large negative value means that the policy pays for its distance from the reference.",
    ),
    _reward(
        name="reward_std", title="reward spread", direction=TARGET, related="zero_std_frac reward_mean adv_max",
        help_text="Standard deviation of the rewards, in group methods within the answers to one prompt. "
        "Group methods learn from this contrast: at zero there is no gradient.",
    ),
    _reward(
        name="reward_max", title="best reward", direction=NONE, related="reward_mean reward_min reward_std",
        help_text="Largest reward in the step. "
        "When it equals the smallest, all completions earned the same and nothing tells them apart.",
    ),
    _reward(
        name="reward_min", title="worst reward", direction=NONE, related="reward_mean reward_max reward_std",
        help_text="Smallest reward in the step. "
        "A sudden fall usually comes from a penalty or from a reward function that failed.",
    ),
    _reward(
        name="reward_component", title="reward part", direction=UP, related="reward_mean reward_component_std",
        help_text="Mean of one reward function of several. "
        "When one part falls while the sum rises, the policy trades what you want for what is easy.",
    ),
    _reward(
        name="reward_component_std", title="reward part spread", direction=NONE, related="reward_component reward_std",
        help_text="Standard deviation of one reward function over the completions of the step. "
        "Zero means that this function does not tell the completions apart.",
    ),
    fraction(
        "success_frac", "success", "reward", UP,
        "Share of episodes that reached their goal. "
        "For tasks with a yes-or-no outcome it is the reward without its shaping.",
        "reward_mean val_score num_turns_mean",
    ),
    _reward(
        name="episode_return", title="episode return", direction=UP, related="success_frac env_reward episode_len",
        help_text="Sum of the environment's rewards over an episode. "
        "With a reward that comes only at the goal it says little before the first successes.",
    ),
    _reward(
        name="env_reward", title="step reward", direction=UP, related="episode_return success_frac",
        help_text="Reward per step of the environment, which some trainers divide by the episode's length. "
        "Shorter episodes can raise it by themselves.",
    ),
    _reward(
        name="return_mean", title="return", direction=NONE, related="reward_mean value_mean adv_mean",
        help_text="Mean discounted return per token, the target that a critic is trained towards. "
        "It should stay on the scale of the critic's values.",
    ),
    _reward(
        name="adv_mean", title="advantage", direction=TARGET, related="adv_max adv_min reward_std",
        help_text="Mean advantage over the tokens of the step. "
        "Normalised advantages lie near zero; a lasting offset means that lengths and rewards are correlated.",
    ),
    _reward(
        name="adv_max", title="largest advantage", direction=NONE, related="adv_mean adv_min reward_std",
        help_text="Largest advantage of any token in the step. "
        "In group methods it is bounded by the group size, so a value far beyond that bound is a fault.",
    ),
    _reward(
        name="adv_min", title="smallest advantage", direction=NONE, related="adv_mean adv_max reward_std",
        help_text="Smallest advantage of any token in the step. "
        "Strongly negative outliers push single tokens down hard and are a frequent source of gradient spikes.",
    ),
    _reward(
        name="adv_std", title="advantage spread", direction=NONE, related="adv_mean adv_max reward_std", low=0.0,
        help_text="Standard deviation of the advantages in the step. "
        "At zero no answer is better than another and nothing is learned.",
    ),
    _val(
        name="val_score", title="validation", direction=UP, related="reward_mean val_best val_acc response_len_mean",
        help_text="Score on the held-out tasks, the number that the run is for. "
        "It is only logged now and then and is noisy for small test sets: look at several evaluations, not at one.",
    ),
    _val(
        name="val_best", title="validation best-of", direction=UP, related="val_score val_passk entropy",
        help_text="Validation score of the best of several answers to each task. "
        "If it falls while the mean rises, the policy grows narrow.",
    ),
    fraction(
        "val_passk", "pass@k", "validation", UP,
        "Share of held-out tasks of which at least one of k answers is right. "
        "It measures what the policy can reach, where the mean measures what it does by habit.",
        "val_score val_best entropy",
    ),
    fraction(
        "val_acc", "eval accuracy", "validation", UP,
        "Accuracy on the evaluation set. "
        "When it stays behind the training accuracy, the run memorises its data.",
        "val_loss dpo_accuracy rm_accuracy val_score",
    ),
    _val(
        name="val_loss", title="eval loss", direction=DOWN, related="loss val_acc",
        help_text="Loss on the evaluation set. "
        "Rising while the training loss falls is the mark of overfitting.",
    ),
    _val(
        name="val_margin", title="eval margin", direction=UP, related="dpo_margin val_acc val_loss",
        help_text="Mean reward margin between chosen and rejected answers of the evaluation set. "
        "It can keep growing while evaluation accuracy falls, so it does not prove progress by itself.",
    ),
    _val(
        name="val_aux", title="validation detail", direction=NONE, related="val_score val_best",
        help_text="A secondary number of the validation run, such as a worst-of-n score or a number of turns. "
        "It explains why the main score moved.",
    ),
    entry(
        "val_response_len", "eval length", "validation", Unit.TOKENS, NONE,
        "Mean length of the answers on the evaluation tasks. "
        "Together with the score it tells a better answer from a merely longer one.",
        "val_score response_len_mean", 0.0,
    ),
    fraction(
        "val_truncated_frac", "eval truncated", "validation", DOWN,
        "Share of evaluation answers that hit the length limit. "
        "Truncated answers usually count as wrong, which hides what the policy knows.",
        "val_score truncated_frac",
    ),
    fraction(
        "zero_std_frac", "no-contrast groups", "groups", DOWN,
        "Share of prompts whose answers all earned the same reward. "
        "Such groups have zero advantage and teach nothing; near 1 the run stands still.",
        "reward_std all_good_frac all_bad_frac reward_mean",
    ),
    _groups(
        name="zero_std_count", title="groups filtered", direction=DOWN, related="zero_std_frac filter_pass_rate",
        help_text="Number of groups dropped because their rewards do not differ. "
        "It is the price of dynamic sampling: every dropped group was generated for nothing.", low=0.0,
    ),
    fraction(
        "mixed_group_frac", "mixed groups", "groups", UP,
        "Share of prompts with both better and worse answers. "
        "Only these groups carry a learning signal.",
        "zero_std_frac all_good_frac all_bad_frac",
    ),
    fraction(
        "all_good_frac", "all-good groups", "groups", NONE,
        "Share of prompts that every answer solves. "
        "A high share means that the tasks have become too easy.",
        "mixed_group_frac all_bad_frac zero_std_frac",
    ),
    fraction(
        "all_bad_frac", "all-bad groups", "groups", DOWN,
        "Share of prompts that no answer solves. "
        "A high share means tasks that are too hard, or a reward function that rejects everything.",
        "mixed_group_frac all_good_frac zero_std_frac",
    ),
    _groups(
        name="filter_pass_rate", title="filter pass rate", direction=UP, related="zero_std_frac zero_std_count",
        help_text="How many generated samples survive dynamic filtering. "
        "The lower it is, the more generation is spent per useful sample.", low=0.0,
    ),
    _groups(
        name="group_len_ratio", title="group max/median", direction=DOWN, low=1.0,
        related="group_len_gini response_len_max truncated_frac time_step",
        help_text="Longest answer over median answer within a group, averaged over the groups of the step. "
        "The group waits for its longest member, so this is the factor by which stragglers stretch generation.",
    ),
    fraction(
        "group_len_gini", "group length Gini", "groups", DOWN,
        "Inequality of answer lengths within a group: 0 when all are equal, towards 1 when one holds all tokens. "
        "Unlike max over median it also sees several long answers among many short ones.",
        "group_len_ratio group_len_cv",
    ),
    _groups(
        name="group_len_cv", title="group length CV", direction=DOWN, related="group_len_ratio group_len_gini", low=0.0,
        help_text="Standard deviation over mean of the answer lengths within a group. "
        "It rises before the longest answer reaches the length limit.",
    ),
    fraction(
        "reward_gini", "reward Gini", "groups", NONE,
        "Inequality of the rewards within a group; not meaningful where rewards can be negative. "
        "Near 1 a few answers earn nearly everything.",
        "reward_std zero_std_frac",
    ),
    entry(
        "discarded_count", "groups discarded", "groups", Unit.COUNT, DOWN,
        "Samples or groups that were generated but not trained on. "
        "Every one of them is generation time lost.",
        "evicted_samples zero_std_count stale_count", 0.0,
    ),
    fraction(
        "discarded_stale_frac", "discarded: stale", "groups", DOWN,
        "Share of the discarded samples that were dropped because their policy was too old. "
        "A high share means that generation cannot keep up with the trainer.",
        "discarded_count staleness_mean",
    ),
    fraction(
        "discarded_zero_frac", "discarded: equal", "groups", DOWN,
        "Share of the discarded samples whose group earned one and the same reward. "
        "It is the price of tasks that are too easy or too hard.",
        "discarded_count zero_std_frac",
    ),
    entry(
        "cancelled_count", "cancelled", "groups", Unit.COUNT, DOWN,
        "Samples whose generation was stopped before it ended. "
        "What they had generated is lost.",
        "discarded_count cancelled_frac", 0.0,
    ),
    entry(
        "sample_count", "samples", "groups", Unit.COUNT, NONE,
        "Answers or experiences in this step. "
        "With dynamic sampling it varies, and statistics of few samples are noisy.",
        "zero_std_count discarded_count", 0.0,
    ),
    entry(
        "evicted_samples", "groups evicted", "groups", Unit.COUNT, DOWN,
        "Groups removed from the buffer because they had grown too old or their rewards do not differ. "
        "A rising count means that generation and training run at different speeds.",
        "discarded_count staleness_max", 0.0,
    ),
)  # fmt: skip
