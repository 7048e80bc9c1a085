"""What the optimiser does: loss, trust region, entropy, critic."""

from __future__ import annotations

from functools import partial

from rltop.catalog.entry import DOWN, NONE, TARGET, UP, entry, fraction
from rltop.model import Unit

_policy = partial(entry, section="policy", unit=Unit.NONE)
_critic = partial(entry, section="critic", unit=Unit.NONE)

ENTRIES = (
    _policy(
        name="loss", title="loss", direction=DOWN, related="grad_norm lr policy_loss val_loss",
        help_text="The number that the optimiser minimises. "
        "For supervised and preference training it should fall; for policy gradients it hovers and says little.",
    ),
    _policy(
        name="policy_loss", title="policy loss", direction=NONE, related="loss clip_frac kl_old grad_norm",
        help_text="The policy-gradient part of the loss. "
        "Its sign and size change from step to step on healthy runs; only a lasting blow-up is a signal.",
    ),
    _policy(
        name="nll_loss", title="NLL loss", direction=DOWN, related="loss token_accuracy logps_chosen",
        help_text="Negative log-likelihood of the target tokens. "
        "In preference training it keeps the chosen answers likely.",
    ),
    _policy(
        name="aux_loss", title="auxiliary loss", direction=DOWN, related="loss moe_max_vio",
        help_text="Load-balancing loss of a mixture-of-experts model. "
        "When it rises, the router sends its tokens to fewer experts.",
    ),
    _policy(
        name="moe_max_vio", title="expert imbalance", direction=DOWN, related="aux_loss",
        help_text="How far the busiest expert exceeds its fair share of tokens. "
        "A collapsed router shows here before it shows in the reward.",
    ),
    _policy(
        name="grad_norm", title="gradient norm", direction=TARGET, related="lr loss clip_frac kl_old", low=0.0,
        help_text="Length of the gradient before clipping. "
        "Lone spikes are common on healthy runs; repeated spikes, a steady climb or NaN are not.",
    ),
    _policy(
        name="lr", title="learning rate", direction=NONE, related="grad_norm kl_old loss", low=0.0,
        help_text="Step size of the optimiser as scheduled. "
        "When loss, KL and gradient jump together, look here first.",
    ),
    entry(
        "entropy", "entropy", "policy", Unit.NATS, TARGET,
        "Mean uncertainty of the policy per token. "
        "It is the budget for exploration: it falls as the policy commits; a sudden fall without reward is collapse.",
        "reward_std zero_std_frac clip_frac kl_ref", 0.0,
    ),
    entry(
        "entropy_seq", "sequence entropy", "policy", Unit.NATS, TARGET,
        "Uncertainty summed over a whole answer, so it grows with length. "
        "Compare it only with itself, and read it beside the response length.",
        "entropy response_len_mean",
    ),
    fraction(
        "clip_frac", "clip fraction", "policy", TARGET,
        "Share of tokens whose update was cut off at the edge of the trust region. "
        "With one update per rollout it is zero by construction; token-level runs of language models show 0.1 to 1 %.",
        "kl_old ratio_mean lr grad_norm",
    ),
    fraction(
        "clip_frac_low", "clipped low", "policy", TARGET,
        "Share of tokens cut off at the lower edge: bad tokens that were already becoming unlikely. "
        "Much more of this than of the upper edge means that the policy mostly unlearns.",
        "clip_frac clip_frac_high",
    ),
    fraction(
        "clip_frac_high", "clipped high", "policy", TARGET,
        "Share of tokens cut off at the upper edge: good tokens that were already becoming likely. "
        "A raised upper limit lets such tokens grow further and keeps entropy up.",
        "clip_frac clip_frac_low entropy",
    ),
    fraction(
        "clip_frac_low_min", "clipped low, least", "policy", NONE,
        "Smallest share of tokens cut off at the lower edge over ranks and batches. "
        "Its distance from the mean shows how uneven the batches are.",
        "clip_frac_low",
    ),
    fraction(
        "clip_frac_high_max", "clipped high, most", "policy", NONE,
        "Largest share of tokens cut off at the upper edge over ranks and batches. "
        "A single bad batch shows here before it moves the mean.",
        "clip_frac_high",
    ),
    fraction(
        "clip_frac_lower", "dual clip", "policy", DOWN,
        "Share of tokens with a negative advantage whose ratio ran past the second bound. "
        "It is nearly zero on healthy runs.",
        "clip_frac ratio_mean",
    ),
    entry(
        "kl_old", "step KL", "policy", Unit.NATS, TARGET,
        "How far the policy moved within this step, per token; some estimators may be negative. "
        "Large values mean that the updates are too big for the data they rest on.",
        "clip_frac ratio_mean lr grad_norm",
    ),
    entry(
        "kl_ref", "KL to reference", "policy", Unit.NATS, TARGET,
        "How far the policy is from the reference model, per token or summed over the answer by trainer. "
        "It is a budget: distance without reward is a warning.",
        "reward_mean kl_coef response_len_mean entropy",
    ),
    _policy(
        name="kl_coef", title="KL coefficient", direction=NONE, related="kl_ref kl_reward", low=0.0,
        help_text="Weight of the KL term. "
        "If a controller adapts it and it keeps rising, the policy pulls away faster than it can be held.",
    ),
    entry(
        "kl_teacher", "KL to teacher", "policy", Unit.NATS, DOWN,
        "Distance between student and teacher on the student's own samples. "
        "Distillation works while this falls and the answers stay whole.",
        "entropy response_len_mean loss",
    ),
    _policy(
        name="distill_loss", title="distillation loss", direction=DOWN, related="kl_teacher entropy",
        help_text="Loss against the teacher's distribution. "
        "It should fall and level off.",
    ),
    _policy(
        name="ratio_mean", title="importance ratio", direction=TARGET, related="clip_frac kl_old ratio_var", low=0.0,
        help_text="Mean probability of the tokens now over their probability when they were sampled. "
        "It belongs near 1; far from it the update rests on data of another policy.",
    ),
    _policy(
        name="ratio_var", title="ratio variance", direction=DOWN, related="ratio_mean clip_frac", low=0.0,
        help_text="Variance of the importance ratio. "
        "It grows before the mean leaves 1.",
    ),
    entry(
        "stop_count", "answers ended", "policy", Unit.COUNT, NONE,
        "Number of end-of-sequence tokens among the answers. "
        "When it drops to zero, the policy has forgotten how to stop.",
        "truncated_frac response_len_mean", 0.0,
    ),
    _critic(
        name="value_loss", title="value loss", direction=DOWN, related="explained_var value_mean return_mean", low=0.0,
        help_text="Squared error of the critic against the returns. "
        "It starts high and should fall within the first tens of steps.",
    ),
    _critic(
        name="value_mean", title="value", direction=TARGET, related="return_mean value_loss",
        help_text="Mean prediction of the critic. "
        "It should sit on the scale of the returns.",
    ),
    _critic(
        name="explained_var", title="explained variance", direction=UP, related="value_loss value_mean", high=1.0,
        help_text="Share of the variance of the returns that the critic predicts; 1 is perfect. "
        "Below zero the critic is worse than a constant and its advantages are noise.",
    ),
    fraction(
        "clip_frac_value", "value clipped", "critic", TARGET,
        "Share of value updates that were cut off. "
        "High in the first steps, it should fall once the critic has found the scale.",
        "value_loss explained_var",
    ),
    _critic(
        name="grad_norm_critic", title="critic gradient", direction=TARGET, related="value_loss lr_critic", low=0.0,
        help_text="Length of the critic's gradient before clipping. "
        "Very large values in the first twenty steps are usual.",
    ),
    _critic(
        name="lr_critic", title="critic rate", direction=NONE, related="value_loss grad_norm_critic", low=0.0,
        help_text="Learning rate of the critic. "
        "It is commonly larger than the policy's.",
    ),
)  # fmt: skip
