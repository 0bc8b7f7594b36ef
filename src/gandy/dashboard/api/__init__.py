"""The handlers of requests: each asks the crew, and makes an answer that is sent as JSON."""
