"""Joining a crew: a token becomes a key, by one request to a foreman that is recognised by its fingerprint."""

import secrets
import socket
import ssl
from pathlib import Path
from typing import Final

from gandy.config import parse_address
from gandy.core.keyring import hash_secret, make_proof
from gandy.core.roles import CrewRole
from gandy.errors import ConfigError, LinkError, NotAllowed, RemoteProtocolError
from gandy.keys.certificates import Secret, make_secret
from gandy.keys.crew import CREW, CrewKeys, Membership, is_pinned, make_client_context
from gandy.keys.foreman_home import CrewIdentity, install
from gandy.limits import MAX_JOIN_BYTES, MAX_KEY_NAME
from gandy.wire.joining import (
    ALPN_JOIN,
    Join,
    Joined,
    JoinReader,
    Token,
    bind,
    decode_answer,
    encode_join,
    parse_token,
)
from gandy.wire.server_names import JOIN

TIMEOUT: Final = 10.0  # seconds, for each address


class NameTakenThere(NotAllowed):
    """Another key of the crew has the name."""


def join(text: str, home: str, name: str | None = None) -> CrewKeys:
    """Use a token, and keep the key in this home. The caller has locked the folder.

    A token for a foreman makes this home a foreman's: the caller has made sure that none runs in it.

    Raises: ConfigError: it is not a token. LinkError: the foreman cannot be reached. NotAllowed: it refuses.
    """
    token = parse_token(text)
    secret = make_secret()
    problems = []
    for address in token.addresses:
        try:
            answer, foreman = _ask_by_name(address, token, secret, name)
        except LinkError as error:
            problems.append(str(error))
        else:
            return _save(token, secret, answer, foreman, address, home)
    raise LinkError("; ".join(problems) or "the token names no address")


def _save(token: Token, secret: Secret, answer: Joined, foreman: bytes, address: str, home: str) -> CrewKeys:
    try:
        role = CrewRole(answer.role)
    except ValueError:
        raise ConfigError(f"the foreman gave us the role {answer.role}, which this version does not know") from None
    if role is CrewRole.FOREMAN and not answer.identity_secret:
        raise ConfigError("the foreman did not give us the identity of the crew: it may be of an older version")
    if answer.role != token.role:  # the caller has prepared the home for the token's role
        raise ConfigError(f"the token is for the role {token.role}, and the foreman gave us the role {answer.role}")
    others = tuple(other for other in token.addresses if other != address)
    fingerprint = token.fingerprint.hex()
    about = Membership(fingerprint, answer.name, role, (address, *others), answer.ensemble, token.invitation)
    if role is CrewRole.FOREMAN:
        identity = CrewIdentity(foreman, answer.identity_secret, answer.ensemble_key)
        return install(Path(home), about, secret.pem, answer.certificate, identity)
    keys = secret.pem, answer.certificate, foreman, answer.ensemble_key
    return CrewKeys.save(Path(home) / CREW, about, *keys)


def _ask_by_name(address: str, token: Token, secret: Secret, name: str | None) -> tuple[Joined, bytes]:
    """If another key has this machine's name, it gets a suffix; a name that the user chose does not."""
    host = socket.gethostname()
    try:
        return _ask(address, token, secret, name or host[:MAX_KEY_NAME])
    except NameTakenThere:
        if name is not None:
            raise
        ending = f"-{secrets.token_hex(3)}"
        return _ask(address, token, secret, host[: MAX_KEY_NAME - len(ending)] + ending)


def _ask(address: str, token: Token, secret: Secret, name: str) -> tuple[Joined, bytes]:
    """The answer, and the foreman's certificate."""
    where = parse_address(address)
    context = make_client_context()
    context.set_alpn_protocols([ALPN_JOIN])
    try:
        with (
            socket.create_connection((where.host, where.port), TIMEOUT) as link,
            context.wrap_socket(link, server_hostname=JOIN) as tls,  # every foreman shows the identity for that name
        ):
            certificate = tls.getpeercert(binary_form=True)
            if certificate is None or not is_pinned(certificate, token.fingerprint.hex()):
                raise LinkError(f"what listens at {address} is not the foreman that made this token")
            proof = make_proof(hash_secret(token.secret), bind(token.fingerprint, secret.public))
            tls.sendall(encode_join(Join(token.invitation, proof, secret.public, name)))
            answer = decode_answer(_read(tls))
    except (OSError, ValueError, RemoteProtocolError) as error:  # ValueError: from the codec for host names
        raise LinkError(f"cannot join at {address}: {error}") from None
    if not isinstance(answer, Joined):
        raise NameTakenThere(answer.reason) if answer.is_name_taken else NotAllowed(answer.reason)
    return answer, certificate


def _read(tls: ssl.SSLSocket) -> bytes:
    reader = JoinReader()
    while data := tls.recv(MAX_JOIN_BYTES):
        if (message := reader.receive(data)) is not None:
            return message
    raise ConnectionError("the link was closed without an answer")
