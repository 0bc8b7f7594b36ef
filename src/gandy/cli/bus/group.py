"""`gandy bus`: look at an ensemble, send to its services, and take part in it for a while."""

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

    An ensemble is private: programs of this home take part in it, and those on machines that have joined the same crew.
    With --insecure any program on the network can take part, and private processes are not seen.
    """


for command in (status, send, listen, clock, monitor):
    bus.add_command(command)
