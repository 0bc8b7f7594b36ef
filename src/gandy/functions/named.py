"""A function that the client knows by name only: the process that runs it imports it."""

from importlib import import_module
from typing import Any

from gandy.errors import ConfigError


class Named:
    """Stands for MODULE:FUNCTION, where FUNCTION may have dots: `os:path.join`."""

    def __init__(self, name: str) -> None:
        """Raises: ConfigError."""
        module, colon, function = name.partition(":")
        if not (module and colon and function):
            raise ConfigError(f"{name!r} is not a function; write MODULE:FUNCTION, as in math:hypot")
        self.module = module
        self.function = function
        self.__qualname__ = name  # shown to users

    def __reduce__(self) -> tuple[type["Named"], tuple[str]]:
        return Named, (f"{self.module}:{self.function}",)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function: Any = import_module(self.module)
        for name in self.function.split("."):
            function = getattr(function, name)
        return function(*args, **kwargs)
