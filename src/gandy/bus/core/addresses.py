"""The handlers of one service by path, and which of them get a message. It knows neither values nor services.

A path may have several handlers, and other paths below it: a message goes to the handlers whose whole path matches.
Handlers without a path get every message of the service, after the others. Paths of handlers are literal, so an address
that is found as it stands needs no search for patterns.
"""

from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

from gandy.bus.core.patterns import Pattern, compile_pattern, has_pattern
from gandy.bus.limits import (
    MAX_HANDLER_PATH,
    MAX_HANDLERS,
    MAX_HANDLERS_AT_PATH,
    MAX_PATH_DEPTH,
    MAX_PATH_NAME,
    MAX_SEARCH_STEPS,
)
from gandy.errors import ConfigError

_RESERVED: Final = frozenset("*?[]{}\0")

H = TypeVar("H")


def split_address(address: str) -> tuple[str, str, bool] | None:
    """Service, path below it, and whether the path is literal (`!`); None if the text is not an address."""
    service, _, path = address[1:].partition("/")
    mark = address[:1]
    if not service or mark not in "/!":
        return None
    return service, path, mark == "!"


def check_path(path: str) -> str:
    """A handler's path as the tree stores it, without the leading mark. Raises: ConfigError."""
    names = path[1:].split("/")
    if path[:1] not in ("", "/", "!"):
        raise ConfigError(f"the path {path!r} must begin with / (or with !, which means the same here)")
    if _RESERVED.intersection(path):
        raise ConfigError(f"the path {path!r} has pattern characters: senders may use patterns, handlers may not")
    if len(path) > MAX_HANDLER_PATH or len(names) > MAX_PATH_DEPTH or len(max(names, key=len)) > MAX_PATH_NAME:
        raise ConfigError(f"the path {path[:40]!r}... is too long")
    if len(path) > 1 and "" in names:
        raise ConfigError(f"the path {path!r} has an empty name: write single slashes, and none at the end")
    return path[1:]


class _Branch(Generic[H]):
    """A node of the tree. `below`: its children by name."""

    __slots__ = ("below", "handlers")

    def __init__(self) -> None:
        self.handlers: tuple[H, ...] = ()
        self.below: dict[str, _Branch[H]] = {}

    def find(self, pattern: Pattern) -> Iterator["_Branch[H]"]:
        """The children whose names match: by looking up the words of the pattern, or by matching each name."""
        words, below = pattern.words, self.below
        if words is not None and len(words) <= len(below):
            return (below[word] for word in words if word in below)
        matches = pattern.matches
        return (branch for name, branch in below.items() if matches(name))

    def cost_of(self, pattern: Pattern) -> int:
        words = len(self.below) if pattern.words is None else min(len(self.below), len(pattern.words))
        return words * pattern.cost


class AddressTree(Generic[H]):
    """All handlers of a service. `refused`: how many searches were not made because they would have taken too long.

    `on_change` is called after a handler was added or removed: what `find` returned before is no longer valid.
    """

    def __init__(
        self,
        on_change: Callable[[], None] = lambda: None,
        max_handlers: int = MAX_HANDLERS,
        max_steps: int = MAX_SEARCH_STEPS,
    ) -> None:
        self.refused = 0
        self._on_change = on_change
        self._root: _Branch[H] = _Branch()  # its handlers get every message
        self._whole: dict[str, tuple[H, ...]] = {}  # the same handlers, by whole path
        self._count = 0
        self._max_handlers = max_handlers
        self._max_steps = max_steps

    def __len__(self) -> int:
        return self._count

    def add(self, path: str, handler: H) -> None:
        """Add a handler at a path such as `/a/b`, or for every message at `` or `/`. Raises: ConfigError."""
        path = check_path(path)
        if self._count >= self._max_handlers:
            raise ConfigError(f"a service has at most {self._max_handlers:,} handlers: remove some")
        handlers = self._whole.get(path, ())
        if len(handlers) >= MAX_HANDLERS_AT_PATH:
            raise ConfigError(f"a path has at most {MAX_HANDLERS_AT_PATH:,} handlers, and /{path} has them")
        self._put(path, (*handlers, handler))
        self._count += 1

    def remove(self, path: str, handler: H) -> bool:
        """True if the handler was there. Raises: ConfigError."""
        path = check_path(path)
        handlers = self._whole.get(path, ())
        if handler not in handlers:
            return False
        at = handlers.index(handler)
        self._put(path, handlers[:at] + handlers[at + 1 :])
        self._count -= 1
        return True

    def find(self, path: str, is_literal: bool = False) -> tuple[H, ...]:
        """The handlers that get a message to this path; those of one path in the order in which they were added."""
        found = self._whole.get(path)
        if found is None:
            found = () if is_literal or not has_pattern(path) else self._search(path)
        everything = self._root.handlers
        return found + everything if everything and path else found

    def check_invariants(self) -> None:
        """For tests: no empty branches, and the table of whole paths agrees with the tree."""
        branches = dict(self._list_branches("", self._root))
        assert all(branch.handlers or branch.below for branch in branches.values())
        branches[""] = self._root
        assert {path: branch.handlers for path, branch in branches.items() if branch.handlers} == self._whole
        assert self._count == sum(map(len, self._whole.values()))

    def _search(self, path: str) -> tuple[H, ...]:
        branches, steps = [self._root], 0
        for name in path.split("/"):
            if has_pattern(name):
                pattern = compile_pattern(name)
                steps += sum(branch.cost_of(pattern) for branch in branches)
                if steps > self._max_steps:
                    self.refused += 1
                    return ()
                branches = [found for branch in branches for found in branch.find(pattern)]
            else:
                steps += len(branches)
                branches = [branch.below[name] for branch in branches if name in branch.below]
            if not branches:
                break
        return tuple([handler for branch in branches for handler in branch.handlers])

    def _put(self, path: str, handlers: tuple[H, ...]) -> None:
        """Set the handlers of a path, in the table and in the tree, and remove branches that are empty now."""
        names, trail = path.split("/") if path else [], [self._root]
        for name in names:
            trail.append(trail[-1].below.setdefault(name, _Branch()))
        trail[-1].handlers = self._whole[path] = handlers
        if not handlers:
            del self._whole[path]
        while names and not trail[-1].handlers and not trail[-1].below:
            trail.pop()
            del trail[-1].below[names.pop()]
        self._on_change()

    def _list_branches(self, path: str, branch: _Branch[H]) -> Iterator[tuple[str, _Branch[H]]]:
        for name, below in branch.below.items():
            yield f"{path}{name}", below
            yield from self._list_branches(f"{path}{name}/", below)
