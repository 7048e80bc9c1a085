"""Training on pairs and labels: DPO, KTO, reward models, supervised."""

from __future__ import annotations

from functools import partial

from rltop.catalog.entry import DOWN, NONE, TARGET, UP, entry, fraction
from rltop.model import Unit

_pref = partial(entry, section="preference", unit=Unit.NONE)
_judge = partial(entry, section="reward model", unit=Unit.NONE)

ENTRIES = (
    fraction(
        "dpo_accuracy", "pair accuracy", "preference", UP,
        "Share of pairs in which the chosen completion has the higher implicit reward. "
        "It starts at 50 % or below; 60–80 % is typical on human pairs, 100 % suggests overfitting.",
        "dpo_margin val_acc loss",
    ),
    _pref(
        name="dpo_margin", title="reward margin", direction=UP, related="dpo_accuracy dpo_chosen dpo_rejected",
        help_text="Implicit reward of the chosen completion minus that of the rejected one. "
        "It should grow and then level off; growth without end is overfitting.",
    ),
    _pref(
        name="dpo_chosen", title="chosen reward", direction=NONE, related="dpo_rejected dpo_margin logps_chosen",
        help_text="Implicit reward of the chosen completions, relative to the reference model. "
        "It may drop below zero on healthy runs as long as that of the rejected ones drops faster.",
    ),
    _pref(
        name="dpo_rejected", title="rejected reward", direction=DOWN, related="dpo_chosen dpo_margin logps_rejected",
        help_text="Implicit reward of the rejected completions, relative to the reference model. "
        "It should fall.",
    ),
    entry(
        "logps_chosen", "chosen logp", "preference", Unit.NATS, TARGET,
        "Log-probability of the chosen completions, summed over tokens. "
        "A large drop is likelihood displacement: probability moves to completions that are in neither column.",
        "logps_rejected dpo_chosen nll_loss",
    ),
    entry(
        "logps_rejected", "rejected logp", "preference", Unit.NATS, NONE,
        "Log-probability of the rejected completions, summed over tokens. "
        "It should fall, and faster than that of the chosen ones.",
        "logps_chosen dpo_rejected",
    ),
    _pref(
        name="logits_chosen", title="chosen logits", direction=NONE, related="logits_rejected logps_chosen",
        help_text="Mean logit over the tokens of the chosen completions. "
        "It has no scale of its own; only a jump says something.",
    ),
    _pref(
        name="logits_rejected", title="rejected logits", direction=NONE, related="logits_chosen logps_rejected",
        help_text="Mean logit over the tokens of the rejected completions. "
        "It has no scale of its own; only a jump says something.",
    ),
    fraction(
        "token_accuracy", "token accuracy", "preference", UP,
        "Share of target tokens that the model ranks first. "
        "It rises as the model fits the data; close to 100 % the data are memorised.",
        "loss nll_loss val_loss",
    ),
    fraction(
        "rm_accuracy", "pair accuracy", "reward model", UP,
        "Share of pairs that the reward model ranks as labelled. "
        "50 % is chance; close to 100 % on training pairs, check the evaluation pairs.",
        "rm_margin val_acc loss",
    ),
    _judge(
        name="rm_loss", title="reward model loss", direction=DOWN, related="rm_accuracy rm_margin",
        help_text="Preference loss of a reward model that is trained beside the policy. "
        "Chance is ln 2 = 0.693 on pairs; it should fall below.",
    ),
    _judge(
        name="rm_grad_norm", title="gradient norm", direction=TARGET, related="rm_loss", low=0.0,
        help_text="L2 norm of the gradient of a reward model that is trained beside the policy, before clipping. "
        "Isolated spikes are common; repeated ones are not.",
    ),
    _judge(
        name="rm_margin", title="score margin", direction=UP, related="rm_accuracy rm_reward_mean",
        help_text="Mean score of the chosen minus that of the rejected completions. "
        "Near zero the model no longer tells them apart.",
    ),
    _judge(
        name="rm_chosen", title="chosen score", direction=UP, related="rm_rejected rm_accuracy rm_margin",
        help_text="Mean score of the chosen completions. "
        "Only the gap to the rejected ones counts, not the level.",
    ),
    _judge(
        name="rm_rejected", title="rejected score", direction=DOWN, related="rm_chosen rm_accuracy rm_margin",
        help_text="Mean score of the rejected completions. "
        "Only the gap to the chosen ones counts, not the level.",
    ),
    _judge(
        name="rm_reward_mean", title="mean score", direction=TARGET, related="rm_margin rm_reward_min rm_reward_max",
        help_text="Mean output of the reward model. "
        "Pairs fix differences only, so the level may drift; a large drift makes scores hard to compare.",
    ),
    _judge(
        name="rm_reward_min", title="lowest score", direction=NONE, related="rm_reward_mean rm_reward_max",
        help_text="Lowest output of the reward model in the step. "
        "With the highest it gives the range of the scale.",
    ),
    _judge(
        name="rm_reward_max", title="highest score", direction=NONE, related="rm_reward_mean rm_reward_min",
        help_text="Highest output of the reward model in the step. "
        "With the lowest it gives the range of the scale.",
    ),
)  # fmt: skip
