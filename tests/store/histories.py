"""The history of a store without `await`, and samples that follow one another."""

from tests.samples import a_sample
from tests.store.builders import Blocking

from gandy.core.samples import Extent, LastSample, Level, StoredSample


class BlockingHistory:
    """The history of a store, without `await`."""

    def __init__(self, face: Blocking) -> None:
        self.face = face

    def add(self, *samples: StoredSample) -> None:
        self.face.runner.run(self.face.store.history.add_samples(samples))

    def note_dropped(self, level: Level) -> None:
        self.face.runner.run(self.face.store.history.note_dropped(level))

    def find_last(self, shard: int = 0) -> LastSample | None:
        return self.face.runner.run(self.face.store.history.find_last(shard))

    def get_extent(self) -> Extent:
        return self.face.runner.run(self.face.store.history.get_extent())

    def steps(
        self, level: Level = Level.SAMPLE, begin: float = 0.0, end: float = 1e9, step: float = 1e9
    ) -> list[StoredSample]:
        return self.face.runner.run(self.face.store.history.list_samples(level, begin, end, step))

    def find(self, at: float) -> list[StoredSample]:
        return self.face.runner.run(self.face.store.history.find_samples(at))

    def read(self, level: Level, after: StoredSample | None = None, limit: int = 1_000) -> list[StoredSample]:
        return self.face.runner.run(self.face.store.history.read_samples(level, after, limit))


def chain(first: int = 1, count: int = 5, shard: int = 0, begin: float = 100.0, run: int = 1) -> list[StoredSample]:
    """An hourly sample, and some that build on it, ten seconds apart."""
    head = a_sample(first, begin, Level.HOURLY, shard, run)
    rest = [a_sample(first + place, begin + 10 * place, Level.SAMPLE, shard, run, first) for place in range(1, count)]
    return [head, *rest]
