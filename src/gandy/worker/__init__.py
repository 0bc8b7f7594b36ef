"""The worker: runs tasks in its slots and says how they ended."""
