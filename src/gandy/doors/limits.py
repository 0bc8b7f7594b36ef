"""Bounds that all ZeroMQ doors share, with unit and reason. Those of one door are in its own folder."""

from typing import Final

# Frames of one message: a list of a million empty ones is no request. Of a value fewer: the rest is for addresses.
MAX_FRAMES: Final = 1000
MAX_PAYLOAD_FRAMES: Final = MAX_FRAMES - 20

# Bytes of one frame: libzmq cuts a peer that claims more.
MAX_FRAME_BYTES: Final = 16 * 1024 * 1024

# Bytes of one value: a door keeps it whole until its caller has read it.
MAX_FLOW_BYTES: Final = 16 * 1024 * 1024

# Bytes that may wait in our memory for a peer that does not read, in frames from LARGE_FRAME bytes up, which libzmq
# reports one by one. Smaller ones are bounded by their number.
MAX_UNSENT_BYTES: Final = 64 * 1024 * 1024

# Bytes of a routing id, by ZMTP.
MAX_ROUTING_ID: Final = 255

# Peers whose connection is known. For others there are no hints that they may be gone.
MAX_TRACKED_PEERS: Final = 100_000
