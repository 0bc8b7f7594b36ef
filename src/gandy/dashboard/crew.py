"""What handlers of requests work with: the client, the picture of the crew, and the streams that browsers share."""

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from gandy.client.aio import AsyncClient
from gandy.core.roles import CrewRole
from gandy.dashboard.bus_view import BusView
from gandy.dashboard.crew_feed import CrewFeed
from gandy.dashboard.gate import Gate
from gandy.dashboard.messages import HttpRefusal
from gandy.dashboard.state_feeds import StateFeeds
from gandy.viewer.watcher import CrewWatcher

if TYPE_CHECKING:
    from gandy.bus import Ensemble

MAY_CHANGE: Final = frozenset({CrewRole.OWNER, CrewRole.CLIENT, CrewRole.ANYBODY})


class ShownCrew:
    """`run` keeps it current until it is cancelled, whether a foreman is there or not."""

    def __init__(self, client: AsyncClient, ensemble: "Ensemble | None" = None) -> None:
        self.client = client
        self.bus = BusView(ensemble)
        self.gate = Gate()
        self.states = StateFeeds(client)
        self.followed_outputs = 0
        self.streams = 0  # of events, that are open
        self.watcher = CrewWatcher(client, lambda: self.feed.on_change())
        self.feed = CrewFeed(self.watcher)

    async def run(self) -> None:
        work = [asyncio.create_task(each) for each in (self.watcher.run(), self.feed.run(), self.bus.run())]
        try:
            await asyncio.gather(*work)
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            await self.bus.close()

    @property
    def role(self) -> CrewRole:
        return self.client.connection.role

    @property
    def can_change(self) -> bool:
        return self.role in MAY_CHANGE

    def check_may_change(self) -> None:
        """Raises: HttpRefusal. The foreman would refuse too."""
        if not self.can_change:
            text = "the dashboard has an observer's key, which changes nothing; start it with a client's"
            raise HttpRefusal(HTTPStatus.FORBIDDEN, "not_allowed", text)
