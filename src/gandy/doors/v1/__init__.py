"""The first generation of the job protocol: its bytes, its two conversations, and its door."""
