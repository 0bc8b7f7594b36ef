"""Sockets: links that come and go. What their bytes mean is for others."""
