"""Bounds on what brokers and workers of the ping-pong dialogue can claim or fill, with unit and reason."""

from typing import Final

# Workers of one broker: every peer that connects can add one.
MAX_WORKERS: Final = 10_000

# Jobs that wait on a worker: a broker may treat each PING of a busy worker as READY.
MAX_WAITING_JOBS: Final = 1000

# Bytes of a job or a result: both sides keep them in memory.
MAX_BODY_BYTES: Final = 16 * 1024 * 1024

# Bytes of the count in a PING, which the PONG repeats.
MAX_COUNT_BYTES: Final = 64
