"""The bus without sockets: decides what a member of an ensemble sends, and to which handlers a message goes."""
