"""`gandy status --check`: looks at the whole crew once, and says what is wrong with it."""

import asyncio
from typing import TYPE_CHECKING, Final

from msgspec.structs import asdict

from gandy.client.aio import AsyncClient
from gandy.terminal.exits import ExitCode
from gandy.terminal.say import print_json, say
from gandy.viewer.health import list_present_trouble
from gandy.viewer.trouble import Trouble
from gandy.viewer.watcher import CrewWatcher

if TYPE_CHECKING:
    from gandy.terminal.options import Format

PATIENCE: Final = 10.0  # seconds for every shard to answer


def check(foreman: tuple[str, ...], output: "Format") -> ExitCode:
    """Raises: LinkError, if no foreman can be reached."""
    found = asyncio.run(_look(foreman))
    for trouble in found:
        if output == "json":
            print_json(asdict(trouble))
        elif output == "table":
            say(f"{trouble.severity}: {trouble.text}")
    if not found and output == "table":
        say("all is well")
    return ExitCode.TROUBLE if found else ExitCode.DONE


async def _look(foreman: tuple[str, ...]) -> list[Trouble]:
    async with AsyncClient(foreman) as client:
        changed = asyncio.Event()
        watcher = CrewWatcher(client, changed.set)
        watching = asyncio.create_task(watcher.run())
        try:
            async with asyncio.timeout(PATIENCE):
                while not watcher.is_complete:
                    await changed.wait()
                    changed.clear()
        except TimeoutError:
            pass  # a shard that has no foreman is a trouble
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        return list_present_trouble(watcher.picture, watcher.problem, watcher.is_complete)
