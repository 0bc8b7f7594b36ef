"""Complete writes to descriptors: the kernel may accept only part of a write."""

import os


def write_all(descriptor: int, data: bytes | memoryview, offset: int | None = None) -> None:
    """Write all of the bytes, at `offset` or at the descriptor's position. Raises: OSError, after a partial write."""
    rest = memoryview(data)
    while rest:
        if offset is None:
            rest = rest[os.write(descriptor, rest) :]
        else:
            count = os.pwrite(descriptor, rest, offset)
            rest, offset = rest[count:], offset + count
