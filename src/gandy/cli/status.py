"""`gandy status`: shows the state of the foreman and its crew."""

import click

from gandy.terminal.exits import CHECK_EXIT_HELP, make_epilog
from gandy.terminal.options import Format, foreman_option, open_client, output_option
from gandy.terminal.say import print_json, say


@click.command(
    epilog=make_epilog("gandy status", "gandy status --output json", "gandy status --check", exits=CHECK_EXIT_HELP)
)
@click.option(
    "--check", "must_check", is_flag=True, help="Say only what is wrong with the crew, and exit with 4 if something is."
)
@foreman_option
@output_option
def status(must_check: bool, foreman: tuple[str, ...], output: Format) -> None:
    """Show the state of the foreman and its crew.

    With --output json, one object is printed, with the keys version, pid, uptime_seconds, store, trouble, listening,
    insecure, workers, slots, used, jobs, waiting, assigned, running, insecure_doors (those of listening that are
    without keys), unreadable (the number of jobs that cannot be read and were set aside), foremen (of the crew), shard
    (of the crew's jobs, that the foreman has; 0 if it is the only foreman), foreman (its id) and versions (of gandy, of
    the foreman and its workers). With --output quiet, only its address is printed.

    With --check, each thing that needs attention is printed on a line: a store that takes no work, a foreman that is
    away, a worker that is away, silent or short of something, versions of gandy that differ, a job that is failing. A
    job that has ended with failures does not count: 'gandy job list --state failed' lists these. With --output json,
    each is an object with the keys kind, severity, text and about; with --output quiet, nothing is printed.
    """
    if must_check:
        from gandy.cli.check import check

        raise click.exceptions.Exit(check(foreman, output))
    from msgspec.structs import asdict

    with open_client(foreman) as client:
        found = client.status()
        address = str(client.address)
    if output == "json":
        print_json(asdict(found))
    elif output == "quiet":
        say(address)
    else:
        from gandy.terminal.rows import status_to_fields
        from gandy.terminal.table import draw_fields

        draw_fields(status_to_fields(found))
