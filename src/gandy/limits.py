"""Every bound on what a peer can claim or fill, with its unit and its reason."""

from typing import Final

# Bytes. A gandy worker's HELLO fits with all the tasks that it may have.
MAX_PAYLOAD_BYTES: Final = 16 * 1024 * 1024

# Processors of one worker. OK has 16 bits for them, and 0xFFFF twice already means "send HELLO again".
MAX_SLOTS: Final = 0xFFFE

# Results in one batch.
MAX_BATCH: Final = 500

# Bytes of results in one batch, unless a single one has more.
MAX_BATCH_BYTES: Final = 4_000_000

# Batches of results that are sent and not yet safe. More would only make them smaller.
MAX_BATCHES_UNDER_WAY: Final = 2

# Bytes of what a Python function gives back that are kept with the attempt. More stays on the worker.
MAX_RESULT_BYTES: Final = 1_000_000

# Requests of a peer that wait for their turn, each as large as a payload may be. A gandy peer has one under way.
MAX_HELD_REQUESTS: Final = 4

# The greatest sequence number: the header has 32 bits for it.
LAST_NUMBER: Final = 0xFFFF_FFFF

# Bytes of a command's name: one byte on the wire tells how many there are.
MAX_COMMAND_NAME: Final = 255

# Commands of one worker.
MAX_COMMANDS: Final = 10_000

# Bytes of the names of all commands of one worker: a list of all workers must fit a payload.
MAX_OFFER_BYTES: Final = 256 * 1024

# Bytes of arguments or of a value in one frame. A frame that is longer would keep small calls waiting.
MAX_PIECE_BYTES: Final = 64 * 1024

# Bytes of the arguments of one call, or of one value: they are in memory at both ends.
MAX_VALUE_BYTES: Final = 1 << 30

# Calls that wait in a foreman for a free slot, and the bytes that they may have.
MAX_QUEUED_CALLS: Final = 200_000
MAX_QUEUED_BYTES: Final = 256 * 1024 * 1024
