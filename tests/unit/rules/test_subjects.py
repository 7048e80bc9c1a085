"""A verdict speaks of the metric that its sentence speaks of, also where its rule looks at several."""

from __future__ import annotations

from observations import DIALECT, identity, noisy, observation, play, series, the
from tables import each_row

from rltop.catalog.dialect import Identity
from rltop.catalog.metrics import CATALOG
from rltop.model import Algorithm, NonFinite, Observation, Signal, Traits
from rltop.rules.engine import Engine


@each_row("name", ["entropy", "kl_ref", "policy_loss", "grad_norm"])
def test_not_a_number_is_said_of_the_key_that_was_none(name: str) -> None:
    healthy = {"grad_norm": 1.0, "loss": 0.1, "policy_loss": 0.1, "entropy": 0.5, "kl_ref": 0.01}
    engine = play(
        30, **{key: (lambda r, v=value, k=key: NonFinite.NAN if r == 30 and k == name else v)  # type: ignore[misc]
               for key, value in healthy.items()}
    )  # fmt: skip
    verdict = the(engine, "L1")
    assert verdict.headline.startswith(name)
    assert (verdict.metric, verdict.key) == (name, f"key/{name}")
    event = engine.events[-1]
    assert (event.rule, event.metric, event.key) == ("L1", name, f"key/{name}")


@each_row(("name", "key"), [("reward_mean", "key/reward_mean"), ("own/statistic", "own/statistic")])
def test_an_undefined_statistic_is_said_of_its_key(name: str, key: str) -> None:
    engine = play(30, grad_norm=1.0, **{name: lambda record: NonFinite.NAN if record == 30 else None})
    verdict = the(engine, "L1")
    assert (verdict.metric, verdict.key) == ("" if name == key else name, key)
    assert [(each.name, each.value) for each in verdict.evidence] == [("undefined", 1.0)]
    assert (engine.events[-1].metric, engine.events[-1].key) == (verdict.metric, verdict.key)


def test_a_mean_advantage_off_centre_is_not_said_of_the_largest() -> None:
    engine = play(30, adv_max=2.0, adv_min=-2.0, adv_mean=lambda record: -0.6 if record > 10 else 0.0)
    assert the(engine, "A1").metric == "adv_mean"


def test_advantages_that_were_never_centred_are_returns_without_a_baseline() -> None:
    engine = play(30, adv_max=2.0, adv_min=-2.0, adv_mean=-0.6)
    assert not [verdict for verdict in engine.verdicts if verdict.rule == "A1"]


def test_a_side_stage_is_named_by_its_own_key() -> None:
    engine = play(30, time_step=100.0, time_adv=0.01, time_ref=40.0)
    verdict = the(engine, "P12")
    assert "ref" in verdict.headline
    assert verdict.metric == "time_ref"


def test_a_reward_part_is_the_part_that_fell() -> None:
    metric = CATALOG["reward_component"]
    parts = [Signal(metric, "rewards/format", instance="format"), Signal(metric, "rewards/right", instance="right")]
    whole = Signal(CATALOG["reward_mean"], "reward")
    logged = Identity(DIALECT, Algorithm.GRPO, Traits(), {"reward_component": parts, "reward_mean": [whole]})
    engine = Engine(logged)
    for record in range(1, 121):
        has_turned = record > 70
        right = noisy(0.2 if has_turned else 0.6, 0.02)(record)
        whole_value = noisy(0.9 if has_turned else 0.6, 0.02)(record)
        row = observation(record, {"reward_mean": whole_value, "reward_component": right})
        engine.observe(_with_parts(row, {"format": whole_value, "right": right}))
    verdict = the(engine, "R10")
    assert "right" in verdict.headline
    assert verdict.key == "rewards/right"


def _with_parts(row: Observation, parts: dict[str, float]) -> Observation:
    return row._replace(instances={"reward_component": parts})


def test_what_a_rule_says_nothing_of_is_the_first_metric_that_is_logged() -> None:
    engine = Engine(identity(names=["score_mean", "grad_norm", "entropy"]))
    for row in series(80, score_mean=lambda r: noisy(0.6, 0.03)(r) if r < 60 else 0.02, grad_norm=1.0, entropy=1.0):
        engine.observe(row)
    assert (the(engine, "R1").metric, the(engine, "R1").key) == ("score_mean", "key/score_mean")
