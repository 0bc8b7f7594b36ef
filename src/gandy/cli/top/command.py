"""`gandy top`: shows the crew at work in a terminal."""

import asyncio
import os
import shutil
import sys
from typing import Final

import click

from gandy.cli.top.terminal import TopTerminal, can_draw, is_utf8
from gandy.terminal.exits import make_epilog
from gandy.terminal.options import foreman_option

PRINTED_ROWS: Final = 100  # if there is no terminal


@click.command(epilog=make_epilog("gandy top", "gandy top --once", "gandy top --foreman tcp://first:5429"))
@click.option("--once", is_flag=True, help="Print one screen as text and exit; so does a pipe or a file.")
@foreman_option
def top(once: bool, foreman: tuple[str, ...]) -> None:
    """Show the crew at work: jobs, their tasks, workers, calls and foremen.

    ? lists the keys, and q quits. Jobs can be held, released, retried and cancelled, if this key may. NO_COLOR is
    respected.
    """
    if once or not can_draw(os.environ):
        _print_once(foreman)
        return
    with TopTerminal(os.environ) as terminal:
        from gandy.cli.top.program import run_top

        code = asyncio.run(run_top(foreman, terminal))
    raise click.exceptions.Exit(code)


def _print_once(foreman: tuple[str, ...]) -> None:
    from gandy.cli.top.lines import get_text, to_ascii
    from gandy.cli.top.program import read_once
    from gandy.client.aio import AsyncClient

    async def read() -> list[str]:
        client = AsyncClient(foreman)
        try:
            width = shutil.get_terminal_size().columns
            return [get_text(line).rstrip() for line in await read_once(client, width, PRINTED_ROWS)]
        finally:
            await client.close()

    text = "\n".join(asyncio.run(read()))
    click.echo(text if is_utf8(sys.stdout.encoding) else to_ascii(text))
