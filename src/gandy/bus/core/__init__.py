"""The bus without sockets: which handlers a message is for, and what they get of it."""
