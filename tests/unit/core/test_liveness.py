"""When a foreman cuts links: silence before HELLO and after it, and keys that end."""

from tests.unit.core.linked import Crew

from gandy.core.liveness import HEARTBEAT_EXPIRY
from gandy.core.roles import CrewRole, make_refusal
from gandy.errors import ErrorCode
from gandy.limits import HELLO_SECONDS
from gandy.wire import calls


def test_peers_that_say_nothing_are_cut() -> None:
    crew = Crew(max_silent=2)
    for name in ("a", "b"):
        crew.connect(name)
    assert crew.ports["a"].ends == ["abort"]  # half of those that there may be, from one address
    crew.worker("w")
    crew.foreman.on_time(HELLO_SECONDS + 1.0)
    assert [crew.ports[name].ends for name in ("b", "w")] == [["abort"], []]


def test_a_worker_that_falls_silent_is_cut() -> None:
    crew = Crew()
    worker = crew.worker("w")
    crew.foreman.on_time(2.0)
    crew.foreman.on_data(worker, calls.encode(calls.CANCEL, 0, 1), 10.0)
    crew.foreman.on_time(1.0 + HEARTBEAT_EXPIRY + 0.5)
    assert crew.ports["w"].ends == []
    crew.foreman.on_time(10.0 + HEARTBEAT_EXPIRY + 0.5)
    assert (crew.ports["w"].ends, crew.watcher.notes[-1]) == (["abort"], "w silent")


def test_keys_that_are_revoked_or_expired_end_their_links() -> None:
    crew = Crew()
    for name, expires in (("a", None), ("b", 100.0), ("c", 50.0)):
        crew.connect(name, CrewRole.CLIENT, expires)
    crew.foreman.liveness.cut_key("key of a")
    crew.foreman.liveness.cut_expired(60.0)
    last_messages = [(port.ends, port.take()) for port in crew.ports.values()]
    revoked, expired = make_refusal(ErrorCode.REVOKED_KEY), make_refusal(ErrorCode.EXPIRED_KEY)
    assert last_messages == [(["dismiss"], revoked), ([], b""), (["dismiss"], expired)]
    assert crew.watcher.notes == ["c expired"]
    assert [link.name for link in crew.foreman.links.list_by_key("key of b")] == ["b"]


def test_workers_are_looked_at_only_when_one_of_them_may_be_silent() -> None:
    crew = Crew()
    worker = crew.worker("w")
    crew.foreman.on_time(2.0)
    assert worker.peer.worker is not None
    worker.peer.worker.last_heard = -100.0
    crew.foreman.on_time(3.0)
    assert crew.ports["w"].ends == []
