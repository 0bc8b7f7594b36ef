"""The tree of addresses against the obvious: a list of all handlers, and a matcher that tries everything."""

from functools import lru_cache
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gandy.bus.core.addresses import AddressTree, split_address
from gandy.bus.core.patterns import PART_COST, compile_pattern

names = st.text("abc-", min_size=1, max_size=3)
paths = st.lists(names, max_size=3).map(lambda parts: "/" + "/".join(parts))
marks = st.sampled_from("/!")

letters = st.text("abc-!", max_size=4)
parts = st.one_of(
    st.sampled_from(["*", "?", "a", "b", "-"]),
    letters.map(lambda text: f"[{text}]"),
    st.lists(st.text("abc-*?[", max_size=3), max_size=3).map(lambda words: "{" + ",".join(words) + "}"),
)
likely = st.lists(parts, max_size=5).map("".join)
patterns = likely | st.text("abc*?[]{},!-", max_size=10)


def has_letter(letters: str, letter: str) -> bool:
    """What stands between brackets, without its `!`."""
    if letters[1:2] == "-" and len(letters) > 2:
        return letters[0] <= letter <= letters[2] or has_letter(letters[3:], letter)
    return letters != "" and (letters[0] == letter or has_letter(letters[1:], letter))


@lru_cache(100_000)
def slow_match(pattern: str, name: str) -> bool:
    """OSC 1.0, clause by clause."""
    first, rest = pattern[:1], pattern[1:]
    if first == "":
        return name == ""
    if first == "*":
        return any(slow_match(rest, name[at:]) for at in range(len(name) + 1))
    if first == "?":
        return name != "" and slow_match(rest, name[1:])
    if first == "[" and "]" in rest:
        letters, _, rest = rest.partition("]")
        is_in = name != "" and has_letter(letters.removeprefix("!"), name[0]) != letters.startswith("!")
        return is_in and slow_match(rest, name[1:])
    if first == "{" and "}" in rest:
        words, _, rest = rest.partition("}")
        return any(name.startswith(word) and slow_match(rest, name[len(word) :]) for word in words.split(","))
    return name[:1] == first and slow_match(rest, name[1:])


def slow_dispatch(handlers: list[tuple[str, int]], path: str, is_literal: bool) -> list[int]:
    """All handlers one by one."""

    def is_for(theirs: str) -> bool:
        if is_literal:
            return theirs == path
        names, patterns = theirs.split("/"), path.split("/")
        return len(names) == len(patterns) and all(map(slow_match, patterns, names))

    return [number for theirs, number in handlers if theirs == "" or is_for(theirs)]


# All short names, and some with characters that mean something in patterns.
NAMES = ["".join(name) for length in range(4) for name in product("ab-", repeat=length)] + [
    "[",
    "{a",
    "a]",
    "[b,",
    "!",
    "*",
]


def test_all_short_patterns_match_what_the_slow_matcher_matches() -> None:
    for pattern in ["".join(letters) for length in range(4) for letters in product("a-*?[]{},!", repeat=length)]:
        compiled = compile_pattern(pattern)
        assert [name for name in NAMES if compiled.matches(name)] == [
            name for name in NAMES if slow_match(pattern, name)
        ]


@settings(max_examples=400)
@given(patterns)
def test_a_pattern_matches_what_the_slow_matcher_matches(pattern: str) -> None:
    compiled = compile_pattern(pattern)
    for name in NAMES:
        assert compiled.matches(name) == slow_match(pattern, name)
    if compiled.words is not None:
        assert set(compiled.words) >= {name for name in NAMES if slow_match(pattern, name)}
        assert all(slow_match(pattern, word) for word in compiled.words)


@given(st.text("ab*?[]{},!-", max_size=255), st.text("ab", max_size=255))
def test_any_text_is_a_pattern_of_bounded_cost(pattern: str, name: str) -> None:
    compiled = compile_pattern(pattern)
    assert compiled.matches(name) in (True, False)
    assert compiled.cost <= PART_COST * max(1, len(pattern))


class Dispatch(RuleBasedStateMachine):
    """Handlers come and go, and messages come between."""

    def __init__(self) -> None:
        super().__init__()
        self.tree = AddressTree[int]()
        self.handlers: list[tuple[str, int]] = []
        self.number = 0

    @rule(path=paths, mark=marks)
    def add(self, path: str, mark: str) -> None:
        self.number += 1
        self.tree.add(mark + path[1:], self.number)
        self.handlers.append((path[1:], self.number))

    @rule(path=paths, number=st.integers(0, 5))
    def remove_a_stranger(self, path: str, number: int) -> None:
        is_there = (path[1:], number) in self.handlers
        assert self.tree.remove(path, number) == is_there
        if is_there:
            self.handlers.remove((path[1:], number))

    @rule(choice=st.integers(0, 1_000))
    def remove(self, choice: int) -> None:
        if self.handlers:
            path, number = self.handlers.pop(choice % len(self.handlers))
            assert self.tree.remove("/" + path, number)

    @rule(address=st.lists(patterns | names, max_size=3), mark=marks)
    def send(self, address: list[str], mark: str) -> None:
        split = split_address(f"{mark}svc/{'/'.join(address)}")
        assert split is not None
        service, path, is_literal = split
        assert (service, is_literal) == ("svc", mark == "!")
        expected = slow_dispatch(self.handlers, path, is_literal)
        assert sorted(self.tree.find(path, is_literal)) == sorted(expected)

    @rule(choice=st.integers(0, 1_000), mark=marks)
    def send_to_a_handler(self, choice: int, mark: str) -> None:
        if self.handlers:
            path, number = self.handlers[choice % len(self.handlers)]
            found = self.tree.find(path, mark == "!")
            assert number in found
            assert list(found) == sorted(found, key=lambda one: ((("", one) in self.handlers), one))

    @invariant()
    def the_tree_is_in_order(self) -> None:
        self.tree.check_invariants()
        assert len(self.tree) == len(self.handlers)
        assert self.tree.refused == 0


Dispatch.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestDispatch = Dispatch.TestCase


@given(st.lists(paths, max_size=20), st.lists(patterns, min_size=1, max_size=3), st.integers(0, 100))
def test_a_search_finds_all_or_is_refused(handlers: list[str], address: list[str], max_steps: int) -> None:
    tree, path = AddressTree[int](max_steps=max_steps), "/".join(address)
    for number, theirs in enumerate(handlers):
        tree.add(theirs, number)
    by_path = [(theirs[1:], number) for number, theirs in enumerate(handlers)]
    expected = slow_dispatch(by_path, path, is_literal=False)
    if (found := sorted(tree.find(path))) != sorted(expected):
        assert tree.refused == 1
        assert found == [number for theirs, number in by_path if theirs == ""]
