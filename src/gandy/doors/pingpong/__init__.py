"""The ping-pong dialogue: its bytes, its conversation, its door and its worker."""
