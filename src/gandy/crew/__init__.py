"""A crew of a program's own: a foreman and a worker below it, which end with it. `Crew` blocks, `AsyncCrew` awaits."""

from gandy.crew.aio import AsyncCrew
from gandy.crew.blocking import Crew

__all__ = ["AsyncCrew", "Crew"]
