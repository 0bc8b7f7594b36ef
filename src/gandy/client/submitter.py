"""Sends jobs to the foreman: large ones in parts, and each again after a break, which makes no second job of it."""

from collections.abc import Sequence

from msgspec.structs import replace

from gandy.client.connection import Connection, check
from gandy.client.link import ClientLink
from gandy.client.options import JobOptions
from gandy.client.repeats import draw_key
from gandy.client.spec import make_submit, split_lines
from gandy.core.requests import AddLines, Done, Submit, Submitted
from gandy.ids import JobId


class Submitter:
    """One per connection: it numbers what is sent in parts."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._upload_count = 0

    async def submit(self, command: str | Sequence[str], options: JobOptions) -> JobId:
        """Raises: ConfigError, Rejected, NoClock, StoreError, LinkError."""
        submit = replace(make_submit(command, options), key=draw_key())
        await self._connection.check_offers(submit.spec)
        parts = list(split_lines(submit.lines))
        if len(parts) > 1:
            return await self._submit_in_parts(replace(submit, lines=()), parts)
        return (await self._connection.ask(submit, Submitted)).job

    async def _submit_in_parts(self, submit: Submit, parts: Sequence[tuple[str, ...]]) -> JobId:
        """Send all parts over one link: the foreman forgets them when it breaks, and then they are sent again."""

        async def send(link: ClientLink, again: bool) -> Submitted:
            self._upload_count += 1
            upload = self._upload_count
            for part in parts:
                check(await link.ask(AddLines(upload, part)), Done)
            return check(await link.ask(replace(submit, upload=upload, again=again)), Submitted)

        return (await self._connection.over_links(send)).job
