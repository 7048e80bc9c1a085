"""Which signals can be answered, and the process that waits for the end of another."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tables import each_row

import rltop
from rltop.screen.guard import answerable, signal_name

PROGRAM = """
import os, signal, sys, time
from pathlib import Path
import errand
from rltop.screen.warden import Warden
warden = Warden(errand.put_right, 7, keeps=(1,))
warden.set_message(sys.argv[2].encode())
if sys.argv[1] == "dismiss":
    warden.dismiss()
if sys.argv[1] == "late":
    (child,) = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    while Path(f"/proc/{child}/comm").read_text() != "warden\\n":
        time.sleep(0.01)
for word in sys.argv[3:]:
    warden.set_message(word.encode())
os.kill(os.getpid(), signal.SIGKILL)
"""


@each_row(
    ("arguments", "expected"),
    [
        (("kill", ""), ""),
        (("kill", "one"), "one 7"),
        (("kill", "one", "two"), "two 7"),
        (("kill", "one", ""), ""),
        (("late", "one"), "one 7"),
        (("late", "one", "two"), "two 7"),
        (("late", "one", ""), ""),
        (("dismiss", "one"), ""),
    ],
    ids=str,
)
def test_a_warden_goes_by_the_last_word(tmp_path: Path, arguments: tuple[str, ...], expected: str) -> None:
    (tmp_path / "errand.py").write_text(
        "import os\ndef put_right(word, number): os.write(1, b'%s %d' % (word, number))"
    )
    path = {**os.environ, "PYTHONPATH": str(tmp_path)}
    words = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(words, capture_output=True, env=path, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (-signal.SIGKILL, expected)


GROUP = """
import os, signal, subprocess, sys, time
from pathlib import Path
from rltop.screen import warden
waiting = warden.Warden(warden.end_groups)
(child,) = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
command = subprocess.Popen(["sleep", "60"], start_new_session=True)
waiting.set_message(b"%d" % command.pid)
process = Path(f"/proc/{child}")
while (process / "comm").read_text() != "warden\\n":
    time.sleep(0.01)
# What the program was installed from may be another version by then, or gone.
os.rename(sys.argv[1], sys.argv[1] + "-before")
print(command.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_warden_ends_groups_where_the_program_is_gone(tmp_path: Path) -> None:
    package = tmp_path / "rltop"
    shutil.copytree(Path(rltop.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    path = {**os.environ, "PYTHONPATH": str(tmp_path)}
    words = [sys.executable, "-c", GROUP, str(package)]
    done = subprocess.run(words, capture_output=True, env=path, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    command = Path(f"/proc/{done.stdout.strip()}/stat")
    for _ in range(500):
        # Nobody may be there to reap it.
        if not command.exists() or command.read_text().split()[2] == "Z":
            return
        time.sleep(0.01)
    pytest.fail("it goes on")


def test_a_warden_holds_nothing_open_that_it_was_not_given() -> None:
    program = "import os; from rltop.screen import warden; warden.Warden(warden.end_groups); os.close(1); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None
        assert select.select([process.stdout], [], [], 10)[0]
        assert process.stdout.read() == b""
        assert process.poll() is None
        process.stdin.write(b"\n")


def test_a_dismissed_warden_is_gone_and_is_dismissed_twice_in_vain() -> None:
    program = """
import os
from pathlib import Path
from rltop.screen.warden import Warden, end_groups
warden = Warden(end_groups)
(child,) = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
process = Path(f"/proc/{child}")
assert process.exists()
warden.dismiss()
assert not process.exists()
warden.set_message(b"something")
warden.dismiss()
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_is_ignored_or_answered_already_is_left_alone() -> None:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN), signal.signal(signal.SIGUSR2, lambda *_: None)
    try:
        assert not {signal.SIGUSR1, signal.SIGUSR2} & set(answerable())
    finally:
        signal.signal(signal.SIGUSR1, before[0])
        signal.signal(signal.SIGUSR2, before[1])
    assert {signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGRTMAX} <= set(answerable())
    assert not {signal.SIGSEGV, signal.SIGKILL, signal.SIGCHLD, signal.SIGWINCH, signal.SIGCONT} & set(answerable())


def test_signals_are_called_by_their_names() -> None:
    assert signal_name(signal.SIGTERM) == "SIGTERM"
    assert signal_name(signal.SIGRTMIN + 5) == "SIGRTMIN+5"
