"""Why a job died: which rank, process and phase, and who sent a signal, from the lines around the failure."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tables import each_row

from rltop.formats.console.decoder import ConsoleDecoder
from rltop.formats.console.failures import Collective, waits_in_words

STEP = "step:7 - actor/loss:0.5 - critic/rewards/mean:0.25\n"


def watchdog(rank: int, number: int, operation: str, prefix: str = "") -> str:
    return (
        f"{prefix}[rank{rank}]:[E419 10:42:28.858931807 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught "
        f"collective operation timeout: WorkNCCL(SeqNum={number}, OpType={operation}, NumelIn=1, NumelOut=8, "
        f"Timeout(ms)=600000) ran for 600013 milliseconds before timing out.\n"
    )


def enqueued(rank: int, last: int) -> str:
    return (
        f"[rank{rank}]:[E419 10:42:28.861967180 ProcessGroupNCCL.cpp:1785] [PG ID 2 PG GUID 9 Rank {rank}] Exception "
        f"(either an error or timeout) detected by watchdog at work: {last - 1}, last enqueued NCCL work: {last}, last "
        f"completed NCCL work: {last - 2}.\n"
    )


RAY_MEMORY = (
    "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
    "Memory on the node (IP: 172.17.0.2, ID: 8c5a1410) where the task (task ID: 41617bc7, "
    "name=WorkerDict.actor_rollout_update_actor, pid=548, memory used=412.18GB) was running was 1901.91GB / 1933.28GB "
    "(0.98), which exceeds the memory usage threshold of 0.95. Top 10 memory users:\n"
    "PID\tMEM(GB)\tCOMMAND\n548\t412.18\tray::WorkerDict.actor_rollout_update_actor\n"
    "549\t11.50\tray::WorkerDict\nRefer to the documentation on how to address the out of memory issue\n"
)
TORCH_MEMORY = (
    "Traceback (most recent call last):\n"
    "ray.exceptions.RayTaskError(OutOfMemoryError): ray::WorkerDict.actor_rollout_update_actor() (pid=400862, "
    "ip=10.128.0.9, actor_id=87523c02, repr=<verl.single_controller.ray.base.WorkerDict object at 0x7edd>)\n"
    '  File "/code/verl/single_controller/ray/base.py", line 399, in func\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB\n"
)


def tracebacked(line: str) -> str:
    return f"Traceback (most recent call last):\n{line}\n"


@each_row(
    ("text", "wanted"),
    [
        (
            "".join(watchdog(rank, 1008, "ALLREDUCE") for rank in (0, 1, 2)) + watchdog(3, 956_300, "ALLGATHER"),
            "rank 3 in ALLGATHER 956300; ranks 0–2 in ALLREDUCE 1008",
        ),
        (
            "".join(watchdog(rank, 3952, "BROADCAST", "(WorkerDict pid=7, ip=10.0.0.1) ") for rank in (0, 1, 6))
            + watchdog(4, 3953, "ALLREDUCE"),
            "rank 4 in ALLREDUCE 3953; ranks 0–1, 6 in BROADCAST 3952",
        ),
        (
            "".join(watchdog(rank, 4486, "ALLTOALL") for rank in (0, 1, 3)),
            "rank 2 did not get to ALLTOALL 4486, ranks 0–1, 3 did",
        ),
        (
            watchdog(0, 810, "ALLREDUCE") + enqueued(0, 811) + enqueued(1, 811) + enqueued(2, 809),
            "rank 2 at collective 809, others at 811",
        ),
        (
            RAY_MEMORY,
            "WorkerDict.actor_rollout_update_actor, pid 548, used 412.18GB; node 172.17.0.2 at 1901.91GB of 1933.28GB; "
            "largest: WorkerDict.actor_rollout_update_actor, pid 548, 412.18 GB",
        ),
        (TORCH_MEMORY, "in WorkerDict.actor_rollout_update_actor, pid 400862 on 10.128.0.9"),
        (tracebacked("[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"), "rank 5"),
        (
            tracebacked("OSError: [Errno 28] No space left on device: '/ckpt/global_step_100/model.pt'"),
            "while a checkpoint was saved: the newest one may be incomplete",
        ),
        (
            tracebacked("RuntimeError: [enforce fail at inline_container.cc:471] . PytorchStreamWriter failed writing"),
            "while a checkpoint was saved: the newest one may be incomplete",
        ),
        (tracebacked("OSError: [Errno 28] No space left on device: '/tmp/wandb/run'"), ""),
        ("traceback : Signal 1 (SIGHUP) received by PID 71\n", "the terminal or SSH session it was started from"),
        (
            "torch.distributed.elastic.multiprocessing.api: W1125 Received 15 death signal, shutting down workers\n",
            "by the scheduler at its time limit or to preempt, or by hand",
        ),
        ("run.sh: line 12:  4711 Killed                  python train.py\n", "by the kernel when memory ran out"),
        ("run.sh: line 12:  4711 Terminated              python train.py\n", "by the scheduler at its time limit"),
        ("Terminated\n", "by the scheduler at its time limit"),
        ("    exitcode  : -9 (pid: 4711)\n", "by the kernel when memory ran out, or by the scheduler"),
    ],
)  # fmt: skip
def test_the_lines_around_a_failure_say_more_of_it(text: str, wanted: str) -> None:
    decoder = ConsoleDecoder()
    decoder.feed((STEP + text).encode(), 0, 0)
    decoder.finish()
    assert decoder.last_error.detail.startswith(wanted), decoder.last_error
    assert (wanted == "") == (decoder.last_error.detail == "")
    assert decoder.failure == decoder.last_error.words


def test_the_task_of_a_failure_is_told_once() -> None:
    decoder = ConsoleDecoder()
    task = "ray::TaskRunner.run() (pid=12, ip=10.0.0.1, actor_id=ab, repr=<main_ppo.TaskRunner object at 0x1>)"
    decoder.feed((STEP + f"ray.exceptions.RayTaskError(ValueError): {task}\n").encode(), 0, 0)
    decoder.finish()
    assert decoder.failure == "ray.exceptions.RayTaskError(ValueError) (in TaskRunner.run, pid 12 on 10.0.0.1)"


def test_what_an_earlier_failure_told_is_not_told_of_a_later_one() -> None:
    decoder = ConsoleDecoder()
    text = watchdog(0, 1, "ALLREDUCE") + watchdog(1, 2, "ALLREDUCE") + "x\n" * 3_000
    text += STEP + watchdog(5, 9, "BROADCAST")
    decoder.feed(text.encode(), 0, 0)
    assert decoder.last_error.detail == ""


@given(
    st.dictionaries(
        st.integers(0, 600),
        st.builds(Collective, st.sampled_from(["ALLREDUCE", "ALLGATHER"]), st.integers(1, 3)),
        min_size=2,
        max_size=40,
    )
)
def test_the_smallest_group_comes_first_and_nobody_is_in_two(waits: dict[int, Collective]) -> None:
    words = waits_in_words(waits)
    sizes = sorted(list(waits.values()).count(place) for place in set(waits.values()))
    if len(sizes) > 1:
        first = words.partition(" in ")[0]
        assert (sizes[0] == 1) == first.startswith("rank ")
    else:
        place = next(iter(waits.values()))
        assert f"{place.operation} {place.number}" in words
