"""`gandy status`: shows the state of the foreman and its crew, now or at a moment of the past."""

import click

from gandy.terminal.exits import CHECK_EXIT_HELP, make_epilog
from gandy.terminal.options import Format, foreman_option, open_client, output_option
from gandy.terminal.say import print_json, say
from gandy.terminal.times import PAST_EXAMPLES, PastMoment, PastMomentType


@click.command(
    epilog=make_epilog(
        "gandy status",
        "gandy status --output json",
        "gandy status --check",
        "gandy status --at 14:00",
        "gandy status --at 'yesterday 14:00' --output json",
        exits=CHECK_EXIT_HELP,
    )
)
@click.option(
    "--check", "must_check", is_flag=True, help="Say only what is wrong with the crew, and exit with 4 if something is."
)
@click.option(
    "--at",
    type=PastMomentType(),
    metavar="TIME",
    help=f"Show the crew as it was then: {PAST_EXAMPLES}, or seconds since 1970.",
)
@foreman_option
@output_option
def status(must_check: bool, at: PastMoment | None, foreman: tuple[str, ...], output: Format) -> None:
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

    With --at, the crew is shown as it was when its last sample before that moment was recorded, which happens every ten
    seconds while anything changes. 14:00 is the last one, today or yesterday; dates without a zone are local. Up to two
    days ago, every sample is kept; up to a month ago, one in five minutes; up to two years ago, one an hour. At most a
    hundred jobs and workers of each foreman are recorded by name; the numbers are of all.

    With --at and --output json, one object is printed, with the keys asked and recorded (both in seconds since 1970),
    is_stopped (no foreman ran), workers, slots, used, jobs, waiting, assigned, running, calls_waiting, job_rows (job,
    name, state, held, tasks, waiting, running, finished, failed, cancelled, assigned, submitted) and worker_rows (id,
    name, state, slots, used). The name of a job that was forgotten since is empty, and submitted is null. With --at and
    --output quiet, only recorded is printed.
    """
    if must_check and at is not None:
        raise click.UsageError("--check and --at exclude each other: the history has no troubles")
    if at is not None:
        from gandy.cli.past_status import show_past

        raise click.exceptions.Exit(show_past(at, foreman, output))
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
