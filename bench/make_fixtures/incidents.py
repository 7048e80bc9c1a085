"""Writes the fixtures of reported incidents: `python bench/make_fixtures/incidents.py` fills fixtures/incidents/.

The numbers at the points named here are those of public reports; values between them are
interpolated, with seeded noise if the report says that the run was steady. Each case.toml
says which is which. Some runs are healthy but look alarming: they must raise no alert.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

TARGET = Path(__file__).parents[2] / "fixtures" / "incidents"
Series = Callable[[int], float | None]
Row = dict[str, float | None]

_NAN = math.nan


def steady(centre: float, spread: float = 0.05, seed: int = 1) -> Series:
    """A level with relative Gaussian noise, the same on every call."""
    return lambda step: centre * random.Random(f"{seed}/{centre}/{step}").gauss(1.0, spread)


def through(points: Mapping[int, float], spread: float = 0.0, seed: int = 1) -> Series:
    """Reported points with straight lines between them, constant before the first and after the last."""
    steps = sorted(points)

    def value(step: int) -> float:
        if step <= steps[0]:
            found = points[steps[0]]
        elif step >= steps[-1]:
            found = points[steps[-1]]
        else:
            right = next(one for one in steps if one >= step)
            left = max(one for one in steps if one <= step)
            part = 0.0 if right == left else (step - left) / (right - left)
            found = points[left] + part * (points[right] - points[left])
        return found * random.Random(f"{seed}/{step}").gauss(1.0, spread) if spread else found

    return value


def until(step: int, before: Series, after: Series) -> Series:
    """One series before `step`, another from there on."""
    return lambda now: before(now) if now < step else after(now)


def always(value: float | None) -> Series:
    return lambda _: value


def listed(values: list[float], every: int = 1) -> Series:
    """Values as reported, one per record, the last one repeated."""
    return lambda step: values[min(step // every - 1, len(values) - 1)]


def _short(value: float | None) -> float | None:
    """Six significant digits, as trainers print them."""
    return value if value is None or math.isnan(value) else float(f"{value:.6g}")


def verl(steps: range, series: Mapping[str, Series]) -> Iterator[str]:
    """Rows of veRL's own file logger, which writes NaN as null."""
    for step in steps:
        row = {key: _short(make(step)) for key, make in series.items()}
        data = {key: None if value is not None and math.isnan(value) else value for key, value in row.items()}
        yield json.dumps({"step": step, "data": {"training/global_step": step, **data}})


def trl(steps: range, series: Mapping[str, Series]) -> Iterator[str]:
    """Rows of a transformers trainer: flat, NaN as a literal."""
    for step in steps:
        row = {key: value for key, make in series.items() if (value := _short(make(step))) is not None}
        yield json.dumps({"step": step, "epoch": step / 1000, **row})


def tinker(steps: range, series: Mapping[str, Series]) -> Iterator[str]:
    """Rows of tinker-cookbook's metrics.jsonl."""
    for step in steps:
        yield json.dumps({"step": step} | {key: _short(make(step)) for key, make in series.items()})


def _garbage() -> Iterator[str]:
    grad = [421404.0, 100282.0, 10606.0, 34915.0, 709.0, 60.0, 517.0, 1.13, 3.4, 5.8, 5.7, 0.09]
    kl = [10833.0, 1678.0, 907.0, 1291.0, 65.0, 14.0, 5.1, 2.5, 1.06, 0.46, 0.32, 0.20]
    return trl(
        range(10, 130, 10),
        {
            "loss": always(0.0),
            "grad_norm": listed(grad, 10),
            "learning_rate": always(1e-6),
            "completions/mean_length": always(128.0),
            "completions/max_length": always(128.0),
            "completions/clipped_ratio": through({10: 0.975, 20: 0.98, 40: 1.0}),
            "reward": through({10: 0.024, 20: 0.01, 30: 0.0}),
            "reward_std": through({10: 0.05, 20: 0.02, 30: 0.0}),
            "frac_reward_zero_std": through({10: 0.975, 30: 0.99, 50: 1.0}),
            "kl": listed(kl, 10),
        },
    )


def _chemistry() -> Iterator[str]:
    return verl(
        range(1, 271),
        {
            "actor/entropy": until(257, steady(0.111), listed_from(257, [0.008, 0.0015, 0.0012])),
            "actor/grad_norm": steady(0.2, 0.15),
            "actor/pg_loss": steady(0.01, 0.5),
            "actor/lr": always(1e-5),
            "critic/score/mean": until(
                258, through({1: 0.3, 256: 0.55}, 0.04), listed_from(258, [0.016, 0.012, 0.008, 0.004])
            ),
            "critic/rewards/mean": until(
                258, through({1: 0.3, 256: 0.55}, 0.04), listed_from(258, [0.016, 0.012, 0.008, 0.004])
            ),
            "response_length/mean": until(258, steady(2100.0), always(7767.0)),
            "response_length/max": always(8192.0),
            "response_length/clip_ratio": until(258, steady(0.02), always(0.93)),
            "timing_s/step": steady(210.0),
            "perf/throughput": steady(900.0),
        },
    )


def listed_from(start: int, values: list[float]) -> Series:
    """Values from a step on, one per step, the last one repeated."""
    return lambda step: values[min(step - start, len(values) - 1)]


def _death_spiral() -> Iterator[str]:
    score = {5: 0.2031, 10: 0.0078, 15: 0.0, 75: 0.0}
    return verl(
        range(1, 76),
        {
            "actor/pg_loss": until(19, steady(0.02, 0.4), always(0.0)),
            "actor/grad_norm": until(19, steady(0.3, 0.2), always(0.0)),
            "actor/lr": always(1e-6),
            "critic/score/mean": through({1: 0.21, **score}),
            "critic/rewards/mean": through({1: 0.21, **score}),
            "gdpo/format/mean": through({1: 0.41, 5: 0.406, 25: 0.0012}),
            "response_length/mean": through({5: 1067.0, 10: 1973.0, 15: 2983.0, 20: 3255.0, 25: 3971.0}),
            "response_length/max": always(8192.0),
            "response_length/clip_ratio": through({5: 0.01, 25: 0.3}),
            "timing_s/step": through({5: 120.0, 25: 300.0}),
        },
    )


def _archer() -> Iterator[str]:
    return verl(
        range(3, 79),
        {
            "actor/entropy": through({6: 3.90, 25: 3.45, 50: 5.34, 74: 5.0, 78: 0.18}),
            "actor/grad_norm": steady(0.4, 0.2),
            "actor/pg_loss": steady(0.01, 0.5),
            "actor/lr": always(1e-6),
            "critic/score/mean": through({6: -0.11, 25: -0.02, 50: 0.09, 78: 0.13}, 0.02),
            "critic/rewards/mean": through({6: -0.11, 25: -0.02, 50: 0.09, 78: 0.13}, 0.02),
            "response_length/mean": through({6: 1128.0, 25: 171.0, 50: 93.5, 78: 6.3}),
            "response_length/max": always(4096.0),
            "response_length/clip_ratio": through({6: 0.02, 25: 0.0}),
            "timing_s/step": steady(90.0),
        },
    )


def _no_clipping() -> Iterator[str]:
    return trl(
        range(1, 89),
        {
            "loss": steady(0.01, 0.5),
            "grad_norm": until(80, lambda step: abs(steady(0.9, 0.6)(step) or 0.0) + 0.1, listed_from(80, [
                111.0, 54_648_652.0, 9_000_000.0, 4_000_000.0])),
            "learning_rate": always(1e-6),
            "reward": until(82, through({1: 0.077, 79: 0.203}, 0.05), always(0.02)),
            "reward_std": until(82, steady(0.05), always(0.01)),
            "frac_reward_zero_std": always(0.1),
            "completions/mean_length": steady(210.0),
            "completions/clipped_ratio": always(0.0),
        },
    )  # fmt: skip


def _mode_collapse() -> Iterator[str]:
    return trl(
        range(1, 161),
        {
            "loss": steady(0.01, 0.5),
            "grad_norm": steady(0.8, 0.3),
            "learning_rate": always(1e-6),
            "entropy": through({1: 0.42, 20: 0.40, 60: 0.26, 100: 0.17, 140: 0.06, 160: 0.05}, 0.1),
            "reward": through({1: 0.033, 100: 0.042, 160: 0.044}, 0.03),
            "reward_std": through({1: 0.038, 60: 0.03, 100: 0.012, 130: 0.0, 160: 0.0}),
            "frac_reward_zero_std": through({1: 0.0, 60: 0.3, 100: 0.8, 120: 1.0}),
            "completions/mean_length": steady(210.0),
            "completions/clipped_ratio": always(0.0),
        },
    )


def _nan_agent() -> Iterator[str]:
    bad = always(_NAN)
    return verl(
        range(1, 91),
        {
            "actor/kl_loss": until(83, steady(0.02), bad),
            "actor/entropy": until(83, steady(0.4), bad),
            "actor/pg_loss": until(83, steady(0.02, 0.5), bad),
            "actor/ppo_kl": until(83, steady(0.0004, 0.5), bad),
            "actor/grad_norm": until(83, steady(0.5, 0.2), bad),
            "actor/pg_clipfrac": until(83, steady(0.002), always(0.0)),
            "actor/lr": always(1e-6),
            "critic/score/mean": until(83, through({1: -0.6, 82: -0.1}, 0.05), always(-1.0)),
            "critic/score/max": until(83, always(1.0), always(-1.0)),
            "critic/score/min": always(-1.0),
            "response_length/mean": until(83, steady(120.0), always(257.0)),
            "response_length/max": always(257.0),
            "response_length/min": until(83, steady(20.0), always(257.0)),
            "response_length/clip_ratio": until(83, steady(0.05), always(1.0)),
            "timing_s/step": steady(80.0),
        },
    )


def _format_hack() -> Iterator[str]:
    return trl(
        range(5, 155, 5),
        {
            "loss": steady(0.0002, 0.3),
            "grad_norm": through({5: 0.80, 50: 0.85, 150: 1.89}, 0.05),
            "learning_rate": always(2e-5),
            "completion_length": through({5: 388.0, 50: 378.0, 150: 191.0}, 0.02),
            "rewards/accuracy_reward": through({5: 0.160, 50: 0.118, 150: 0.064}, 0.03),
            "rewards/format_reward": through({5: 0.476, 50: 0.555, 150: 0.857}, 0.02),
            "rewards/cosine_reward": through({5: 0.075, 50: 0.021, 150: -0.034}),
            "reward": through({5: 0.711, 50: 0.694, 150: 0.887}, 0.02),
            "reward_std": steady(0.4),
            "kl": through({5: 1.5e-4, 50: 4e-3, 150: 2e-2}),
        },
    )


def _far_away() -> Iterator[str]:
    return trl(
        range(5, 255, 5),
        {
            "loss": through({5: 0.0, 150: 1e-4, 165: 0.12, 180: 16.0, 250: 60.0}, 0.05),
            "grad_norm": through({5: 0.4, 150: 0.5, 165: 6.0, 180: 200.0}, 0.1),
            "learning_rate": always(2e-5),
            "completion_length": steady(850.0),
            "reward": until(155, steady(0.90, 0.04), through({155: 0.80, 180: 0.0})),
            "kl": through({5: 8.6e-5, 150: 2e-3, 165: 3.0, 180: 400.0, 250: 1500.0}, 0.05),
        },
    )


def _masked() -> Iterator[str]:
    return trl(
        range(10, 310, 10),
        {
            "loss": until(160, through({10: 2.1, 140: 1.7, 150: 14577.98}, 0.02), always(0.0)),
            "grad_norm": until(160, steady(1.2, 0.2), always(_NAN)),
            "learning_rate": through({10: 2e-5, 300: 1e-6}),
            "mean_token_accuracy": until(160, through({10: 0.5, 150: 0.6}, 0.01), always(0.0)),
        },
    )


def _rising_mismatch() -> Iterator[str]:
    return verl(
        range(1, 201),
        {
            "training/rollout_probs_diff_mean": through({1: 0.002, 60: 0.0022, 200: 0.03}, 0.05),
            "rollout_corr/kl": through({1: 0.001, 60: 0.0012, 200: 0.04}, 0.1),
            "actor/entropy": steady(0.3),
            "actor/grad_norm": steady(0.2, 0.1),
            "actor/pg_loss": steady(0.01, 0.5),
            "actor/lr": always(0.0),
            "critic/score/mean": steady(0.5, 0.02),
            "response_length/mean": steady(900.0),
            "response_length/clip_ratio": always(0.01),
            "timing_s/step": steady(80.0),
        },
    )


def _self_play() -> Iterator[str]:
    return tinker(
        range(257),
        {
            "env/all/reward/total": through(
                {0: -0.4, 5: 0.0, 75: 0.0, 80: -1.0, 110: -1.0, 115: 0.0, 256: 0.0}
            ),
            "env/all/by_group/frac_mixed": through({0: 0.8, 75: 0.7, 80: 0.05, 110: 0.05, 115: 0.6}),
            "env/all/by_group/frac_all_bad": through({0: 0.1, 75: 0.15, 80: 0.95, 110: 0.95, 115: 0.2}),
            "env/all/by_group/frac_all_good": always(0.1),
            "optim/entropy": steady(0.5),
            "optim/kl_sample_train_v1": steady(0.001, 0.4),
            "optim/lr": always(3e-5),
            "env/all/ac_tokens_per_turn": steady(60.0),
            "time/total": steady(40.0),
        },
    )  # fmt: skip


def _healthy_spikes() -> Iterator[str]:
    return verl(
        range(1, 201),
        {
            "actor/grad_norm": lambda step: 65.96 if step == 16 else steady(2.13, 0.25)(step),
            "actor/entropy": through({1: 0.526, 60: 0.3, 120: 0.15, 200: 0.066}, 0.05),
            "actor/pg_loss": steady(0.01, 2.0),
            "actor/pg_clipfrac": steady(0.002, 0.5),
            "actor/ppo_kl": steady(0.0003, 1.0),
            "actor/lr": always(1e-6),
            "critic/grad_norm": through({1: 950.0, 30: 20.0}, 0.2),
            "critic/vf_loss": through({1: 14.0, 20: 0.4, 50: 0.1}, 0.2),
            "critic/values/mean": through({1: -1.8, 20: 0.4, 200: 0.55}, 0.05),
            "critic/returns/mean": through({1: 0.02, 200: 0.56}, 0.05),
            "critic/vf_clipfrac": through({1: 0.43, 20: 0.2, 30: 0.0}),
            "critic/score/mean": through({1: 0.02, 60: 0.4, 200: 0.567}, 0.04),
            "response_length/mean": through({1: 313.0, 200: 272.0}, 0.02),
            "response_length/max": always(512.0),
            "response_length/clip_ratio": through({1: 0.05, 50: 0.0}),
            "timing_s/step": steady(60.0),
        },
    )


def _healthy_ppo() -> Iterator[str]:
    return trl(
        range(1, 121),
        {
            "eps": steady(3.0),
            "objective/kl": through({1: 9.2, 120: 12.4}, 0.02),
            "objective/entropy": through({1: 107.0, 120: 95.0}, 0.03),
            "objective/non_score_reward": through({1: -0.46, 120: -0.62}, 0.02),
            "objective/scores": through({1: 1.9, 120: 2.3}, 0.03),
            "objective/rlhf_reward": through({1: 1.45, 120: 1.7}, 0.03),
            "policy/approxkl_avg": steady(0.0023, 0.03),
            "policy/clipfrac_avg": steady(0.006, 0.2),
            "loss/policy_avg": steady(-0.01, 0.3),
            "loss/value_avg": steady(0.1, 0.2),
            "val/clipfrac_avg": always(0.0),
            "policy/entropy_avg": through({1: 1.05, 120: 0.9}, 0.02),
            "val/ratio": steady(0.9695, 0.0008),
            "val/ratio_var": steady(1e-4, 0.3),
            "val/num_eos_tokens": always(0.0),
            "lr": through({1: 3e-6, 120: 1e-7}),
        },
    )


def _healthy_capped() -> Iterator[str]:
    return verl(
        range(1, 121),
        {
            "actor/entropy": steady(0.019, 0.06),
            "actor/grad_norm": steady(0.15, 0.15),
            "actor/pg_loss": steady(0.01, 0.6),
            "actor/lr": always(1e-5),
            "critic/score/mean": through({1: 0.40, 120: 0.46}, 0.03),
            "response_length/mean": steady(7900.0, 0.01),
            "response_length/max": always(8192.0),
            "timing_s/step": steady(210.0),
        },
    )


CASES: Mapping[str, Callable[[], Iterator[str]]] = {
    "garbage_from_the_start": _garbage,
    "collapse_at_257": _chemistry,
    "death_spiral": _death_spiral,
    "shorter_and_shorter": _archer,
    "no_gradient_clipping": _no_clipping,
    "mode_collapse": _mode_collapse,
    "nan_at_83": _nan_agent,
    "format_hacking": _format_hack,
    "far_from_reference": _far_away,
    "masked_nan": _masked,
    "rising_mismatch": _rising_mismatch,
    "self_play": _self_play,
    "healthy_lone_spike": _healthy_spikes,
    "healthy_sequence_kl": _healthy_ppo,
    "healthy_at_the_cap": _healthy_capped,
}
"""Folder → rows."""


def main() -> None:
    for name, make in CASES.items():
        folder = TARGET / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "metrics.jsonl").write_text("".join(f"{line}\n" for line in make()))


if __name__ == "__main__":
    main()
