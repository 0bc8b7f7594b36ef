"""`gandy status`: shows the state of the foreman and its crew."""

import click

from gandy.terminal.exits import make_epilog
from gandy.terminal.options import Format, foreman_option, open_client, output_option
from gandy.terminal.say import print_json, say


@click.command(epilog=make_epilog("gandy status", "gandy status --output json"))
@foreman_option
@output_option
def status(foreman: tuple[str, ...], output: Format) -> None:
    """Show the state of the foreman and its crew.

    With --output json, one object is printed, with the keys version, pid, uptime_seconds, store, trouble, listening,
    insecure, workers, slots, used, jobs, waiting, assigned, running, insecure_doors (those of listening that are
    without keys), unreadable (the number of jobs that cannot be read and were set aside), foremen (of the crew) and
    shard (of the crew's jobs, that the foreman has; 0 if it is the only foreman). With --output quiet, only its address
    is printed.
    """
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
