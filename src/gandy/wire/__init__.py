"""Bytes to messages and back. Nothing here remembers a conversation, and nothing here waits."""
