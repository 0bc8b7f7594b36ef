"""A message is for the handlers whose whole path it names."""

import pytest

from gandy.bus.core import addresses
from gandy.bus.core.addresses import AddressTree, check_path, split_address
from gandy.bus.core.patterns import Pattern, compile_pattern
from gandy.bus.limits import MAX_HANDLER_PATH, MAX_HANDLERS_AT_PATH, MAX_PATH_DEPTH, MAX_PATH_NAME
from gandy.errors import ConfigError


def make_tree(*paths: str, max_steps: int = 1_000_000) -> AddressTree[str]:
    """Each handler is named after its path."""
    tree = AddressTree[str](max_steps=max_steps)
    for path in paths:
        tree.add(path, path)
    tree.check_invariants()
    return tree


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("/svc/a/b", ("svc", "a/b", False)),
        ("!svc/a/b", ("svc", "a/b", True)),
        ("/svc", ("svc", "", False)),
        ("!svc/", ("svc", "", True)),
        ("!127.0.0.1:4000/cs/cs", ("127.0.0.1:4000", "cs/cs", True)),
        ("/svc//a", ("svc", "/a", False)),
        ("", None),
        ("/", None),
        ("!", None),
        ("//a", None),
        ("svc/a", None),
        ("#svc", None),
    ],
)
def test_an_address_is_split_after_its_service(address: str, parts: tuple[str, str, bool] | None) -> None:
    assert split_address(address) == parts


def test_a_message_is_for_the_path_that_it_names_and_no_other() -> None:
    tree = make_tree("/a", "/a/b", "/a/b/c", "!a/x", "/b")
    assert tree.find("a/b") == ("/a/b",)
    assert tree.find("a/b", is_literal=True) == ("/a/b",)
    assert tree.find("a/x") == ("!a/x",)
    assert tree.find("a/y") == tree.find("a/b/c/d") == tree.find("a/") == tree.find("/a") == tree.find("") == ()


def test_handlers_at_one_path_are_called_in_the_order_of_their_adding() -> None:
    tree = AddressTree[int]()
    for number in (3, 1, 2, 1):
        tree.add("/a", number)
    assert tree.find("a") == (3, 1, 2, 1)
    assert tree.remove("/a", 1)
    assert tree.find("a") == (3, 2, 1)
    assert len(tree) == 3


@pytest.mark.parametrize("path", ["", "/", "!"])
def test_handlers_of_the_service_get_everything_after_the_others(path: str) -> None:
    tree = make_tree("/a", "/b")
    tree.add(path, "all")
    assert tree.find("a") == ("/a", "all")
    assert tree.find("*") == ("/a", "/b", "all")
    assert tree.find("nobody/here", is_literal=True) == tree.find("") == ("all",)
    assert tree.remove(path, "all")
    assert not tree.remove(path, "all")
    assert tree.find("nobody/here") == ()
    tree.check_invariants()


def test_patterns_are_matched_at_each_name() -> None:
    tree = make_tree("/a/gain", "/a/pan", "/b/gain", "/b", "/c/gain/fine")
    assert tree.find("*/gain") == ("/a/gain", "/b/gain")
    assert tree.find("a/*") == ("/a/gain", "/a/pan")
    assert tree.find("[ab]/{pan,gain}") == ("/a/pan", "/a/gain", "/b/gain")
    assert tree.find("?/gain/*") == ("/c/gain/fine",)
    assert tree.find("?") == ("/b",)
    assert tree.find("*") == ("/b",)
    assert tree.find("x*/gain") == tree.find("*/x/*") == tree.find("*//gain") == tree.find("*/") == ()


def test_a_star_stays_between_two_slashes() -> None:
    assert make_tree("/a/b/c").find("a*c") == ()


def test_a_literal_address_is_never_a_pattern() -> None:
    tree = make_tree("/a", "/b")
    assert tree.find("*", is_literal=True) == ()
    assert tree.find("[ab]", is_literal=True) == ()


def test_a_removed_handler_leaves_nothing_behind() -> None:
    tree = make_tree("/a/b/c/d", "/a/b", "/a/x")
    assert tree.remove("/a/b/c/d", "/a/b/c/d")
    tree.check_invariants()
    assert tree.find("a/*") == ("/a/b", "/a/x")
    assert tree.remove("!a/x", "/a/x")
    assert tree.remove("/a/b", "/a/b")
    tree.check_invariants()
    assert len(tree) == 0
    assert not tree._root.below


def test_a_handler_above_others_is_removed_alone() -> None:
    tree = make_tree("/a", "/a/b")
    assert tree.remove("/a", "/a")
    tree.check_invariants()
    assert tree.find("a") == ()
    assert tree.find("a/b") == ("/a/b",)


def test_a_handler_that_is_not_there_cannot_be_removed() -> None:
    tree = make_tree("/a/b")
    assert not tree.remove("/a", "/a")
    assert not tree.remove("/a/b", "/a")
    assert not tree.remove("/x", "/x")
    assert len(tree) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a/b", "must begin with /"),
        ("#a", "must begin with /"),
        ("/a/*", "pattern characters"),
        ("/a/{b", "pattern characters"),
        ("/a\0", "pattern characters"),
        ("//", "empty name"),
        ("/a//b", "empty name"),
        ("/a/", "empty name"),
        ("!/a", "empty name"),
        ("/" + "a" * (MAX_PATH_NAME + 1), "too long"),
        ("/a" * (MAX_PATH_DEPTH + 1), "too long"),
        (("/" + "a" * 99) * 10, "too long"),
    ],
)
def test_a_handler_has_a_proper_path(path: str, text: str) -> None:
    tree = AddressTree[str]()
    with pytest.raises(ConfigError, match=text):
        tree.add(path, "x")
    with pytest.raises(ConfigError, match=text):
        tree.remove(path, "x")
    assert len(tree) == 0


def test_the_longest_path_is_good() -> None:
    for path in ("/" + "a" * MAX_PATH_NAME, "/a" * MAX_PATH_DEPTH, ("/" + "a" * 99) * (MAX_HANDLER_PATH // 100)):
        tree = make_tree(path)
        assert tree.find(check_path(path)) == (path,)
        assert tree.find("*/" * path[1:].count("/") + "*") == (path,)


def test_handlers_are_not_added_without_end() -> None:
    tree = AddressTree[int](max_handlers=3)
    for number in range(3):
        tree.add(f"/{number}", number)
    with pytest.raises(ConfigError, match="at most 3 handlers"):
        tree.add("/3", 3)
    tree.check_invariants()


@pytest.mark.parametrize("path", ["/a/b", "/"])
def test_handlers_are_not_added_to_one_path_without_end(path: str) -> None:
    tree = AddressTree[int]()
    for number in range(MAX_HANDLERS_AT_PATH):
        tree.add(path, number)
    with pytest.raises(ConfigError, match="a path has at most"):
        tree.add(path, -1)
    tree.check_invariants()


class Looks:
    """Counts the names that patterns are compared with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        monkeypatch.setattr(addresses, "compile_pattern", self.compile)

    def compile(self, text: str) -> Pattern:
        pattern = compile_pattern(text)

        def matches(name: str) -> bool:
            self.count += 1
            return pattern.matches(name)

        return Pattern(matches, pattern.words, pattern.cost)


def test_a_search_looks_only_where_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = make_tree(*(f"/ch{channel}/p{number}" for channel in range(20) for number in range(100)))
    looks = Looks(monkeypatch)
    for address, found, count in [
        ("ch7/p7", 1, 0),
        ("*/p7", 20, 20),  # a literal name below a pattern is looked up
        ("ch?/p7", 10, 20),
        ("x*/*", 0, 20),  # what does not match is not entered
        ("ch[1-3]/{p1,p2}", 6, 0),  # few words are looked up
        ("ch7/p*", 100, 100),
        ("*/p1?", 200, 20 + 2_000),
        ("x/*", 0, 0),
        ("*/*/*/*", 0, 20 + 2_000),
    ]:
        looks.count = 0
        assert len(tree.find(address)) == found, address
        assert looks.count == count, address


def test_more_words_than_names_are_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = make_tree("/3", "/12", "/x")
    looks = Looks(monkeypatch)
    assert tree.find("{1,2,3,x}") == ("/3", "/x")
    assert looks.count == 3


def test_a_search_that_takes_too_long_finds_no_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = make_tree(*(f"/a{number}/b/c" for number in range(100)), max_steps=300)
    tree.add("", "all")
    looks = Looks(monkeypatch)
    for address in ("*/b/c", "*/{b,x}/c", "*/*/c", "*/*/*"):
        assert len(tree.find(address)) == 101
    assert tree.refused == 0
    assert looks.count == 100 + 200 + 200 + 300
    for address in ("{,a}*" * 40, "*/b/*x*", "?*?"):
        assert tree.find(address) == ("all",)
    assert tree.refused == 3
    assert looks.count == 800 + 100  # nothing is begun that cannot be ended
