"""Named thresholds: inferred and said, chosen, overridden, never silent."""

from __future__ import annotations

from pathlib import Path

import pytest
from observations import alarms, identity, noisy, observation, series
from tables import each_row

from rltop.catalog.dialect import Identity
from rltop.config import load
from rltop.errors import ConfigError
from rltop.model import Algorithm, EventState
from rltop.rules import registry
from rltop.rules.engine import Engine
from rltop.rules.levels import is_of_text
from rltop.rules.options import EngineOptions
from rltop.rules.profiles import PROFILES, infer
from rltop.trainers.identify import identify, with_keys

MOE_KEYS = ("actor/grad_norm", "actor/pg_loss", "critic/score/mean", "rollout/moe/max_vio/max", "rollout_corr/kl")
PLAIN_KEYS = ("actor/grad_norm", "actor/pg_loss", "critic/score/mean", "rollout_corr/kl", "actor/model_expertise")


def identified(*keys: str) -> Identity:
    return identify(keys, {})


def run(engine: Engine, **metrics: object) -> Engine:
    for one in series(120, **metrics):
        engine.observe(one)
    return engine


def test_every_profile_changes_rules_that_exist_by_thresholds_that_they_have() -> None:
    for profile in PROFILES.values():
        for rule, settings in profile.rules.items():
            assert set(settings) <= {*registry.NAMED[rule].thresholds, "enabled"}, (profile.name, rule)


def test_a_profile_is_inferred_from_the_keys_and_said_with_its_reason() -> None:
    assert [one.name for one in infer(identified(*MOE_KEYS))] == ["moe"]
    engine = Engine(identified(*MOE_KEYS))
    told = engine.observe(observation(1, {"grad_norm": 0.1}))
    assert [(event.rule, event.state) for event in told] == [("F5", EventState.FACT)]
    assert "profile moe" in told[0].message
    assert "rollout/moe/max_vio/max" in told[0].message
    assert engine.observe(observation(2, {"grad_norm": 0.1})) == []


def test_a_router_of_requests_is_none_of_experts() -> None:
    keys = ("train/loss", "train/gen_kl_error", "timing/train/total_step_time")
    assert infer(identified(*keys, "router/requests_total", "router/serving_backends")) == ()
    assert [one.name for one in infer(identified(*keys, "router/entropy"))] == ["moe"]


def test_a_clip_fraction_alone_is_not_classic() -> None:
    text = ["train/reward_mean", "train/clip_fraction", "train/entropy", "eval/avg_response_length"]
    assert infer(identify(text, {})) == ()
    assert is_of_text(identify(text, {}))
    assert is_of_text(identify(["loss", "mean_token_entropy"], {})) and is_of_text(identify(["loss", "val_ppl"], {}))
    control = ["train/clip_fraction", "train/clip_range", "train/approx_kl", "train/policy_gradient_loss"]
    assert [one.name for one in infer(identify(control, {}))] == ["classic"]


def test_a_word_that_only_begins_alike_gives_nothing_away() -> None:
    assert infer(identified(*PLAIN_KEYS)) == ()


@each_row(("algorithm", "name"), [(Algorithm.EMBODIED, "embodied"), (Algorithm.DISTILL, "distill")])
def test_an_algorithm_gives_a_profile_away(algorithm: Algorithm, name: str) -> None:
    assert [one.name for one in infer(identity(algorithm, names=["loss"]))] == [name]


def test_thresholds_of_a_profile_hold_and_those_of_the_user_win() -> None:
    rise = lambda r: noisy(0.004 if r < 60 else 0.015, 0.02)(r)  # noqa: E731
    plain = run(Engine(identity(names=["off_policy_kl"])), off_policy_kl=rise)
    assert alarms(plain, "M1")
    moe = run(Engine(identity(names=["off_policy_kl"]), EngineOptions(profiles=("moe",))), off_policy_kl=rise)
    assert alarms(moe, "M1") == []
    for options in (
        EngineOptions(profiles=("moe",), rules={"M1": {"warn": 0.01}}),
        EngineOptions(profiles=("moe",), by_profile={"moe": {"M1": {"warn": 0.01}}}),
        EngineOptions(profiles=("moe",), rules={"M1": {"warn": 0.5}}, by_profile={"moe": {"M1": {"warn": 0.01}}}),
    ):
        assert alarms(run(Engine(identity(names=["off_policy_kl"]), options), off_policy_kl=rise), "M1")


def test_settings_for_a_profile_that_does_not_hold_change_nothing() -> None:
    options = EngineOptions(profiles=(), by_profile={"moe": {"M1": {"warn": 0.5}}})
    assert options.thresholds("M1", ()) == dict(registry.BY_ID["M1"].thresholds)


def test_a_profile_that_new_keys_give_away_moves_only_the_rules_that_it_changes() -> None:
    first = identified(*MOE_KEYS[:3])
    engine = Engine(first)
    for one in series(20, grad_norm=0.1, off_policy_kl=0.001):
        engine.observe(one)
    engine.identified(with_keys(first, MOE_KEYS))
    assert [one.name for one in engine.rules.profiles] == ["moe"]
    told = engine.observe(observation(21, {"grad_norm": 0.1}))
    assert [event.rule for event in told if event.rule == "F5"] == ["F5"]


def test_an_embodied_run_is_not_judged_by_its_shaped_reward() -> None:
    engine = Engine(identity(Algorithm.EMBODIED))
    run(engine, reward_mean=lambda r: 0.5 if r < 60 else -3.0, success_frac=noisy(0.5, 0.02))
    assert alarms(engine) == []


# -- from the configuration --------------------------------------------------------------------------------------


def home(folder: Path, text: str = "") -> dict[str, str]:
    (folder / "rltop").mkdir(exist_ok=True)
    (folder / "rltop" / "config.toml").write_text(text)
    return {"XDG_CONFIG_HOME": str(folder)}


def test_profiles_come_from_flag_and_file(tmp_path: Path) -> None:
    health = load({"profile": "moe, gspo"}, home(tmp_path, "[profiles.moe.M1]\nwarn = 0.03\n")).ingest.rules
    assert health.profiles == ("moe", "gspo")
    assert health.thresholds("M1", ("moe",))["warn"] == 0.03
    assert health.thresholds("O6", ("moe", "gspo"))["warn"] == float("inf")
    assert load({}, home(tmp_path)).ingest.rules.profiles is None
    assert load({"profile": "none"}, home(tmp_path)).ingest.rules.profiles == ()


def test_a_rule_is_muted_for_one_profile_only(tmp_path: Path) -> None:
    health = load({}, home(tmp_path, "[profiles.moe.M1]\nmute = true\n")).ingest.rules
    assert health.is_enabled("M1")
    assert not health.is_enabled("M1", ("moe",))


@each_row(
    ("flag", "text", "parts"),
    [
        ("mo", "", ["--profile", "mo", "unknown profile"]),
        (None, 'profile = "moee"', ["moee", "unknown profile"]),
        (None, "[profiles.moee.M1]\nwarn = 1", ["moee", "unknown profile"]),
        (None, "[profiles.moe.M1]\nwran = 1", ["profiles.moe.M1", "wran"]),
        (None, "[profiles.moe]\nM1 = 3", ["profiles.moe.M1", "must be a table"]),
        (None, "profiles = 3", ["profiles", "must be a table"]),
    ],
)
def test_what_does_not_exist_is_refused_with_its_place(
    tmp_path: Path, flag: str | None, text: str, parts: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        load({"profile": flag}, home(tmp_path, text))
    for part in parts:
        assert part in str(caught.value.message)
    assert caught.value.hint


def test_what_the_settings_silence_is_the_users_own_and_not_the_profiles() -> None:
    options = EngineOptions(
        {"O1": {"enabled": False}, "E1": {"warn": 0.3}},
        by_profile={"moe": {"M1": {"enabled": False}, "O1": {"enabled": True}}},
    )
    assert options.silenced() == {"O1"}
    assert options.silenced(["moe"]) == {"M1"}
    assert options.silenced(["embodied"]) == {"O1"}
    assert EngineOptions().silenced(["embodied"]) == frozenset()


def test_thresholds_of_a_profile_hold_after_a_new_phase_too() -> None:
    slower = {"time_step": lambda r: 40.0 if r < 80 else 80.0, "total_tokens": lambda r: 1e6 if r < 80 else 2e6}
    for limit, expected in ((1.3, ["P1"]), (9.0, [])):
        options = EngineOptions(profiles=("moe",), by_profile={"moe": {"P2": {"info": limit}}})
        engine = Engine(identity(names=["curriculum_level", *slower]), options)
        run(engine, curriculum_level=lambda r: float(r >= 40), **slower)
        assert [event.raised_by for event in engine.events if event.rule == "P1"][:1] == expected
