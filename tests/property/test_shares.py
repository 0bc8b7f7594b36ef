"""A worker shares its slots among shards by rank: the laws, for one sharing and while tasks come and go."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gandy.core.shards import Want
from gandy.core.shares import SlotUse, share_slots
from gandy.ids import JobId

SLOTS = 6
SHARDS = (1, 2, 3)

wants = st.builds(Want, st.integers(0, 9), st.integers(-1, 1), st.integers(1, 9).map(JobId))
uses = st.dictionaries(st.integers(1, 5), st.builds(SlotUse, st.integers(0, 4), st.integers(0, 9), wants), min_size=1)


def by_rank(shares: dict[int, SlotUse]) -> list[int]:
    return sorted(shares, key=lambda shard: shares[shard].rank)


@given(st.integers(0, 20), uses)
def test_free_slots_are_granted_by_rank_and_each_once(slots: int, shares: dict[int, SlotUse]) -> None:
    capacities = share_slots(slots, shares)
    free = max(0, slots - sum(use.started for use in shares.values()))
    wanted = sum(use.demand for use in shares.values())
    left = max(0, free - wanted)
    more = {shard: capacities[shard] - shares[shard].started - left for shard in shares}
    assert all(0 <= more[shard] <= shares[shard].demand for shard in shares)
    assert sum(more.values()) == min(free, wanted)
    for shard in by_rank(shares):
        if more[shard] < shares[shard].demand:  # nothing is left for those of lower rank
            assert not any(more[other] for other in shares if shares[other].rank > shares[shard].rank)


@given(st.integers(0, 20), st.builds(SlotUse, st.integers(0, 20), st.integers(0, 9), wants))
def test_a_single_shard_may_use_all_slots(slots: int, use: SlotUse) -> None:
    assert share_slots(slots, {1: use}) == {1: max(slots, use.started)}


@given(uses)
def test_shards_may_start_tasks_in_the_order_of_their_rank(shares: dict[int, SlotUse]) -> None:
    wanting = [shard for shard in share_slots(SLOTS, shares) if shares[shard].demand]
    ranks = [shares[shard].rank for shard in wanting]
    assert ranks == sorted(ranks)


class KeeperMachine(RuleBasedStateMachine):
    """A worker that starts tasks as `share_slots` allows, and never stops one."""

    def __init__(self) -> None:
        super().__init__()
        self.running: dict[int, list[int]] = {shard: [] for shard in SHARDS}  # slots of each task
        self.waiting: dict[int, list[int]] = {shard: [] for shard in SHARDS}
        self.wants = dict.fromkeys(SHARDS, Want())

    def use(self, shard: int) -> SlotUse:
        return SlotUse(sum(self.running[shard]), sum(self.waiting[shard]), self.wants[shard])

    def share(self) -> dict[int, int]:
        return share_slots(SLOTS, {shard: self.use(shard) for shard in SHARDS})

    def start(self) -> None:
        for shard, capacity in self.share().items():
            waiting, running = self.waiting[shard], self.running[shard]
            while waiting and sum(running) + waiting[0] <= capacity and self.busy + waiting[0] <= SLOTS:
                running.append(waiting.pop(0))

    @property
    def busy(self) -> int:
        return sum(map(sum, self.running.values()))

    @rule(shard=st.sampled_from(SHARDS), slots=st.integers(1, SLOTS))
    def give(self, shard: int, slots: int) -> None:
        self.waiting[shard].append(slots)
        self.start()

    @rule(shard=st.sampled_from(SHARDS), want=wants)
    def want(self, shard: int, want: Want) -> None:
        self.wants[shard] = want
        self.start()

    @precondition(lambda self: self.busy)
    @rule(choice=st.integers(0, 99))
    def end(self, choice: int) -> None:
        running = [(shard, task) for shard in SHARDS for task in range(len(self.running[shard]))]
        shard, task = running[choice % len(running)]
        del self.running[shard][task]
        self.start()

    @invariant()
    def no_slot_is_used_twice(self) -> None:
        assert self.busy <= SLOTS

    @invariant()
    def the_first_waits_for_nothing_but_slots(self) -> None:
        """The shard of highest rank among all that want slots gets those that are free."""
        demanding = [shard for shard in SHARDS if self.use(shard).demand]
        first = min(demanding, key=lambda shard: self.use(shard).rank, default=None)
        ranks = [self.use(shard).rank for shard in demanding]
        if first is not None and self.waiting[first] and ranks.count(min(ranks)) == 1:
            assert self.busy + self.waiting[first][0] > SLOTS

    def teardown(self) -> None:
        """Nothing starves: once nothing is wanted elsewhere, and tasks end, all that waits begins."""
        self.wants = dict.fromkeys(SHARDS, Want())
        for _ in range(1 + sum(map(len, self.waiting.values()))):
            self.start()
            for shard in SHARDS:
                self.running[shard].clear()
        assert not any(self.waiting.values())


TestKeeper = KeeperMachine.TestCase
