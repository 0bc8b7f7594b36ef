"""Bounds that all ZeroMQ doors share, with unit and reason. Those of one door are in its own folder."""

from typing import Final

# Frames of one message: no request has a million empty ones. A value may have fewer: the rest is for addresses.
MAX_FRAMES: Final = 1000
MAX_PAYLOAD_FRAMES: Final = MAX_FRAMES - 20

# Bytes of one frame: libzmq cuts a peer that claims more.
MAX_FRAME_BYTES: Final = 16 * 1024 * 1024

# Bytes of one value: a door keeps it in memory until its caller has read it.
MAX_FLOW_BYTES: Final = 16 * 1024 * 1024

# Bytes that may wait in our memory for a peer that does not read, in frames of at least LARGE_FRAME bytes, which libzmq
# reports one by one. The number of smaller ones is bounded.
MAX_UNSENT_BYTES: Final = 64 * 1024 * 1024

# Bytes of a routing id, by ZMTP.
MAX_ROUTING_ID: Final = 255

# Peers whose connections we track. Beyond, we do not notice at once that a peer may be gone.
MAX_TRACKED_PEERS: Final = 100_000
