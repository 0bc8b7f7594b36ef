"""`gandy report`: writes everything about some jobs to one HTML file."""

import asyncio
import sys
from pathlib import Path

import click

from gandy.errors import ConfigError
from gandy.terminal.exits import make_epilog
from gandy.terminal.options import foreman_option, jobs_argument


@click.command(epilog=make_epilog("gandy report 7 > report.html", "gandy report 7 8 --output report.html"))
@click.option(
    "--output", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write it to this file."
)
@jobs_argument
@foreman_option
def report(numbers: tuple[int, ...], output: Path | None, foreman: tuple[str, ...]) -> None:
    """Write everything about some jobs to one HTML file, to be sent to other people.

    It has their settings and progress, how long tasks took and how much memory they used, failures grouped by their
    last words, a map of all tasks, a timeline, the slowest tasks, retries, and what failed tasks wrote last. It loads
    nothing, runs no scripts, and can be printed. Of the environment it has the names, and no values.

    Commands and output are in it as they are: look at it before you send it.
    """
    if output is None and sys.stdout.isatty():
        raise click.UsageError(
            "the report is an HTML file; write it to one: gandy report 7 > report.html, or --output FILE"
        )
    page = asyncio.run(_make_page(foreman, numbers))
    if output is None:
        sys.stdout.buffer.write(page)
        return
    try:
        output.write_bytes(page)
    except OSError as error:
        raise ConfigError(f"{output} cannot be written: {error.strerror}") from None


async def _make_page(foreman: tuple[str, ...], numbers: tuple[int, ...]) -> bytes:
    from gandy.cli.report.collect import collect_report
    from gandy.cli.report.page import write_page
    from gandy.client.aio import AsyncClient

    async with AsyncClient(foreman) as client:
        return write_page(await collect_report(client, numbers)).encode(errors="replace")
