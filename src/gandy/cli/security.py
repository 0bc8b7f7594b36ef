"""What the command line refuses, because there are no keys for it yet."""

from gandy.config import parse_address
from gandy.errors import ConfigError


def refuse_open_network(insecure: bool, *addresses: str | None) -> None:
    """Raises: ConfigError, for TCP without --insecure, and for an address that is none."""
    for address in addresses:
        if address is not None and parse_address(address).scheme == "tcp" and not insecure:
            raise ConfigError(
                f"{address} is on the network, and keys for that come later. --insecure does without them: "
                "then everybody on that network can run commands on this crew."
            )
