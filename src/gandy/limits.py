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
