"""The round-robin queue: its bytes, its conversations, its door, its worker and its consoles."""
