"""Patterns match what OSC 1.0 says, and no pattern is dear."""

from collections.abc import Iterator
from typing import Any

import pytest

from gandy.bus.core import patterns
from gandy.bus.core.patterns import PART_COST, compile_pattern, has_pattern
from gandy.bus.limits import MAX_CACHED_PATTERNS, MAX_PATTERN, MAX_PATTERN_WORDS


def matches(pattern: str, name: str) -> bool:
    return compile_pattern(pattern).matches(name)


@pytest.mark.parametrize(
    ("pattern", "names", "others"),
    [
        ("abc", ["abc"], ["", "ab", "abcd", "xabc", "ABC"]),
        ("*", ["", "a", "abc"], []),
        ("**", ["", "a", "abc"], []),
        ("?", ["a", "ä"], ["", "ab"]),
        ("??", ["ab"], ["a", "abc"]),
        ("a*", ["a", "ab", "abb"], ["", "ba"]),
        ("*a", ["a", "ba", "aa"], ["", "ab"]),
        ("a*a", ["aa", "aba", "aaa"], ["a", "ab", "ba"]),
        ("ab*ba", ["abba", "abxba"], ["aba", "ab", "ba"]),
        ("*a*", ["a", "ba", "ab", "bab"], ["", "b"]),
        ("a*b*c", ["abc", "axbxc", "abbcc"], ["ac", "acb", "ab"]),
        ("a?*", ["ab", "abc"], ["a", "ba"]),
        ("1?", ["10", "1x"], ["1", "100", "21"]),
        ("[abc]", ["a", "b", "c"], ["", "d", "ab", "[abc]"]),
        ("[a-c]x", ["ax", "bx", "cx"], ["dx", "-x", "x"]),
        ("[0-9a-f]", ["0", "9", "a", "f"], ["g", "-"]),
        ("[!a-c]", ["d", "-", "!", "\0"], ["a", "b", "c", ""]),
        ("*[!a]", ["b", "ab", "aab"], ["", "a", "ba"]),
        ("*[a-c][b-d]*", ["ad", "xbbx"], ["da", "a", ""]),
        ("{foo,bar}", ["foo", "bar"], ["", "f", "foobar", "foo,bar"]),
        ("x{a,ab}c", ["xac", "xabc"], ["xc", "xaabc"]),
        ("*{a,ab}c", ["ac", "abc", "xac"], ["ab", "acx"]),
        ("{a,aa}*{a,aa}b", ["aab", "aaab", "aaaab"], ["ab", "aa"]),
    ],
)
def test_patterns_match_as_osc_says(pattern: str, names: list[str], others: list[str]) -> None:
    assert [name for name in names + others if matches(pattern, name)] == names


@pytest.mark.parametrize(
    ("pattern", "names", "others"),
    [
        ("[]", [], ["", "a", "[]"]),
        ("[!]", ["a", "!", "]"], ["", "ab"]),
        ("[]a]", [], ["a", "]", "aa]"]),
        ("[a!]", ["a", "!"], ["b"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("[-a]", ["a", "-"], ["b"]),
        ("[!-a]", ["b"], ["a", "-"]),
        ("[c-a]", [], ["a", "b", "c", "-"]),
        ("[c-ab]", ["b"], ["a", "c", "-"]),
        ("[a-cb-d]", ["a", "b", "c", "d"], ["e", "-"]),
        ("[a-c-e]", ["a", "b", "c", "-", "e"], ["d"]),
        ("[*?{]", ["*", "?", "{"], ["a", ""]),
        ("{}", [""], ["a", "{}"]),
        ("{a,}", ["a", ""], ["a,", ","]),
        ("{a*,?}", ["a*", "?"], ["ab", "x"]),
        ("{[a],b}", ["[a]", "b"], ["a"]),
        ("{a,{b}", ["a", "{b"], ["b"]),
        ("{a,{b", ["{a,{b"], ["a", "b"]),
        ("[a", ["[a"], ["a"]),
        ("[a*", ["[a", "[ab"], ["a"]),
        ("a[", ["a["], ["a"]),
        ("a[*", ["a[", "a[b"], ["a", "aa"]),
        ("*{b", ["{b", "a{b"], ["b", "ab"]),
        ("a{b}*", ["ab", "abc"], ["a", "ac"]),
        ("a{}*{}b", ["ab", "axb"], ["a", "b"]),
        ("[[", ["[["], ["["]),
        ("a]}", ["a]}"], ["a"]),
        ("a,b", ["a,b"], ["a", "b"]),
        ("a\\*", ["a\\", "a\\b"], ["a*", "a"]),
        ("^.+$", ["^.+$"], ["a"]),
        ("", [""], ["a"]),
    ],
)
def test_where_osc_is_silent_we_decide(pattern: str, names: list[str], others: list[str]) -> None:
    assert [name for name in names + others if matches(pattern, name)] == names


def test_only_four_characters_make_a_pattern() -> None:
    assert all(has_pattern(f"a{character}b") for character in "*?[{")
    assert not has_pattern("abc/d-e!f,g]h}i#j k\\l.m+n^o$p|q(r)s")


def test_few_words_are_told() -> None:
    assert compile_pattern("abc").words == ("abc",)
    assert compile_pattern("{b,a,b}").words == ("b", "a")
    assert compile_pattern("ch[1-3]{l,r}").words == ("ch1l", "ch1r", "ch2l", "ch2r", "ch3l", "ch3r")
    assert compile_pattern("{a,aa}{a,aa}").words == ("aa", "aaa", "aaaa")
    assert compile_pattern("[]").words == ()


@pytest.mark.parametrize("pattern", ["*", "?", "[!a]", "a*", "[\0-\U0010ffff]", "[0-9]" * 3])
def test_many_words_are_not_told(pattern: str) -> None:
    assert 10**2 < MAX_PATTERN_WORDS < 10**3
    assert compile_pattern(pattern).words is None


def test_a_class_may_be_wide() -> None:
    everything = compile_pattern("[\0-\U0010ffff]")
    assert everything.matches("\0")
    assert everything.matches("\U0010ffff")
    assert matches("[!\0-\U0010fffe]", "\U0010ffff")
    assert not matches("[!\0-\U0010ffff]", "a")


def test_a_pattern_that_is_too_long_matches_nothing() -> None:
    assert matches("a" * MAX_PATTERN, "a" * MAX_PATTERN)
    assert not matches("*" * (MAX_PATTERN + 1), "a")
    assert compile_pattern("*" * (MAX_PATTERN + 1)).words == ()


def test_compiled_patterns_are_kept_and_not_too_many() -> None:
    assert compile_pattern("once*") is compile_pattern("once*")
    for number in range(2 * MAX_CACHED_PATTERNS):
        compile_pattern(f"{number}*")
    assert patterns._compile.cache_info().currsize == MAX_CACHED_PATTERNS


class CountedName(str):
    """Counts how often it is compared."""

    looks = 0

    def find(self, *args: Any) -> int:
        self.looks += 1
        return super().find(*args)

    def __iter__(self) -> Iterator[str]:
        for letter in super().__iter__():
            self.looks += 1
            yield letter


HOSTILE = [
    "*a*a*a*a*b",
    "*a" * 100 + "*b",
    "*?" * 100 + "b",
    "a*" * 127 + "b",
    "{a,aa}" * 40 + "b",
    "{,a}" * 60 + "b",
    "{a,aa,aaa,aaaa}*" * 15 + "b",
    "*" * 254 + "b",
    "[!b]*" * 50 + "b",
    "[" * 255,
    "{" * 255,
    "{a,{b" * 51,
    "*[a-z" * 51,
    "{" + "," * 253 + "}",
    "{" + ",".join("a" * count for count in range(1, 20)) + "}*b",
]


@pytest.mark.parametrize("pattern", HOSTILE)
@pytest.mark.parametrize("length", [10, 255])
def test_no_pattern_needs_more_than_its_parts_times_the_places(pattern: str, length: int) -> None:
    assert len(pattern) <= MAX_PATTERN
    compiled, name = compile_pattern(pattern), CountedName("a" * (length - 1) + "b")
    compiled.matches(name)
    assert name.looks <= compiled.cost // PART_COST * (length + 1)
    assert compiled.cost <= PART_COST * MAX_PATTERN
