"""A member in a process of its own, that tells its clock.

    python -m tests.netns.player SERVICE OPTIONS

OPTIONS of the ensemble are JSON. Times are monotonic, unless they are shared. Lines on stdin, and on stdout:

    sample COUNT SECONDS  -> sample MONOTONIC SHARED BOUND, so many, so far apart
    play SECONDS SERVICE  -> played SHARED: a message for the service, in so many seconds of the shared clock

    ready NAME
    found SERVICE | clock LEADER
    fired MONOTONIC SHARED BOUND, the second one as the message said
"""

import json
import os
import sys
import time

from tests.netns.members import APP, take_sample

from gandy.bus import Ensemble, Message
from gandy.bus.core.effects import ClockFound, News, ServiceFound


def tell(*words: object) -> None:
    """One write: several threads tell."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def on_news(news: News) -> None:
    match news:
        case ServiceFound(service, _):
            tell("found", service)
        case ClockFound(leader):
            tell("clock", leader)
        case _:
            pass


def obey(member: Ensemble, words: list[str]) -> None:
    match words:
        case ["sample", count, seconds]:
            for _ in range(int(count)):
                tell("sample", *take_sample(member))
                time.sleep(float(seconds))
        case ["play", seconds, service]:
            at = member.now() + float(seconds)
            member.send(f"/{service}/play", at=at)
            tell("played", at)
        case _:
            raise ValueError(words)


def main(service: str, options: str) -> None:
    with Ensemble(APP, **json.loads(options)) as member:
        member.on_news(on_news)

        @member.service(service).on()
        def play(message: Message) -> None:
            now = time.monotonic()
            tell("fired", now, message.time, member.clock_error())

        tell("ready", member.process)
        for line in sys.stdin:
            obey(member, line.split())


if __name__ == "__main__":
    main(*sys.argv[1:])
