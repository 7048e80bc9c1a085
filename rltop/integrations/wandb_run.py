"""A run on a W&B server as JSON lines, through W&B's own client, for runs without a local file.

    python -m rltop.integrations.wandb_run https://wandb.ai/ENTITY/PROJECT/runs/ID | rltop -

Needs `pip install 'rltop[wandb]'` and `wandb login`; polls every `--every` seconds until the run has ended.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_ADDRESS = re.compile(
    r"(?:https?://[^/]+/)?(?P<entity>[^/?#]+)/(?P<project>[^/?#]+)/(?:runs/)?(?P<run>[^/?#]+)(?:[/?#].*)?$"
)
_PAGE_ROWS = 1000
EXIT_USAGE = 2


def run_path(address: str) -> str:
    """`entity/project/run`, as W&B's client expects it, from that path or the URL of the run's page.

    Raises:
        ValueError: it names no run.
    """
    found = _ADDRESS.match(address)
    if found is None:
        raise ValueError(f"{address} names no run: expected https://wandb.ai/ENTITY/PROJECT/runs/ID")
    return f"{found['entity']}/{found['project']}/{found['run']}"


def rows(client: Any, path: str, every_s: float) -> Iterator[Mapping[str, object]]:
    """The rows of a run in the order of logging, as they arrive, until the run has ended.

    Args:
        client: a `wandb.Api`.
        path: `entity/project/run`.
        every_s: polling interval.
    """
    after = 0
    while True:
        run = client.run(path)
        # Read before the rows, so that rows logged just before the end are not missed.
        is_running = run.state == "running"
        for row in run.scan_history(page_size=_PAGE_ROWS, min_step=after):
            after = max(after, int(row.get("_step", after)) + 1)
            yield row
        if not is_running:
            return
        time.sleep(every_s)
        client.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the rows; what is wrong is said on standard error."""
    parser = argparse.ArgumentParser(prog="python -m rltop.integrations.wandb_run", description=main.__doc__)
    parser.add_argument("run", help="address of the run's page, or entity/project/run")
    parser.add_argument("--every", type=float, default=30.0, metavar="SECONDS", help="time between two looks (30)")
    options = parser.parse_args(arguments)
    try:
        path = run_path(options.run)
        wandb = importlib.import_module("wandb")
    except ValueError as error:
        return _refuse(str(error))
    except ImportError:
        return _refuse("W&B's client is not installed\n  pip install 'rltop[wandb]'")
    try:
        for row in rows(wandb.Api(), path, options.every):
            sys.stdout.write(json.dumps(row, default=str) + "\n")
            sys.stdout.flush()
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except Exception as error:  # whatever the client raises: its errors have no common base in all versions
        return _refuse(f"{path}: {error}\n  check the address; to log in: wandb login")
    return 0


def _refuse(message: str) -> int:
    sys.stderr.write(f"rltop: {message}\n")
    return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main())
