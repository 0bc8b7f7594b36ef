"""Writing to descriptors. The kernel may take a part of what it is given, and says so; nothing here ignores it."""

import os


def write_all(descriptor: int, data: bytes | memoryview, offset: int | None = None) -> None:
    """All of the bytes, at the offset or where the descriptor stands. Raises: OSError; a part may be written then."""
    rest = memoryview(data)
    while rest:
        if offset is None:
            rest = rest[os.write(descriptor, rest) :]
        else:
            count = os.pwrite(descriptor, rest, offset)
            rest, offset = rest[count:], offset + count
