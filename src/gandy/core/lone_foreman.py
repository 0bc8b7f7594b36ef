"""What a foreman with a store of its own answers about the foremen of its crew: it is the only one."""

from typing import Final

from gandy.core import requests as ask
from gandy.core.refusal import Refusal
from gandy.core.standing import Standing

NO_HEIR: Final = (
    "this foreman keeps its jobs in a store of its own, which no other foreman can take over: there is nothing to hand "
    "over. 'gandy foreman stop' stops it, and its jobs go on when it is started again"
)

AboutForemen = ask.ListForemen | ask.DrainForeman | ask.LookAtShards


def answer_alone(request: AboutForemen, standing: Standing, jobs: int) -> ask.Answer:
    """`jobs`: how many are not final. Raises: Refusal."""
    if not isinstance(request, ask.ListForemen):
        raise Refusal("refused", NO_HEIR)
    row = ask.ForemanRow(
        id=standing.id,
        name=standing.name,
        version=standing.version,
        places=tuple(standing.listening),
        shards=(),
        jobs=jobs,
        lease_seconds=0.0,
        silent_seconds=0.0,
        is_here=True,
    )
    return ask.ForemanList((row,))
