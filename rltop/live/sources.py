"""The sources that the user named, as probes; nothing else is ever contacted.

They come from the command line and the user's config file, never from an address in a run's folder, a metric file or a
log.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from rltop.errors import RltopError
from rltop.live.probe import Probe
from rltop.structs import NamedTuple


class SourceOptions(NamedTuple):
    """Sources as typed by the user.

    Attributes:
        metrics: URLs of metrics endpoints; the default path is `/metrics`.
        prometheus: URLs of servers with the HTTP API of Prometheus.
        via: command that reaches a node instead of ssh.
        tokens: `HOST:PORT=FILE` for each address that requires a token.
        authorities: file of CA certificates trusted in addition to the system's.
        has_processes: include the user's own processes on this node.
    """

    metrics: Sequence[str] = ()
    prometheus: Sequence[str] = ()
    ray: Sequence[str] = ()
    nodes: str = ""
    via: str = ""
    jobs: Sequence[str] = ()
    tokens: Sequence[str] = ()
    authorities: str = ""
    has_processes: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.metrics or self.prometheus or self.ray or self.nodes or self.via or self.jobs)


def probes_of(
    options: SourceOptions, environment: Mapping[str, str], log: Callable[[], str] | None = None
) -> list[Probe]:
    """A probe for each source, in order of use; modules of unused sources are not imported.

    Args:
        environment: of this process, for Ray's token and Slurm's variables inside a job.
        log: returns the run's console log, or "" without one; see `SlurmProbe`.

    Raises:
        RltopError: an address, a name or a token is invalid.
    """
    found: list[Probe] = []
    found += _by_http(options, environment)
    if options.via and not options.nodes:
        raise RltopError("--via reaches nodes, and none is named", "add --nodes node[1-8]")
    if options.nodes:
        from rltop.live.nodes import node_names, node_probes  # noqa: PLC0415

        found += node_probes(node_names(options.nodes), options.via)
    if options.jobs:
        from rltop.live.nodes import job_probe  # noqa: PLC0415

        found += [job_probe(job) for job in options.jobs]
    if options.jobs or log is not None:
        from rltop.live.slurm import SlurmProbe  # noqa: PLC0415

        found.append(SlurmProbe(options.jobs, environment, log or str))
    if options.has_processes:
        from rltop.live.titles import TitlesProbe  # noqa: PLC0415

        found.append(TitlesProbe())
    return found


def _by_http(options: SourceOptions, environment: Mapping[str, str]) -> list[Probe]:
    if not (options.metrics or options.prometheus or options.ray or options.tokens):
        return []
    from rltop.live.endpoint import Endpoint, MetricsProbe, PrometheusProbe, RayProbe, address_of, ray_token, token_in  # noqa: PLC0415

    files: dict[str, str] = {}
    for pair in options.tokens:
        place, equals, file = pair.partition("=")
        if not equals or not file:
            raise RltopError(f"--token-file {pair}: names no address and file", "for example prometheus:9090=token.txt")
        files[address_of(place, "--token-file").place] = os.path.expanduser(file)  # noqa: PTH111
    used: set[str] = set()

    def endpoint(url: str, flag: str, path: str, token: str = "") -> Endpoint:
        address = address_of(url, flag, path)
        if address.place in files:
            used.add(address.place)
            token = token_in(files[address.place], "--token-file")
        return Endpoint(address, token=token, authorities=os.path.expanduser(options.authorities))  # noqa: PTH111

    found: list[Probe] = [MetricsProbe(endpoint(url, "--metrics", "/metrics")) for url in options.metrics]
    found += [PrometheusProbe(endpoint(url, "--prometheus", "")) for url in options.prometheus]
    found += [RayProbe(endpoint(url, "--ray", "", ray_token(environment))) for url in options.ray]
    unused = sorted(files.keys() - used)
    if unused:
        raise RltopError(f"--token-file {unused[0]}: no source has that address", "name host and port as in its URL")
    return found
