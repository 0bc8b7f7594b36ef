"""Bounds on what peers of the round-robin queue can claim or fill, with unit and reason."""

from typing import Final

# Bytes of a message's id: the original aborts at 512.
MAX_ID_BYTES: Final = 511

# Bytes of a command's code: the original has 8 at most.
MAX_CODE_BYTES: Final = 255

# Characters of the reason for a failure.
MAX_REASON: Final = 2_000

# Workers

# Workers of one door, and lost workers that it remembers: the oldest are forgotten.
MAX_WORKERS: Final = 10_000
MAX_LOST_WORKERS: Final = 1_000

# Dispatches of one worker beyond its slots. Any more get a failure.
MAX_EXTRA_DISPATCHES: Final = 10_000

# Clients

# Clients with requests under way.
MAX_CLIENTS: Final = 10_000

# Calls of one client on the switchboard: the calls of other clients wait behind no more than these.
MAX_UNDER_WAY: Final = 100

# Further messages of one client that wait, and bytes of both. A single message may have more.
MAX_WAITING_MESSAGES: Final = 20_000
MAX_CLIENT_BYTES: Final = 64 * 1024 * 1024

# Requests from peer to peer whose response is to come. The oldest are forgotten.
MAX_PASSED_REQUESTS: Final = 10_000

# Streams

# Bytes of a stream's handle: a packet has one byte for their number.
MAX_HANDLE_BYTES: Final = 255

# Bytes out of one packet: zlib makes at most 8.5 million of 8,192.
MAX_UNPACKED_BYTES: Final = 16 * 1024 * 1024

# Seconds that a reader may ask us to keep its stream while it is silent: meanwhile a slot is taken.
MAX_LEASE: Final = 3600.0

# Ids of our own requests about streams to one worker, whose responses are expected and change nothing.
MAX_ASKED: Final = 100

# Consoles

# Lines that wait to be printed. Any more are counted and left out.
MAX_WAITING_LINES: Final = 10_000

# Bytes of a line of input: a longer one is read in parts. Lines of history.
MAX_LINE_BYTES: Final = 65_536
MAX_HISTORY_LINES: Final = 1_000

# Requests of a bulk test: no more messages may wait in a socket.
MAX_BULK: Final = 100_000
