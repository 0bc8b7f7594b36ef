"""Sockets: links that come and go. It does not know what their bytes mean."""
