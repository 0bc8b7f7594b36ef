"""Ports for foremen in tests: they keep what is written to them, and whether they were closed."""


class PlayedPort:
    """Implements `core.links.Port`."""

    def __init__(self, name: str = "link", source: str = "here") -> None:
        self.name = name
        self.source = source
        self.output = bytearray()
        self.ends: list[str] = []  # how it was closed

    def take(self) -> bytes:
        """What was written since the last call."""
        data = bytes(self.output)
        self.output.clear()
        return data

    def write(self, data: bytes) -> None:
        self.output += data

    def dismiss(self, last_message: bytes) -> None:
        self.write(last_message)
        self.ends.append("dismiss")

    def close(self) -> None:
        self.ends.append("close")

    def abort(self) -> None:
        self.ends.append("abort")
