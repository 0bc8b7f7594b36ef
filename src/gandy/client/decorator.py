"""`@gandy.task(retries=3)`: options for whenever a crew runs the function, and methods that let a crew run it."""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Never, ParamSpec, Protocol, TypeVar, Unpack, overload

from gandy.client.checks import Duration, FolderPath, Size, check_function, refuse_unknown
from gandy.client.options import FunctionOptions
from gandy.client.signatures import MapOptions
from gandy.functions.decorated import ExceptionKinds, TaskVerb

if TYPE_CHECKING:
    from gandy.client.futures import FunctionFuture

P = ParamSpec("P")
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)  # what it returns here: of a coroutine function, a coroutine
V = TypeVar("V")  # what a crew returns

ATTRIBUTE: Final = "__gandy_task__"
VERBS: Final = {"run": "run", "delay": "run", "map": "map"}  # attributes of a function, and the client's methods


class _Unset:
    def __repr__(self) -> str:
        return "<not given>"


UNSET: Final[Any] = _Unset()  # None has a meaning: no timeout, even if `functions()` was given one


class TaskFunction(Protocol[P, R_co, V]):
    """A decorated function, for type checkers. Called, it runs here; its methods let a crew run it.

    They use the client whose `with` block is open, or else one for the foreman that `Client()` finds.
    """

    __name__: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    def run(self, *args: P.args, **kwargs: P.kwargs) -> "FunctionFuture[V]":
        """Run the function on a worker."""

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> "FunctionFuture[V]":
        """The same as `run`, by the name that it has in Celery."""

    def map(self, *iterables: Iterable[Any], **options: Unpack[MapOptions]) -> Iterator[V]:
        """Iterate over the return values for all items. Type checkers find wrong items in `client.map` only."""


class TaskDecorator(Protocol):
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> TaskFunction[P, Coroutine[Any, Any, T], T]: ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> TaskFunction[P, T, T]: ...


@overload
def task(function: Callable[P, Coroutine[Any, Any, T]], /) -> TaskFunction[P, Coroutine[Any, Any, T], T]: ...
@overload
def task(function: Callable[P, T], /) -> TaskFunction[P, T, T]: ...
@overload
def task(
    *,
    name: str = ...,
    retries: int = ...,
    retry_on: ExceptionKinds | None = ...,
    timeout: Duration | None = ...,
    memory: Size | None = ...,
    priority: int = ...,
    slots: int = ...,
    tags: Iterable[str] = ...,
    limit: int | None = ...,
    fresh: bool = ...,
    cwd: FolderPath | None = ...,
    env: Mapping[str, str] | None = ...,
) -> TaskDecorator: ...
def task(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = UNSET,
    retries: int = UNSET,
    retry_on: ExceptionKinds | None = UNSET,
    timeout: Duration | None = UNSET,
    memory: Size | None = UNSET,
    priority: int = UNSET,
    slots: int = UNSET,
    tags: Iterable[str] = UNSET,
    limit: int | None = UNSET,
    fresh: bool = UNSET,
    cwd: FolderPath | None = UNSET,
    env: Mapping[str, str] | None = UNSET,
    **unknown: Never,
) -> Any:
    """Decorate a function. It stays a function; `run`, `delay` and `map` let a crew run it.

    When a crew runs it, these options override those of `functions()`. `timeout` (seconds, or "10min") and `memory`
    (bytes, or "2G") are for each attempt; `limit` is how many may run at the same time; with `retry_on`, only these
    exceptions lead to another attempt. Raises: ConfigError.
    """
    refuse_unknown("@gandy.task", unknown, FunctionOptions._fields)
    options = FunctionOptions(name, retries, timeout, memory, priority, slots, tags, limit, fresh, cwd, env, retry_on)
    given = {key: value for key, value in options._asdict().items() if value is not UNSET}

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        check_function(function)
        setattr(function, ATTRIBUTE, given)
        for attribute, verb in VERBS.items():
            setattr(function, attribute, TaskVerb(function, verb))
        return function

    return mark if function is None else mark(function)


def get_options(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the options of a decorated function; none if it is not decorated."""
    return getattr(function, ATTRIBUTE, {})
