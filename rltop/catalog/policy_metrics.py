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
        help_text="What the optimiser minimises; in RL the policy loss plus its regularisers. "
        "In supervised and preference training it should fall; in policy-gradient training single values say little "
        "and only a trend over many steps counts.",
    ),
    _policy(
        name="policy_loss", title="policy loss", direction=NONE, related="loss clip_frac kl_old grad_norm",
        help_text="Policy-gradient part of the loss. "
        "Sign and size change from step to step on healthy runs; only a sustained blow-up is a red flag.",
    ),
    _policy(
        name="nll_loss", title="NLL loss", direction=DOWN, related="loss token_accuracy logps_chosen",
        help_text="Negative log-likelihood of the target tokens. "
        "In preference training this term keeps the chosen completions likely.",
    ),
    _policy(
        name="aux_loss", title="auxiliary loss", direction=DOWN, related="loss moe_max_vio",
        help_text="Auxiliary term of the loss: load balancing of a mixture of experts, or what a backend of your own "
        "adds. "
        "Rising on a mixture of experts: the router sends its tokens to fewer of them.",
    ),
    _policy(
        name="moe_max_vio", title="expert imbalance", direction=DOWN, related="aux_loss",
        help_text="How far the busiest expert exceeds its fair share of tokens. "
        "Router collapse shows here before the reward moves.",
    ),
    _policy(
        name="grad_norm", title="gradient norm", direction=TARGET, related="lr loss clip_frac kl_old", low=0.0,
        help_text="L2 norm of the gradient before clipping. "
        "Isolated spikes are common on healthy runs; repeated spikes, a steady climb or NaN are not.",
    ),
    _policy(
        name="lr", title="learning rate", direction=NONE, related="grad_norm kl_old loss", low=0.0,
        help_text="Learning rate as scheduled. "
        "If loss, KL and gradient norm jump together, check the schedule first.",
    ),
    _policy(
        name="lr_scheduler", title="LR scheduler", direction=NONE, related="lr grad_norm",
        help_text="State of the learning-rate scheduler, such as its step or its factor. "
        "It should advance evenly; after a resume it must go on where it stopped.",
    ),
    entry(
        "entropy", "entropy", "policy", Unit.NATS, TARGET,
        "Mean entropy of the policy per token. "
        "It falls as the policy commits; a sudden drop without a gain in reward is entropy collapse.",
        "reward_std zero_std_frac clip_frac kl_ref", 0.0,
    ),
    entry(
        "action_entropy", "action entropy", "policy", Unit.NATS, TARGET,
        "Mean entropy of the distribution over actions in classic RL; continuous actions can have a negative one. "
        "It falls as the policy converges, to 0 on a solved task: judge it together with the return.",
        "reward_mean kl_old clip_frac episode_len",
    ),
    entry(
        "entropy_seq", "sequence entropy", "policy", Unit.NATS, TARGET,
        "Entropy summed over a whole completion, so it grows with length. "
        "Compare it only with its own history, next to the response length.",
        "entropy response_len_mean",
    ),
    fraction(
        "clip_frac", "clip fraction", "policy", TARGET,
        "Share of tokens, or of actions on embodied policies, whose probability ratio was clipped. "
        "Token-level runs of language models show 0.1–1 %, embodied PPO some 12 %; with one update per rollout it is "
        "0 by construction.",
        "kl_old ratio_mean lr grad_norm",
    ),
    fraction(
        "clip_frac_low", "clip fraction low", "policy", TARGET,
        "Share of tokens clipped at the lower bound: negative advantage, and already less likely. "
        "Far above the upper bound's share, the policy mostly unlearns.",
        "clip_frac clip_frac_high",
    ),
    fraction(
        "clip_frac_high", "clip fraction high", "policy", TARGET,
        "Share of tokens clipped at the upper bound: positive advantage, and already more likely. "
        "A higher upper bound (clip-higher) lets such tokens grow further and keeps entropy up.",
        "clip_frac clip_frac_low entropy",
    ),
    fraction(
        "clip_frac_low_min", "clip low, min", "policy", NONE,
        "Smallest share of tokens clipped at the lower bound, over ranks and batches. "
        "A wide gap to the mean means uneven batches.",
        "clip_frac_low",
    ),
    fraction(
        "clip_frac_high_max", "clip high, max", "policy", NONE,
        "Largest share of tokens clipped at the upper bound, over ranks and batches. "
        "One bad batch shows here before it moves the mean.",
        "clip_frac_high",
    ),
    fraction(
        "clip_frac_lower", "dual-clip fraction", "policy", DOWN,
        "Share of tokens with negative advantage whose ratio passed the second clip bound. "
        "Close to zero on healthy runs.",
        "clip_frac ratio_mean",
    ),
    entry(
        "kl_old", "step KL", "policy", Unit.NATS, TARGET,
        "KL between the policy before and after the updates of this step, per token; some estimators can be negative. "
        "Large values: the updates are too big for the data they rest on.",
        "clip_frac ratio_mean lr grad_norm",
    ),
    entry(
        "kl_ref", "KL to reference", "policy", Unit.NATS, TARGET,
        "KL between policy and reference model: per token, or summed over the completion (objective/kl). "
        "Treat it as a budget: KL that grows while the reward does not is a warning.",
        "reward_mean kl_coef response_len_mean entropy",
    ),
    _policy(
        name="kl_coef", title="KL coefficient", direction=NONE, related="kl_ref kl_reward", low=0.0,
        help_text="Weight of the KL term. "
        "If a controller adapts it and it keeps rising, the policy drifts away faster than the penalty can hold it.",
    ),
    entry(
        "kl_teacher", "KL to teacher", "policy", Unit.NATS, DOWN,
        "KL between student and teacher on the student's own samples. "
        "Distillation works while this falls and the completions stay well-formed.",
        "entropy response_len_mean loss",
    ),
    _policy(
        name="distill_loss", title="distillation loss", direction=DOWN, related="kl_teacher entropy",
        help_text="Loss against the teacher's distribution. "
        "It should fall and level off.",
    ),
    _policy(
        name="ratio_mean", title="importance ratio", direction=TARGET, related="clip_frac kl_old ratio_var", low=0.0,
        help_text="Mean ratio of a token's probability now to its probability when the step began. "
        "It should stay near 1; far from it the update rests on data of another policy.",
    ),
    _policy(
        name="ratio_clipped", title="clipped ratio", direction=TARGET, related="ratio_mean clip_frac", low=0.0,
        help_text="Mean importance ratio after clipping: a ratio, not a share of tokens. "
        "It stays near 1; its gap to the ratio before clipping is what clipping takes away.",
    ),
    _policy(
        name="ratio_var", title="ratio variance", direction=DOWN, related="ratio_mean clip_frac", low=0.0,
        help_text="Variance of the importance ratio. "
        "It grows before the mean leaves 1.",
    ),
    entry(
        "stop_count", "EOS count", "policy", Unit.COUNT, NONE,
        "EOS tokens in the batch: how many completions finished. "
        "At zero no completion emits EOS any more.",
        "truncated_frac response_len_mean", 0.0,
    ),
    _critic(
        name="value_loss", title="value loss", direction=DOWN, related="explained_var value_mean return_mean", low=0.0,
        help_text="Regression loss of the critic against the returns. "
        "It starts high and should fall within tens of steps; if it never does, check the reward scale first.",
    ),
    _critic(
        name="value_mean", title="value", direction=TARGET, related="return_mean value_loss",
        help_text="Mean value predicted by the critic. "
        "It should sit on the scale of the returns.",
    ),
    _critic(
        name="explained_var", title="explained variance", direction=UP, related="value_loss value_mean", high=1.0,
        help_text="Share of the variance of the returns that the critic explains; 1 is perfect. "
        "Below 0 it does worse than a constant and the advantages are noise.",
    ),
    _critic(
        name="td_error", title="TD error", direction=NONE, related="q_mean value_loss",
        help_text="Mean temporal-difference error of the critic in off-policy RL. "
        "It follows the scale of the returns; only a blow-up says something.",
    ),
    _critic(
        name="q_mean", title="Q value", direction=NONE, related="q_max q_min td_error reward_mean",
        help_text="Mean action value that the critic predicts. "
        "It should settle on the scale of the returns; far above them it overestimates.",
    ),
    _critic(
        name="q_max", title="max Q value", direction=NONE, related="q_mean q_min",
        help_text="Largest action value that the critic predicts in the batch. "
        "It runs away first where the critic diverges.",
    ),
    _critic(
        name="q_min", title="min Q value", direction=NONE, related="q_mean q_max",
        help_text="Smallest action value that the critic predicts in the batch. "
        "It runs away first where the critic diverges.",
    ),
    _policy(
        name="sac_alpha", title="temperature", direction=NONE, related="sac_alpha_loss action_entropy", low=0.0,
        help_text="Weight of the entropy term of SAC. "
        "It falls until the policy has the target entropy.",
    ),
    _policy(
        name="sac_alpha_loss", title="temperature loss", direction=NONE, related="sac_alpha",
        help_text="Loss of SAC's temperature. "
        "Its sign says whether the entropy is above or below its target.",
    ),
    _policy(
        name="sac_target_entropy", title="target entropy", direction=NONE, related="sac_alpha action_entropy",
        help_text="Entropy that SAC's temperature is tuned for. "
        "A setting, usually minus the number of action dimensions.",
    ),
    fraction(
        "clip_frac_value", "value clip frac", "critic", TARGET,
        "Share of value updates that were clipped. "
        "High in the first steps; it should fall once the critic has found the scale of the returns.",
        "value_loss explained_var",
    ),
    _critic(
        name="grad_norm_critic", title="critic grad norm", direction=TARGET, related="value_loss lr_critic", low=0.0,
        help_text="L2 norm of the critic's gradient before clipping. "
        "Very large values in the first 20 steps are normal.",
    ),
    _critic(
        name="lr_critic", title="critic LR", direction=NONE, related="value_loss grad_norm_critic", low=0.0,
        help_text="Learning rate of the critic. "
        "Commonly higher than the policy's.",
    ),
)  # fmt: skip
