"""The lines by which trainers and engines tell what they are at: a row for each, data that `log` reads by.

Every pattern was taken from the code that prints the line. Groups: `name` of a phase, `took` (seconds), `step`, `total`
(steps of the run), `every` (so many steps), `done` and `of` (a count), `gone` and `left` (a count told by its parts),
`running`, `rate`.
"""

from __future__ import annotations

import enum
import re
from functools import lru_cache

from rltop.formats.console.failures import DONE
from rltop.regex import regex
from rltop.structs import NamedTuple


class Act(enum.StrEnum):
    """What a line does to the phases of the process that prints it."""

    BEGIN = "begin"
    """A phase that a line of its own will end; others may begin and end inside it."""
    END = "end"
    ENTER = "enter"
    """A phase that ends where the next one is entered, with `LEAVE` or with the step."""
    LEAVE = "leave"
    COUNT = "count"
    """Stands somewhere in a phase; only a number that has changed is progress."""
    PULSE = "pulse"
    """Something was done in a phase, whichever is open."""
    ENGINE = "engine"
    """How an engine stands: progress where it makes tokens."""
    STEP = "step"
    """A step has ended."""
    NEXT = "next"
    """A step begins, so that the one before has ended."""
    TOTAL = "total"
    """How many steps there are to be, numbered from 0: of generations, where these are told to be trained."""
    TRAINED = "trained"
    """Every step that is made of a generation has ended."""
    PERIOD = "period"
    """Every so many steps one takes longer: a validation or a checkpoint is part of it."""
    FINISH = "finish"
    RESUME = "resume"
    """A loop begins that may have rested since the last one ended."""
    GO_ON = "go on"
    """What looked like its end was none."""
    FAIL = "fail"


PHASES = {
    "setup": "starting up",
    "generate": "generating",
    "reward": "computing rewards",
    "logprob": "computing log-probabilities",
    "train": "training",
    "weight_sync": "updating weights",
    "validation": "validating",
    "checkpoint": "saving a checkpoint",
}
"""Key of a phase, and what is said of it."""
FOR_SAMPLES, FOR_POLICY = "waiting for samples", "waiting for a policy version"

WRAPS = frozenset({"step", "train_wait", "train", "train_critic_and_policy", "_trainer_side_validate"})
"""Timers around others: they tell the phase where none inside them is open."""


class LinePattern(NamedTuple):
    """One kind of line.

    Attributes:
        sign: stands in every such line, and in few others: looked for before the pattern.
        key: key of the phase; empty where the name in the line tells it.
        words: said of the phase instead of what is said of the key.
    """

    of: str
    sign: str
    pattern: re.Pattern[str]
    act: Act
    key: str = ""
    words: str = ""


def _rows(
    of: str, *rows: tuple[str, str, Act] | tuple[str, str, Act, str] | tuple[str, str, Act, str, str]
) -> list[LinePattern]:
    return [LinePattern(of, row[0], regex(row[1]), *row[2:]) for row in rows]


_NUMBER = r"\d{1,12}(?:\.\d{0,12})?"

LINES: tuple[LinePattern, ...] = tuple(
    _rows(
        "slime, miles",
        ("Timer ", r"\bTimer (?P<name>[\w/.-]+) start\s*$", Act.BEGIN),
        ("Timer ", rf"\bTimer (?P<name>[\w/.-]+) end \(elapsed: (?P<took>{_NUMBER})s\)", Act.END),
        ("num_rollout ", r"^\s*num_rollout \.{3,} (?P<total>\d+)\s*$", Act.TOTAL),
        ("'perf/train_time'", r"\bperf (?P<step>\d+): \{.{0,4096}'perf/train_time'", Act.TRAINED),
    )
    + _rows(
        "SkyRL",
        ("Started: '", r"\bStarted: '(?P<name>[^']+)'", Act.BEGIN),
        ("Finished: '", rf"\bFinished: '(?P<name>[^']+)', time cost: (?P<took>{_NUMBER})s", Act.END),
    )
    + _rows(
        "NeMo-RL",
        ("▶ Setting up", r"▶ Setting up", Act.ENTER, "setup"),
        ("▶ Preparing batch", r"▶ Preparing batch", Act.ENTER, "generate", "preparing the batch"),
        ("▶ Generating", r"▶ Generating responses for batch of size (?P<of>\d+)", Act.ENTER, "generate"),
        ("▶ Processing rewards", r"▶ Processing rewards", Act.ENTER, "reward"),
        ("▶ Computing advantages", r"▶ Computing advantages", Act.ENTER, "reward", "computing advantages"),
        ("logprob", r"▶ (?:Preparing for (?:teacher )?logprob|Computing (?:teacher )?logprobs)", Act.ENTER, "logprob"),
        ("training...", r"▶ Preparing for training", Act.ENTER, "train", "preparing to train"),
        ("▶ Training", r"▶ Training policy", Act.ENTER, "train"),
        ("▶ Taking", r"▶ Taking a training step", Act.ENTER, "train"),
        ("▶ Starting validation", r"▶ Starting validation at step", Act.ENTER, "validation"),
        ("Saving checkpoint for step", r"\bSaving checkpoint for step \d+", Act.ENTER, "checkpoint"),
        ("refit", r"🔄 (?:Coordinating with trajectory collector|Performing policy gen)", Act.ENTER, "weight_sync"),
        ("🔄 Refitting", r"🔄 Refitting policy generation", Act.ENTER, "weight_sync"),
        ("replay buffer...", r"📦 Sampling from replay buffer", Act.ENTER, "generate", FOR_SAMPLES),
        ("Waiting for replay buffer", r"⏳ Waiting for replay buffer", Act.ENTER, "generate", FOR_SAMPLES),
        ("Wait iteration", r"\bWait iteration \d+: buffer_size=(?P<done>\d+)", Act.COUNT, "generate", FOR_SAMPLES),
        ("Pausing collection", r"⏸️? ?Pausing collection for refit", Act.ENTER, "weight_sync", FOR_POLICY),
        ("Refit completed", r"Refit completed, resuming collection", Act.LEAVE),
        ("= Step ", r"={5,} Step (?P<step>\d+)/(?P<total>\d+) ={5,}", Act.NEXT),
        ("Total step time", rf"• Total step time: (?P<took>{_NUMBER})s", Act.STEP),
    )
    + _rows(
        "prime-rl",
        ("inflight", r"Train batch (?P<done>\d+)/(?P<of>\d+) (?P<rest>.*?); \d+ inflight", Act.COUNT, "generate"),
        ("Pausing dispatcher", r"Pausing dispatcher .*Waiting for new policy", Act.ENTER, "weight_sync", FOR_POLICY),
        ("Orchestrator paused", r"Orchestrator paused: waiting for trainer", Act.ENTER, "weight_sync", FOR_POLICY),
        ("Resuming dispatcher", r"\bResuming dispatcher", Act.LEAVE),
        ("Starting evals", r"\bStarting evals in ", Act.ENTER, "validation"),
        ("Eval @", r"\bEval @ step", Act.LEAVE),
        ("Saving checkpoint at", r"\bSaving checkpoint at step \d+", Act.ENTER, "checkpoint"),
        ("Writing final checkpoint", r"\bWriting final checkpoint", Act.ENTER, "checkpoint"),
        ("final broadcast", r"Waiting for the trainer's final broadcast", Act.ENTER, "weight_sync", FOR_POLICY),
        ("Waiting for training batch", r"\bWaiting for training batch to arrive", Act.ENTER, "generate", FOR_SAMPLES),
        ("forward and backward", r"\bStarting forward and backward pass", Act.ENTER, "train"),
        ("policy weights", r"\bBroadcasting startup policy weights", Act.ENTER, "weight_sync"),
        ("weights to step", r"\bUpdating weights to step", Act.ENTER, "weight_sync"),
        ("weights to step", r"\bUpdated weights to step", Act.LEAVE),
        ("inference pool", r"Waiting for \w+ inference pool to be ready", Act.ENTER, "setup", "waiting for engines"),
        ("inference pool ready", r"inference pool ready", Act.LEAVE),
        ("Starting orchestrator", r"\bStarting orchestrator \(", Act.ENTER, "setup"),
        ("training loop", r"\bStarting training loop", Act.LEAVE),
        ("Starting RL trainer", r"\bStarting RL trainer in", Act.ENTER, "setup"),
        ("Step ", r"\bStep (?P<step>\d+) \| +[\d hms.]+ \| ", Act.STEP),
    )
    + _rows(
        "veRL",
        (
            "pending: ",
            r"pending: (?P<left>\d+), running: (?P<running>\d+), finished: (?P<done>\d+), failure: (?P<gone>\d+)",
            Act.COUNT,
            "generate",
        ),
        ("total_generated_samples", r"'count/total_generated_samples': (?P<done>\d+)", Act.COUNT, "generate"),
        ("[ShouldPause]", r"\[ShouldPause\]\s+due to full queue", Act.ENTER, "train", "waiting for training"),
        ("[ShouldPause]", r"\[ShouldPause\]\s+due to staleness_samples", Act.ENTER, "weight_sync", FOR_POLICY),
        ("[ShouldPause]", r"\[ShouldPause\]\s+resume", Act.LEAVE),
        ("local_global_step_folder", r"\blocal_global_step_folder: ", Act.ENTER, "checkpoint"),
        ("Saving checkpoint to", r"\bSaving checkpoint to:? ", Act.ENTER, "checkpoint"),
        ("_freq': ", r"^\W*'(?:test|save)_freq': (?P<every>\d+)\b", Act.PERIOD),
        ("test_gen_batch meta", r"\btest_gen_batch meta info: ", Act.ENTER, "validation"),
        ("validation generation end", r"\bvalidation generation end", Act.ENTER, "validation"),
        ("Initial validation metrics", r"\bInitial validation metrics", Act.LEAVE),
        ("=== START", r"\b(?P<name>_trainer_side_validate) === START ===", Act.BEGIN, "validation"),
        ("=== END", rf"\b(?P<name>_trainer_side_validate) === END ===.*?total: (?P<took>{_NUMBER})s", Act.END),
        ("Dumped generations", r"\bDumped generations to ", Act.PULSE),
    )
    + _rows(
        "OpenRLHF",
        ("experience making", r"Starting experience making with \d+ samples", Act.ENTER, "logprob"),
        ("Experience making", r"Experience making completed in", Act.LEAVE),
        ("Evaluation start", r"⏰ Evaluation start time", Act.ENTER, "validation"),
        ("async evaluation", r"\bStarting async evaluation", Act.ENTER, "validation"),
        ("valuation completed", r"\b(?:Async e|E)valuation completed", Act.LEAVE),
    )
    + _rows(
        "ROLL",
        ("pipeline step", r"\bpipeline step (?P<step>\d+) start", Act.NEXT),
        ("pipeline step", r"\bpipeline step (?P<step>\d+) finished", Act.STEP),
        ("start sampling", r"\bstart sampling, global_step=\d+ batch_size=(?P<of>\d+)", Act.ENTER, "generate"),
    )
    + _rows(
        "TRL",
        (
            "[score] scored",
            rf"\[score\] scored \d+ samples in (?P<took>{_NUMBER})s",
            Act.PULSE,
            "generate",
            FOR_SAMPLES,
        ),
        ("for sample", r"\bwaited [\d.]+s for sample \(qsize=", Act.PULSE),
        ("Weight sync: ", r"\bWeight sync: (?:pausing|pause took|transferring|resuming)", Act.ENTER, "weight_sync"),
        ("Weight sync: done", r"\bWeight sync: done", Act.LEAVE),
    )
    + _rows(
        "AReaL",
        (
            "rollout. ",
            r"(?:Submit|Enqueue) rollout\. (?P<rest>enqueued: \d+), running: \d+, "
            r"(?P<also>accepted: \d+, rejected: \d+)",
            Act.COUNT,
            "generate",
        ),
        ("Rollout results", r"\bRollout results are ready!", Act.ENTER, "train"),
        ("Train step", r"\bTrain step (?P<step>\d+)/(?P<total>\d+) done\.", Act.STEP),
    )
    + _rows(
        "Trinity-RFT",
        ("Sample data", r"\bSample data for step \d+ started\.", Act.ENTER, "generate", FOR_SAMPLES),
        ("Training at step", r"\bTraining at step \d+ started\.", Act.ENTER, "train"),
        ("Training at step", r"\bTraining at step (?P<step>\d+) finished\.", Act.STEP),
        ("sync_weights at step", r"\bTrainer sync_weights at step \d+ started\.", Act.ENTER, "weight_sync"),
        ("sync_weights at step", r"\bTrainer sync_weights at step \d+ finished\.", Act.LEAVE),
        ("Saving checkpoint at", r"\bSaving checkpoint at step \d+", Act.ENTER, "checkpoint"),
        ("Trainer finished", r"> Trainer finished\.", Act.FINISH),
    )
    + _rows(
        "EasyR1",
        ("Start generating", r"\bStart generating batch\.\.\.", Act.ENTER, "generate"),
        ("Finish generating", r"\bFinish generating\.", Act.LEAVE),
        ("Start validation", r"\bStart validation\.\.\.", Act.ENTER, "validation"),
        ("Finish validation", r"\bFinish validation\.", Act.LEAVE),
    )
    + _rows(
        "tinker",
        ("waiting for rollouts", r"waiting for rollouts \((?P<done>\d+)/(?P<of>\d+) groups", Act.COUNT, "generate"),
    )
    + _rows(
        "vLLM",
        (
            "% Completed |",
            r"Loading \w+ checkpoint shards: +\d+% Completed \| (?P<done>\d+)/(?P<of>\d+)",
            Act.COUNT,
            "setup",
        ),
        (
            "generation throughput",
            rf"Engine (?P<name>\d+): .*Avg generation throughput: (?P<rate>{_NUMBER}) tokens/s, "
            r"Running: (?P<running>\d+) reqs, Waiting: (?P<left>\d+) reqs"
            rf"(?:.*?KV cache usage: (?P<cache>{_NUMBER})%)?",
            Act.ENGINE,
        ),
        ("Loading safetensors", r"Loading safetensors checkpoint shards", Act.PULSE),
    )
    + _rows(
        "SGLang",
        (
            "#running-req",
            r"Decode batch(?P<name>[^,#]*).*#running-req: (?P<running>\d+)"
            rf".*token usage: (?P<usage>{_NUMBER})"
            rf".*gen throughput \(token/s\): (?P<rate>{_NUMBER}), #queue-req: (?P<left>\d+)",
            Act.ENGINE,
        ),
    )
    + _rows(
        "Ray",
        ("local Ray instance", r"Started a local Ray instance", Act.ENTER, "setup"),
        ("to Ray cluster", r"Connected to Ray cluster", Act.ENTER, "setup"),
    )
    + [LinePattern(of, sign, pattern, Act.FINISH) for of, sign, pattern in DONE]
)

BAR = regex(
    r"(?P<title>[^|]{0,120}?):?\s*\d{1,3}%\|[^|]{0,200}\|\s*(?P<done>\d{1,12})/(?P<of>\d{1,12})\s*"
    r"\[(?P<elapsed>[\d:]{4,12})<"
)
ENDLESS_BAR = regex(
    r"(?P<title>[^|\[\]]{0,120}|\[[^\[\]]{1,60}\][^|\[\]]{0,60}?):\s*(?P<done>\d{1,12})it \[(?P<elapsed>[\d:]{4,12}),"
)
FRAME = regex(r"\s*File \"[^\"]{1,400}\", line \d+, in (\w+)")
"""A frame of a traceback: the innermost function whose name is of a phase tells what failed."""
MAIN_FRAME = regex(r"\s*File \"(?!<|(?:/var)?/tmp/)[^\"]{1,400}\", line \d+, in <module>$")
"""A frame of a file that was run or imported; what a model wrote is run from the command line or a temporary folder."""
OF_ALL = regex(r"\[(\d+)/(\d+)\]")
"""The count in the title of an outer bar: `[2/3]`."""
STEP_BARS = regex(
    r"(?:|Training(?: Step)? Progress|Training Batches Processed|Global Step|Training|(?:Running )?Steps?|Train)",
    re.IGNORECASE,
)
"""Titles of bars that count the steps of the run; transformers' has none."""
OUTER_BARS = regex(r"Episode \[|Epoch", re.IGNORECASE)
"""Titles of bars that move with the step and are no phase."""
BARS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (regex(pattern, re.IGNORECASE), key)
    for pattern, key in (
        (r"load|captur|shards|compil|preprocess|encod|filter|^map\b|tokeniz|download|^fetching|warm", "setup"),
        (r"\beval|valid|^val\b", "validation"),
        (r"update (?:expert )?weights|broadcast|sync|refit", "weight_sync"),
        (r"rollout|generat|processed prompts|sampl|trajector|get_batch", "generate"),
        (r"save|checkpoint|ckpt|export", "checkpoint"),
        (r"log_?prob|forward$|^ref\b", "logprob"),
        (r"reward|judg|verif", "reward"),
        (r"train|^fit$|^append$|update", "train"),
    )
)
"""Phase of any other bar by its title; the first that fits."""
STEP_TIMES = ("timing_s/step", "perf/time_per_step", "perf/step_time", "timing/step", "step_time", "time/total")
"""What rows call the time of a whole step."""
AT_EXIT = "destroy_process_group() was not called"
"""PyTorch says so of a process that ends, however it ends."""
NAMES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (regex(pattern, re.IGNORECASE), key)
    for pattern, key in (
        (r"^train_wait$|wait.*(?:sampl|rollout|generat|batch|data|buffer|traj)", "generate"),
        (r"wait.*(?:policy|version|weight)", "weight_sync"),
        (r"load|from_pretrained|init(?!ial)|set_?up|compil|captur|warm_?up|start_?up", "setup"),
        (r"eval|valid(?!ate_)", "validation"),
        (r"checkpoint|ckpt|save|export", "checkpoint"),
        (r"log_?prob|values", "logprob"),
        (r"weight|sync|refit|broadcast|publish|wake|update_model$|model_update", "weight_sync"),
        (r"reward|scor|verif|judg|advantage|postprocess|returns", "reward"),
        (r"generat|rollout|sampl|traj|get_batch|env_step|collect|decode|prefill|interact", "generate"),
        (r"train|optim|update|backward|forward|fwd|actor|critic|learn|preprocess|convert", "train"),
    )
)
"""Phase of a timer, of a span of a trace or of one's own phase, by its name; the first that fits."""


_ROLES = regex(r"^(?:actor_rollout_ref_|actor_rollout_|actor_|rollout_|ref_|critic_|rm_)(?=.)")


def key_of(name: str, table: tuple[tuple[re.Pattern[str], str], ...] = NAMES) -> str:
    """The key of a phase by its name; empty where the name is of none."""
    return next((key for pattern, key in table if pattern.search(name)), "")


@lru_cache(maxsize=1024)
def key_of_method(name: str) -> str:
    """The key of a phase by the method that a worker is in; veRL's begin with the roles of the worker."""
    return key_of(_ROLES.sub("", name))


def words_of(key: str, name: str) -> str:
    if name == "train_wait":
        return FOR_SAMPLES
    return PHASES.get(key) or name.replace("_", " ")
