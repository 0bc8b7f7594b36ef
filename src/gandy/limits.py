"""Every bound on what a peer can claim or fill, with its unit and its reason."""

from typing import Final

# Bytes. A HELLO that lists as many running tasks as a worker may have still fits.
MAX_PAYLOAD_BYTES: Final = 16 * 1024 * 1024

# Processors of one worker. OK has 16 bits for them, and 0xFFFF twice already means "send HELLO again".
MAX_SLOTS: Final = 0xFFFE

# Requests of a peer that wait for their turn. A gandy peer never has more than one under way.
MAX_HELD_REQUESTS: Final = 16

# The greatest sequence number: the header has 32 bits for it.
LAST_NUMBER: Final = 0xFFFF_FFFF
