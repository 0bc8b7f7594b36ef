"""What others may write to come to this machine."""

from gandy.config import Address
from gandy.interfaces import list_reachable, parse_inet6

LINES = """\
00000000000000000000000000000001 01 80 10 80       lo
fd770000000000000000000000000001 02 40 00 80     eth0
20010db8000000000000000000000007 02 40 00 00     eth0
20010db80000000008badf00ddeadbee 02 40 00 01     eth0
20010db8000000000000000000000008 02 40 00 20     eth0
fe80000000000000021122fffe334455 02 40 20 80     eth0
"""


def test_addresses_that_others_reach_and_that_stay_are_listed() -> None:
    assert list(parse_inet6(LINES)) == ["fd77::1", "2001:db8::7"]


def test_an_address_that_a_user_chose_stands_for_itself() -> None:
    chosen = Address("tcp", "hut.example", 5429)
    assert list_reachable(chosen) == [chosen]


def test_everywhere_is_nothing_that_others_can_write() -> None:
    for everywhere in ("0.0.0.0", "::"):
        hosts = [each.host for each in list_reachable(Address("tcp", everywhere, 5429))]
        assert everywhere not in hosts
        assert not any(host.startswith("127.") for host in hosts)
