"""How files are read in the background: apart from the reader, which is imported late."""

from __future__ import annotations

from rltop.sources.events import TailOptions
from rltop.sources.file import MountRules
from rltop.structs import NamedTuple


class ReaderOptions(NamedTuple):
    """How files are read in the background.

    Attributes:
        local_poll_s: time between two looks at a local file.
        network_poll_s: the same on a network, while data comes; never below 1 s
            by default, because a login node counts as everybody's.
        network_poll_max_s: the longest it grows to, by `network_backoff`, while nothing comes.
        network_backoff: factor of that growth.
        queue_bytes: how much of one file may wait to be taken.
        read_bytes: most bytes of one look.
        stuck_after_s: a call that takes longer is reported as no answer.
        use_watcher: let the kernel shorten the wait where it can be trusted.
        watch_delay_s: wait before that, because it has to be imported first.
        mounts: corrections to what the mount table says.
        tail: patience with what a file does.
    """

    local_poll_s: float = 0.25
    network_poll_s: float = 1.0
    network_poll_max_s: float = 5.0
    network_backoff: float = 1.5
    queue_bytes: int = 8 * 1024 * 1024
    read_bytes: int = 1024 * 1024
    stuck_after_s: float = 3.0
    use_watcher: bool = True
    watch_delay_s: float = 1.0
    mounts: MountRules = MountRules()
    tail: TailOptions = TailOptions()
