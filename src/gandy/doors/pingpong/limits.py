"""Bounds on what brokers and workers of the ping-pong dialogue can claim or fill, with unit and reason."""

from typing import Final

# Workers of one broker: every peer that connects can add one.
MAX_WORKERS: Final = 10_000

# Jobs that wait on a worker: a broker may take each PING of a busy worker for "ready".
MAX_WAITING_JOBS: Final = 1000

# Bytes of a job or a result: both sides have them in memory.
MAX_BODY_BYTES: Final = 16 * 1024 * 1024

# Bytes of the frame with a count, which is sent back as it came.
MAX_COUNT_BYTES: Final = 64
