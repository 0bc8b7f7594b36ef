"""Converts bytes to messages and back. Keeps no state of a conversation, and never waits."""
