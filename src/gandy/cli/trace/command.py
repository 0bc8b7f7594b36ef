"""`gandy trace`: sends jobs and their attempts to an OpenTelemetry collector."""

from importlib.util import find_spec
from typing import Final

import click

from gandy.errors import ConfigError
from gandy.terminal.exits import make_epilog
from gandy.terminal.options import JOB, Seconds, foreman_option

EXTRA_MISSING: Final = "traces need OpenTelemetry: run  pip install 'gandy[otel]'"


@click.command(
    epilog=make_epilog(
        "gandy trace --endpoint http://localhost:4318",
        "OTEL_EXPORTER_OTLP_HEADERS='authorization=Bearer x' gandy trace --endpoint https://otlp.example.org",
        "gandy trace --sample 0.01 --since 1d",
        "gandy trace 7 8",
    )
)
@click.option(
    "--endpoint",
    metavar="URL",
    help="Where the collector takes OTLP over HTTP. Default: OTEL_EXPORTER_OTLP_ENDPOINT, else http://localhost:4318.",
)
@click.option(
    "--sample",
    "share",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Send this share of the tasks of each job, from 0 to 1, and all that failed. Default: up to 10,000 tasks of a "
    "job, evenly spread, and up to 10,000 others that failed.",
)
@click.option(
    "--since",
    type=Seconds(),
    default=0.0,
    metavar="TIME",
    help="At the first start, also send jobs that ended in the last 2h, 7d. Later starts go on where the last ended.",
)
@click.option(
    "--commands", "with_commands", is_flag=True, help="Also send what jobs run, and in which folder: it may be secret."
)
@foreman_option
@click.argument("jobs", metavar="[JOB]...", type=JOB, nargs=-1)
def trace(
    endpoint: str | None,
    share: float | None,
    since: float,
    with_commands: bool,
    foreman: tuple[str, ...],
    jobs: tuple[int, ...],
) -> None:
    """Send jobs and their attempts to an OpenTelemetry collector, as spans.

    It runs until Ctrl-C, and sends each job when it has ended: a span for the job, and one for each attempt. After a
    restart it goes on where it was; while the collector is away, jobs wait in the store. With JOBs, it sends these and
    exits.

    The variables OTEL_EXPORTER_OTLP_..., OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES are respected.
    """
    if find_spec("opentelemetry") is None or find_spec("requests") is None:
        raise ConfigError(EXTRA_MISSING)
    from gandy.cli.trace.program import TraceOptions, run

    run(TraceOptions(foreman, jobs, endpoint, share, since, with_commands))
