"""`rltop where` with sources: what they say changes the answer, what they hide or how they lie does not."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from lying_servers import dripping_body, endless, page, serving, silent
from programs import in_path, titled
from ray_cluster import cluster
from tables import each_row

import rltop.report
from rltop.cli import main
from rltop.cli.arguments import parse
from rltop.cli.resolve_paths import load_config
from rltop.errors import RltopError
from rltop.live.endpoint import BACK_S, Endpoint, PrometheusProbe, address_of
from rltop.live.job import SourceResults, gathered, read_job_status
from rltop.live.judge import JobStatus, sentence
from rltop.live.probe import Device, Fact, Facts, InferenceEngine, Job, ProbeError, Process, Silence, without_duplicates
from rltop.live.sources import SourceOptions, probes_of
from rltop.live.traces import rows

SCHEMA = json.loads((Path(rltop.report.__file__).parent / "where_schema.json").read_text())
EXPOSED = (Path(__file__).parent / "exposition" / "vllm_0.32.0.prom").read_bytes()
NOW_S = 1_787_190_000.0


def where(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = main(["where", "--json", "--wait", "0", *words])
    found = json.loads(capsys.readouterr().out)
    Draft202012Validator(SCHEMA).validate(found)
    return code, found


def log(folder: Path, begun_s: float) -> str:
    """A log that says that samples are being generated since then."""
    path = folder / "train.log"
    lines = []
    for step in range(5):
        at = time.strftime("%Y-%m-%d %H:%M:%S,000", time.gmtime(begun_s - 100 * (5 - step)))
        end = time.strftime("%Y-%m-%d %H:%M:%S,000", time.gmtime(begun_s - 100 * (5 - step) + 40))
        lines += [f"{at} INFO Timer rollout start", f"{end} INFO Timer rollout end (elapsed: 40.0s)"]
    lines.append(f"{time.strftime('%Y-%m-%d %H:%M:%S,000', time.gmtime(begun_s))} INFO Timer rollout start")
    path.write_text("\n".join(lines) + "\n")
    os.utime(path, (begun_s, begun_s))
    return str(path)


def test_an_engine_that_was_recorded_from_a_real_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with serving(page(EXPOSED)) as server:
        code, found = where(capsys, log(tmp_path, time.time() - 20), "--metrics", f"127.0.0.1:{server.port}")
    (engine,) = found["engines"]
    assert (engine["engine"], engine["running"], engine["waiting"]) == (f"vLLM 127.0.0.1:{server.port}", 8, 8)
    assert (code, found["state"], found["phase_key"]) == (0, "running", "generate")


LATE, LONG = "no whole answer within 4 s", "the answer is longer than 1.0 MB"


@each_row(("answer", "reasons"), [(silent, [LATE]), (dripping_body, [LATE]), (endless, [LONG, LATE])])
def test_a_lying_endpoint_is_said_and_takes_nothing_away(
    answer: Any,
    reasons: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # On a busy machine even what is too long may be late.
    monkeypatch.setitem(Endpoint.__init__.__kwdefaults__, "most_bytes", 2**20)
    with serving(answer) as server:
        _, found = where(capsys, log(tmp_path, time.time() - 20), "--metrics", server.url)
    assert (found["state"], found["phase_key"], found["unusual"]) == ("running", "generate", True)
    assert [each["source"] for each in found["silent"] if each["source"].startswith("http")] == [
        f"{server.url}/metrics"
    ]
    assert found["cause"] in [f"{server.url}/metrics: {reason}" for reason in reasons]


def test_without_a_path_the_sources_alone_tell(capsys: pytest.CaptureFixture[str]) -> None:
    with cluster() as (server, _):
        code, found = where(capsys, "--ray", server.url)
    assert (code, found["phase_key"], found["source"]) == (1, "train", f"Ray 127.0.0.1:{server.port}")
    assert [each.get("state") for each in found["ranks"] if each["source"].startswith("Ray")].count("dead") == 1


def test_nothing_that_a_log_names_is_contacted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = in_path(tmp_path / "bin", monkeypatch, "ssh", "exit 1")
    ran = in_path(tmp_path / "bin", monkeypatch, "srun", "exit 1")
    with serving(page(EXPOSED)) as server:
        path = tmp_path / "train.log"
        path.write_text(
            f"INFO metrics at {server.url}/metrics, dashboard at {server.url}\n"
            f"(Worker pid=1, ip=127.0.0.1) View the Ray dashboard at http://127.0.0.1:{server.port}\n"
            "run: ssh node-7 rltop --nodes node-7 --job 4711 --via 'touch x {node}'\n"
        )
        (tmp_path / "config.toml").write_text(f'metrics = "{server.url}"\nray = "{server.url}"\n')
        (tmp_path / "metrics.jsonl").write_text(f'{{"step": 1, "loss": 1, "url": "{server.url}"}}\n' * 3)
        where(capsys, str(path))
        where(capsys, str(tmp_path))
        assert not server.connections
    assert not words.exists()
    assert not ran.exists()


def test_the_number_in_the_name_of_a_log_is_asked_for_and_never_entered(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_s = round(time.time()) + 6 * 3600
    line = f"4711|RUNNING|{ends_s - 86_400}|{ends_s}|2|node[1-2]|gpu:8|None"
    asked = in_path(tmp_path / "bin", monkeypatch, "squeue", f'echo "{line}"')
    ran = in_path(tmp_path / "bin", monkeypatch, "srun", "exit 1")
    path = Path(log(tmp_path, time.time() - 20)).rename(tmp_path / "slurm-4711.out")
    _, found = where(capsys, str(path))
    assert found["job"] == "4711"
    assert found["limit"].startswith("limit in 6 h")
    assert "--jobs=4711" in asked.read_text()
    assert not ran.exists()


def test_where_nothing_is_visible_it_says_what_it_looked_at_and_what_to_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "train.log").write_text("hello\n")
    code = main(["where", str(tmp_path / "train.log"), "--metrics", "127.0.0.1:1", "--wait", "0"])
    said = capsys.readouterr().out
    assert code == 3
    assert "http://127.0.0.1:1/metrics: connection refused" in said
    assert "processes of this node: " in said
    assert f"On the node of the job: rltop where {tmp_path / 'train.log'}" in said


def test_a_source_that_nobody_named_is_silent_in_silence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = log(tmp_path, time.time() - 20)
    main(["where", path])
    assert "under your name" not in capsys.readouterr().out
    slurm = Path(path).rename(tmp_path / "slurm-4711.out")
    main(["where", str(slurm)])
    assert "no squeue" not in capsys.readouterr().out


def test_text_from_outside_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        b'vllm:num_requests_running{engine="\x1b]0;x\x07",model_name="m"} 8\n' * 2
        + b'vllm:num_requests_running{engine="b"} 1\n'
    )
    with serving(page(text)) as server:
        main(["where", "--metrics", server.url, "--wait", "0"])
    assert "\x1b" not in capsys.readouterr().out


@each_row(
    ("words", "reason"),
    [
        ([], "no path and no source is named"),
        (["x.log", "--now", "1", "--ray", "h"], "--now is for files"),
        (["a", "b", "--ray", "h"], "several paths are named"),
        (["x.log", "--metrics", "http://ada:pw@h"], "no user or password in the URL"),
        (["x.log", "--nodes=-oProxyCommand=id"], "is no name of a node"),
        (["x.log", "--via", "kubectl exec {node}"], "--via reaches nodes, and none is named"),
        (["x.log", "--job", "1 --uid=0"], "not the number of a job"),
        (["--ray", "h", "--token-file", "other:1=x"], "no source has that address"),
        (["--ray", "h:1", "--token-file", "h:1"], "names no address and file"),
        (["--ray", "h:1", "--token-file", "h:1=/nowhere/x"], "no such file"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    words: list[str], reason: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.log").write_text("hello\n")
    assert main(["where", *words]) == 2
    assert reason in capsys.readouterr().err


def test_a_token_goes_to_its_named_address_only(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t0ken\n")
    with serving(page(EXPOSED)) as named, serving(page(EXPOSED)) as other:
        options = SourceOptions(metrics=[named.url, other.url], tokens=[f"127.0.0.1:{named.port}={tmp_path / 'token'}"])
        for probe in probes_of(options, {"RAY_AUTH_TOKEN": "of-ray"}):
            probe.ask(NOW_S)
        assert b"Authorization: Bearer t0ken" in named.heads[0]
        assert b"uthorization" not in other.heads[0]
        assert b"of-ray" not in named.heads[0] + other.heads[0]


@each_row("command", [[], ["watch"], ["where"]])
def test_the_screen_and_watch_ask_the_same_sources(command: list[str]) -> None:
    named = load_config(parse([*command, "x.jsonl", "--metrics", "node-3:8000", "--job", "4711"])).ingest.probes
    assert named is not None
    assert [each.source for each in named(str)] == [
        "http://node-3:8000/metrics", "srun in job 4711", "squeue", "processes of this node",
    ]  # fmt: skip
    unnamed = load_config(parse([*command, "x.jsonl"])).ingest.probes
    assert unnamed is not None
    assert [each.source for each in unnamed(str)] == ["squeue"]
    with pytest.raises(RltopError, match="not an http or https URL"):
        load_config(parse([*command, "x.jsonl", "--metrics", "ftp://node-3"]))


def test_only_what_is_named_is_a_source() -> None:
    assert probes_of(SourceOptions(), {"SLURM_JOB_ID": "4711", "RAY_ADDRESS": "10.0.0.1:6379"}) == []


# -- what is put together ----------------------------------------------------------------------------------------------


def judged(*facts: Fact, silences: tuple[Silence, ...] = (), **told: Any) -> JobStatus:
    known = {
        "phase": "generating",
        "phase_key": "generate",
        "since": NOW_S - 240,
        "source": "log",
        "log": "log",
        **told,
    }
    where = JobStatus(known.pop("state", "running"), **known)
    told = Facts(facts)
    return gathered(where._replace(engines=told.engines, ranks=told.processes), told, silences, NOW_S)


def engine(name: str = "vLLM a", **told: Any) -> InferenceEngine:
    return InferenceEngine("http://a/metrics", NOW_S, name, **{"running": 8.0, **told})


HUNG = "hangs: 8 running, no new tokens for 42.0 s"


def test_a_job_is_stuck_where_every_busy_engine_hangs() -> None:
    found = judged(engine(trouble=HUNG), engine("vLLM b", running=0.0))
    assert (found.state, found.cause) == ("stuck", f"vLLM a {HUNG}")
    assert sentence(found, NOW_S).endswith(f"; vLLM a {HUNG}")
    one = judged(engine(trouble=HUNG), engine("vLLM b", tokens_per_s=100.0))
    assert (one.state, one.unusual, one.cause) == ("running", True, f"vLLM a {HUNG}")
    assert [each.name for each in one.engines] == ["vLLM a", "vLLM b"]


def test_an_engine_that_is_never_woken() -> None:
    found = judged(engine(running=0.0, is_asleep=True))
    assert found.cause == "vLLM a asleep while generating for 240 s"
    assert judged(engine(running=0.0, is_asleep=True), phase_key="train").cause is None
    assert judged(engine(running=0.0, is_asleep=True), since=NOW_S - 5).cause is None


def test_an_engine_that_cannot_be_reached_while_samples_are_awaited() -> None:
    silence = Silence("http://a/metrics", NOW_S - 60, "connection refused")
    assert judged(silences=(silence,)).cause == "http://a/metrics: connection refused"
    assert judged(silences=(silence,), phase_key="train").cause is None


def test_a_job_that_is_gone_died_where_nothing_goes_on() -> None:
    silence = Silence("squeue", NOW_S, "job 7 is no longer in the queue: it has ended")
    assert judged(silences=(silence,), state="stuck").state == "dead"
    assert judged(silences=(silence,)).state == "running"
    rows = {"phase": None, "phase_key": None, "state": "stuck", "step": 40}
    assert judged(silences=(silence,), total=100, **rows).state == "dead"
    done = judged(silences=(silence,), **rows)
    assert (done.state, done.cause) == ("unknown", silence.reason)


def test_the_limit_is_that_of_the_job_of_the_log() -> None:
    jobs = [Job("squeue", NOW_S, "6", ends_s=NOW_S + 60), Job("squeue", NOW_S, "7", ends_s=NOW_S + 7200)]
    assert judged(*jobs, job="7").limit == "limit in 2 h"
    assert judged(jobs[1]._replace(trouble="pending: Priority"), job="7").limit == "pending: Priority"


def test_a_process_that_two_sources_tell_of_is_one() -> None:
    ray = Process("Ray h", NOW_S, "W", "update", since_s=NOW_S - 90, pid=7, host="10.0.0.1")
    title = Process("processes of this node", NOW_S, "W", "update", since_s=NOW_S, is_seen=True, pid=7, host="vm")
    assert without_duplicates([title, ray]) == [ray]
    other = title._replace(host="vm2", source="ssh vm2")
    assert len(without_duplicates([title, other])) == 2


def test_devices_that_do_nothing_are_part_of_the_sentence() -> None:
    from rltop.live.job import devices_in_words, idle_in_words

    devices = [Device("dcgm", NOW_S, "node-3", str(n), use=0.01, memory_bytes=7e10, memory_total_bytes=8e10,
                      power_w=120.0, temperature_c=40.0 + n) for n in range(8)]  # fmt: skip
    assert idle_in_words(judged(*devices)) == ", 8 devices at 1 %"
    assert not idle_in_words(judged(devices[0]._replace(use=0.5), *devices[1:]))
    assert devices_in_words([*devices[:7], devices[7]._replace(trouble="Xid 79")]) == [
        "node-3: 8 devices, 1 % busy, 560.0 GB of 640.0 GB, 960 W, 47 °C at most, Xid 79"
    ]


def test_processes_tell_the_phase_where_the_log_tells_nothing() -> None:
    update = Process("Ray h", NOW_S, "W", "update_actor", "train", NOW_S - 90, pid=1)
    found = read_job_status(
        "", [], "", NOW_S, SourceResults(Facts([update, update._replace(pid=2, since_s=NOW_S - 80)]))
    )
    assert (found.state, found.phase_key, found.since, found.source) == ("running", "train", NOW_S - 90, "Ray h")


def test_a_job_that_is_running_says_when_its_last_step_ended() -> None:
    steps = rows([(step, NOW_S - 60.0 * (9 - step)) for step in range(10)], None)
    for after_s, said in (
        (0.0, "just now (usually one every 60.0 s)"),
        (90.0, "90.0 s ago (usually one every 60.0 s)"),
    ):
        found = read_job_status("", [steps], "", NOW_S + after_s, SourceResults(Facts([])))
        assert sentence(found, NOW_S + after_s) == f"running: last step {said}"
    assert "last step just now" in sentence(found, NOW_S + 1.5, lambda seconds: seconds - seconds % 5.0)
    found = read_job_status("", [steps], "", NOW_S + 1_000.0, SourceResults(Facts([])))
    assert sentence(found, NOW_S + 1_000.0) == "stuck: no step for 16 m 40 s (usually 60.0 s)"


def test_an_open_phase_without_a_usual_time_is_set_against_the_usual_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, begun_s = tmp_path / "metrics.jsonl", time.time() - 166.0
    said = [{"step": n, "loss": 0.1, "timestamp": begun_s - (60 - n) * 0.4} for n in range(1, 61)]
    open_phase = {"rltop_phase": "rollout", "begin": begun_s, "pid": 7, "host": "n"}
    path.write_text("".join(json.dumps(row) + "\n" for row in [*said, open_phase]))
    os.utime(path, (begun_s, begun_s))
    assert main(["where", "--wait", "0", str(path)]) == 0
    told = capsys.readouterr().out
    assert "running, unusual: generating for 16" in told and "s (a whole step usually 400 ms)" in told
    _, found = where(capsys, str(path))
    assert found["unusual"]


def test_a_phase_that_was_seen_just_now_hides_not_how_long_no_step_has_ended() -> None:
    update = Process("node vm", NOW_S, "W", "update_actor", "train", NOW_S, pid=1, is_seen=True)
    steps = rows([(step, NOW_S - 1_000.0 - 60.0 * (9 - step)) for step in range(10)], None)
    found = read_job_status("", [steps], "", NOW_S, SourceResults(Facts([update])))
    assert sentence(found, NOW_S) == "stuck: training, no step for 16 m 40 s (usually 60.0 s)"
    first = read_job_status("", [], "", NOW_S + 7.0, SourceResults(Facts([update])))
    assert sentence(first, NOW_S + 7.0) == "running: training for ≥ 7.00 s"


# -- Prometheus --------------------------------------------------------------------------------------------------------


def matrix(made: list[float], age_s: float = 0.0) -> bytes:
    """What `/api/v1/query` of Prometheus 2.42 answers to a range."""

    def series(name: str, values: list[float]) -> dict[str, Any]:
        times = [NOW_S - age_s - 15.0 * (len(values) - 1 - n) for n in range(len(values))]
        labels = {"__name__": name, "engine": "0", "instance": "node-3:8000", "job": "vllm", "model_name": "m"}
        return {"metric": labels, "values": [[at_s, str(value)] for at_s, value in zip(times, values, strict=True)]}

    found = [series("vllm:num_requests_running", [8.0] * len(made)), series("vllm:generation_tokens_total", made)]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": found}}).encode()


def asked_of_prometheus(body: bytes) -> tuple[InferenceEngine, str]:
    with serving(page(body)) as server:
        (found,) = PrometheusProbe(Endpoint(address_of(server.url, "--prometheus", ""))).ask(NOW_S)
        assert isinstance(found, InferenceEngine)
        return found, server.heads[0].split(b" ")[1].decode()


def test_a_server_tells_at_once_whether_an_engine_goes_on() -> None:
    well, target = asked_of_prometheus(matrix([1000.0, 2500.0, 4000.0]))
    assert (well.name, well.tokens_per_s, well.trouble) == ("vLLM node-3:8000", 100.0, "")
    assert target.startswith("/api/v1/query?query=%7B__name__%3D~")
    assert target.endswith(f"%5B{BACK_S}s%5D")
    hung, _ = asked_of_prometheus(matrix([1000.0] * 4))
    assert hung.trouble == "hangs: 8 running, no new tokens for 45.0 s"


def test_an_age_is_that_of_the_sample() -> None:
    found, _ = asked_of_prometheus(matrix([1.0, 2.0], age_s=30.0))
    assert NOW_S - found.time_s == 30.0


@each_row("body", [b"<html>", b"{}", b'{"data": {"result": [{"metric": {}}]}}', b"[" * 99_999])
def test_what_is_no_prometheus_says_so(body: bytes) -> None:
    with serving(page(body)) as server, pytest.raises(ProbeError, match="does not answer as Prometheus does"):
        PrometheusProbe(Endpoint(address_of(server.url, "--prometheus", ""))).ask(NOW_S)


def test_the_own_processes_are_looked_at(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("hello\n")
    with titled("ray::WorkerDict.actor_rollout_update_actor") as pid:
        _, found = where(capsys, str(tmp_path / "train.log"))
    (rank,) = [each for each in found["ranks"] if each.get("pid") == pid]
    assert (rank["method"], rank["at_least"], rank["rank"]) == ("actor_rollout_update_actor", True, None)


def test_a_source_in_ones_own_config_file_is_asked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    own = tmp_path / "config" / "rltop" / "config.toml"
    own.parent.mkdir(parents=True)
    path = log(tmp_path, time.time() - 20)
    with serving(page(EXPOSED)) as server, serving(page(EXPOSED)) as typed:
        own.write_text(f'[live]\nmetrics = "127.0.0.1:{server.port}"\n')
        assert [each["engine"] for each in where(capsys, path)[1]["engines"]] == [f"vLLM 127.0.0.1:{server.port}"]
        _, found = where(capsys, path, "--metrics", f"127.0.0.1:{typed.port}")
        assert [each["engine"] for each in found["engines"]] == [f"vLLM 127.0.0.1:{typed.port}"]
        assert where(capsys, path, "--now", str(time.time()))[1]["engines"] == []
        probes = load_config(parse([path])).ingest.probes
        assert probes is not None
        assert any(f"127.0.0.1:{server.port}" in each.source for each in probes(str))


def test_a_config_beside_the_run_or_in_the_environment_names_no_source(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = log(tmp_path, time.time() - 20)
    monkeypatch.chdir(tmp_path)
    with serving(page(EXPOSED)) as server:
        text = f'[live]\nmetrics = ["127.0.0.1:{server.port}"]\n'
        for name in ("config.toml", "rltop.toml", ".rltop.toml", "pyproject.toml", "rltop/config.toml"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        monkeypatch.setenv("RLTOP_LIVE", f"metrics=127.0.0.1:{server.port}")
        assert where(capsys, path)[1]["engines"] == []
        assert not server.heads
        probes = load_config(parse([path])).ingest.probes
        assert probes is not None
        assert [each.source for each in probes(str)] == ["squeue"]


@each_row(
    ("text", "said"),
    [
        ("metric = ['x']", "unknown source `live.metric`"),
        ("metrics = 8000", "must be a string"),
        ("nodes = ['a']", "must be a string"),
        ("via = ''", "must be a string"),
    ],
)
def test_a_table_of_sources_that_is_none_is_refused(text: str, said: str, tmp_path: Path) -> None:
    own = tmp_path / "config.toml"
    own.write_text(f"[live]\n{text}\n")
    with pytest.raises(RltopError, match=said):
        load_config(parse(["where", "x", "--config", str(own)]))


def test_a_config_file_of_another_user_names_no_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "config.toml"
    own.write_text("[live]\nray = '127.0.0.1:1'\n")
    owner = own.stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    arguments = parse(["where", "x", "--config", str(own)])
    if owner == 0:
        assert load_config(arguments).live  # root may write them all anyway
        os.chown(own, 4_711, 4_711)
    with pytest.raises(RltopError, match="belongs to another user"):
        load_config(arguments)


@each_row(("since_s", "said"), [(None, "died: ImportError: x"), (40.0, "died, 60.0 s ago: ImportError: x")])
def test_a_job_of_which_nothing_tells_when_it_died_is_dead_and_not_since_now(since_s: float | None, said: str) -> None:
    assert sentence(JobStatus("dead", since=since_s, cause="ImportError: x"), 100.0) == said
