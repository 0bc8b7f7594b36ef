"""The worker: runs tasks and calls in its slots, and reports how they ended."""
