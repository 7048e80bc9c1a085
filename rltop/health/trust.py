"""The trust region: clipping, step KL, importance ratio.

Every one of these numbers has more than one unit or regime, and no line holds
for all of them: the judges choose the regime first.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.derive.rolling import Frozen, Window
from rltop.health import scope
from rltop.health.judges import Above
from rltop.health.moment import Moment
from rltop.health.rule import CRIT, INFO, QUIET, RELEASE, WARN, Group, Judge, Patience, Reading, RuleSpec
from rltop.model import Algorithm, Evidence, Unit
from rltop.units import number, percent

_MIN_SAMPLES = 10
_WINDOW = 50
_SEQUENCE_CLIP = 0.03
_SEQUENCE_KL = 1e-3
_MEDIAN_OF = 5


class ClipFraction(Judge):
    """O6: share of tokens (or sequences, GSPO) whose update was clipped.

    Sequence-level clipping cuts two orders of magnitude more, with a step KL of
    almost nothing; there only the change against the run's own start counts.
    """

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.window = Window(_WINDOW)
        self.start = Frozen()
        self.lowest = min(limits["rise_floor"], limits["warn"]) * RELEASE
        self.embodied = limits["embodied_warn"], limits["embodied_crit"]

    def read(self, now: Moment) -> Reading | None:
        """Absolute lines from the first record; the ratio once ten are known."""
        value = now.values.get("clip_frac")
        if value is None:
            return None
        window, start = self.window, self.start
        if not start.is_final:
            start.push(value)
        if value <= self.lowest:
            window.push(value)
            return QUIET
        usual, known = window.median, window.count
        window.push(value)
        if now.algorithm is not Algorithm.EMBODIED and self._is_sequence_level(value, now.values):
            return self._sequence_level(value)
        return self._token_level(value, usual, known, now.algorithm)

    def _token_level(self, value: float, usual: float, known: int, algorithm: Algorithm) -> Reading:
        warn, crit = self.limits["warn"], self.limits["crit"]
        if algorithm is Algorithm.EMBODIED:
            warn, crit = self.embodied
        factor = RELEASE if self.is_firing else 1.0
        if value > crit * factor:
            return Reading(CRIT, value, usual, crit)
        if value > warn * factor:
            return Reading(WARN, value, usual, warn)
        rise = self.limits["rise"] * usual
        if algorithm is Algorithm.EMBODIED or known < _MIN_SAMPLES or not 0.0 < rise < value:
            return QUIET
        return Reading(WARN, value, usual, rise) if value > self.limits["rise_floor"] else QUIET

    def _is_sequence_level(self, value: float, values: Mapping[str, float]) -> bool:
        step_kl = values.get("kl_old")
        return value > _SEQUENCE_CLIP and step_kl is not None and abs(step_kl) < _SEQUENCE_KL

    def _sequence_level(self, value: float) -> Reading:
        base = self.start.value
        if value > self.limits["sequence_warn"]:
            return Reading(WARN, value, base, self.limits["sequence_warn"])
        if base is not None and base > 0.0 and value > self.limits["sequence_rise"] * base and value > _SEQUENCE_CLIP:
            return Reading(WARN, value, base, self.limits["sequence_rise"] * base)
        return QUIET

    def headline(self, reading: Reading) -> str:
        """Share and usual share."""
        usual = f" (usually {percent(reading.baseline)})" if reading.baseline is not None else ""
        return f"{percent(reading.value)} of the update is clipped, line {percent(reading.threshold or 0)}{usual}"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Share, usual share, line."""
        return (
            Evidence("clip_frac", reading.value, Unit.FRACTION),
            Evidence("usual", reading.baseline or 0.0, Unit.FRACTION),
            Evidence("threshold", reading.threshold or 0.0, Unit.FRACTION),
        )


class StepKl(Judge):
    """O9: how far one batch of updates moved the policy, in nats per token.

    A signed (k1) estimate is noise around zero: the median of five counts. k2
    and k3 estimates cannot be negative and count as they are.
    """

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.window = Window(_MEDIAN_OF)
        self.small = 0

    def read(self, now: Moment) -> Reading | None:
        """Lines by estimator, by scale (embodied) and by what the ratio is taken against (async)."""
        value = now.values.get("kl_old")
        if value is None:
            return None
        limits = self.limits
        warn = limits["warn"]
        if now.traits.kl_is_signed:
            warn = limits["signed_warn"]
            self.window.push(value)
            self.small = self.small + 1 if abs(value) <= warn * RELEASE else 0
            if self.small > _MEDIAN_OF // 2 or self.window.count < _MEDIAN_OF:
                return QUIET
            value = abs(self.window.median)
        if value <= warn * RELEASE:
            return QUIET
        crit = limits["crit"]
        if now.algorithm is Algorithm.EMBODIED:
            warn = limits["signed_warn"]
        if now.traits.is_async:
            warn, crit = warn * limits["async_factor"], crit * limits["async_factor"]
        if self.is_firing:
            warn, crit = warn * RELEASE, crit * RELEASE
        if value > crit:
            return Reading(CRIT, value, None, crit)
        return Reading(WARN, value, None, warn) if value > warn else QUIET

    def headline(self, reading: Reading) -> str:
        """Distance and line."""
        return (
            f"one batch of updates moved the policy by {number(reading.value)} nats per token, line "
            f"{number(reading.threshold or 0)}"
        )

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Distance and line."""
        return (
            Evidence("kl_old", reading.value, Unit.NATS),
            Evidence("threshold", reading.threshold or 0.0, Unit.NATS),
        )


class ImportanceRatio(Judge):
    """O10: mean importance ratio against the run's own start.

    Not against 1: some trainers read 0.5 or 0.97 all along by construction
    (averages over minibatches that were skipped, precision offsets).
    """

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.start = Frozen()
        self.warn = limits["warn"]

    def read(self, now: Moment) -> Reading | None:
        """Relative deviation from the frozen baseline."""
        value = now.values.get("ratio_mean")
        if value is None:
            return None
        start = self.start
        base = start.value
        if not start.is_final:
            start.push(value)
        if base is None or base <= 0.0:
            return QUIET
        relative = value / base
        warn = self.warn * RELEASE if self.is_firing else self.warn
        if 1.0 - warn <= relative <= 1.0 + warn:
            return QUIET
        crit = self.limits["crit"]
        level = CRIT if relative > crit or relative < 1.0 / crit else WARN
        return Reading(level, value, base, base * (1.0 + (self.warn if relative > 1 else -self.warn)))

    def headline(self, reading: Reading) -> str:
        """Ratio now and at the start."""
        return f"importance ratio {number(reading.value)}, was {number(reading.baseline or 0)} at the start"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Ratio, baseline, line."""
        return (
            Evidence("ratio_mean", reading.value),
            Evidence("baseline", reading.baseline or 0.0),
            Evidence("threshold", reading.threshold or 0.0),
        )


_CLIP_NEXT = ("kl_old", "ratio_mean", "lr", "off_policy_kl", "staleness_mean", "grad_norm")
_UPDATE_CAUSES = (
    "learning rate too high",
    "too many minibatches or epochs per rollout",
    "stale rollouts",
    "a tiny batch",
)

RULES = (
    RuleSpec(
        id="O6",
        title="clip fraction",
        family="clip",
        group=Group.LEARNING,
        metrics=("clip_frac",),
        judge=ClipFraction,
        condition="5 of 10 records. Tokens: above `warn`, or above `rise`× the usual and `rise_floor`: WARN; "
        "above `crit`: "
        "CRIT. Sequence-level clipping (GSPO: much clipping at a step KL below 1e-3): above `sequence_rise`× the "
        "start, or "
        "above `sequence_warn`: WARN. Embodied: `embodied_warn` and `embodied_crit`. Off with one update per rollout, "
        "where it is 0 by construction.",
        limits={
            "warn": 0.05,
            "crit": 0.2,
            "rise": 10.0,
            "rise_floor": 0.02,
            "sequence_rise": 2.0,
            "sequence_warn": 0.7,
            "embodied_warn": 0.3,
            "embodied_crit": 0.5,
        },
        patience={INFO: Patience(5, 10), WARN: Patience(5, 10), CRIT: Patience(5, 10)},
        applies=scope.has_trust_region,
        why="It shows how often the update hits the edge of the trust region; language models usually clip 0.1 "
        "to 1 % of "
        "tokens, not the 10 to 30 % of textbooks.",
        causes=_UPDATE_CAUSES,
        next=_CLIP_NEXT,
        sources="TRL issue 3120 (0 by construction); published veRL runs: median 0.001 to 0.004, maximum 0.009; "
        "Stable-Baselines3 docs: 0.24 for classic PPO; GSPO paper: two orders of magnitude above GRPO.",
    ),
    RuleSpec(
        id="O8",
        title="dual clip",
        family="clip",
        group=Group.LEARNING,
        metrics=("clip_frac_lower",),
        judge=lambda limits: Above(
            limits,
            metric="clip_frac_lower",
            text="{value} of tokens hit the lower bound for negative advantages, line {line}",
            unit=Unit.FRACTION,
        ),
        condition="Above `warn` in 3 of 5 records.",
        limits={"warn": 0.005},
        patience={WARN: Patience(3, 5), INFO: Patience(3, 5)},
        applies=scope.has_token_clip,
        why="The lower bound only cuts ratios that are far off on bad answers; it is practically 0 on a healthy run.",
        causes=_UPDATE_CAUSES,
        next=_CLIP_NEXT,
        sources="veRL issue 7412: 6e-7 on a healthy run.",
    ),
    RuleSpec(
        id="O9",
        title="step KL",
        family="kl",
        group=Group.LEARNING,
        metrics=("kl_old",),
        judge=StepKl,
        condition="2 of 5 records. Estimates that cannot be negative: above `warn`; signed estimates: median of "
        "five above "
        "`signed_warn` in size; both: CRIT above `crit`. Asynchronous training, where it is measured against the "
        "rollout "
        "policy: lines × `async_factor`.",
        limits={"warn": 0.02, "signed_warn": 0.03, "crit": 0.1, "async_factor": 3.0},
        patience={INFO: Patience(2, 5), WARN: Patience(2, 5), CRIT: Patience(2, 5)},
        applies=scope.has_trust_region,
        why="The policy moved too far within one batch: what was sampled no longer says much about it.",
        causes=(*_UPDATE_CAUSES, "dropout left on", "log-probabilities recomputed in another precision"),
        next=("clip_frac", "ratio_mean", "grad_norm", "lr", "entropy"),
        sources="spinningup ppo.py stops at 1.5 × 0.01; Stable-Baselines3 ppo.py likewise; TRL PPO docs.",
    ),
    RuleSpec(
        id="O10",
        title="importance ratio",
        family="ratio",
        group=Group.LEARNING,
        metrics=("ratio_mean",),
        judge=ImportanceRatio,
        condition="Farther than `warn` (relative) from the run's own start in 3 of 5 records: WARN; beyond a "
        "factor of `crit`: "
        "CRIT.",
        limits={"warn": 0.1, "crit": 2.0},
        patience={INFO: Patience(3, 5), WARN: Patience(3, 5), CRIT: Patience(3, 5)},
        warm_up=13,
        applies=scope.has_trust_region,
        why="The mean ratio is near its starting value as long as new and old policy agree on what was sampled.",
        causes=_UPDATE_CAUSES,
        next=("clip_frac", "kl_old", "lr", "off_policy_kl"),
        sources="TRL issues 454 and 1857; the baseline instead of 1 because TRL PPO reads 0.97 or 0.5 on healthy runs.",
    ),
)
