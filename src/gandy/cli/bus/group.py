"""`gandy bus`: look at an ensemble, send to its services, and be one of its processes for a while."""

import click

from gandy.cli.bus.joining import explain
from gandy.cli.bus.listen import listen
from gandy.cli.bus.monitor import monitor
from gandy.cli.bus.send import send
from gandy.cli.bus.status import clock, status


@click.group(
    epilog=explain("gandy bus status", "gandy bus listen kitchen", "gandy bus send /kitchen/cook 3 '\"soup\"'")
)
def bus() -> None:
    """Look at an ensemble of the bus, and send to its services.

    An ensemble is private: those of this home take part in it, and those of the machines that have joined the same
    crew. With --insecure everybody on the network can, and those who are private are not seen.
    """


for command in (status, send, listen, clock, monitor):
    bus.add_command(command)
