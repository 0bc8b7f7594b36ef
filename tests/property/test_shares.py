"""A worker shares its slots among shards by rank: the laws, for one sharing and while tasks come and go."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gandy.core.shards import Want
from gandy.core.shares import SlotUse, get_rank, share_slots
from gandy.ids import JobId

SLOTS = 6
SHARDS = (1, 2, 3)

wants = st.builds(Want, st.integers(0, 9), st.integers(-1, 1), st.integers(1, 9).map(JobId))
uses = st.dictionaries(st.integers(1, 5), st.builds(SlotUse, st.integers(0, 4), wants, wants), min_size=1)


def list_claims(use: SlotUse) -> list[Want]:
    return [claim for claim in (use.waiting, use.want) if claim.slots]


def count_claimed(use: SlotUse) -> int:
    return use.waiting.slots + use.want.slots


def assert_nothing_goes_past(claim: Want, shares: dict[int, SlotUse], more: dict[int, int]) -> None:
    """If a claim is not met, claims of lower rank get nothing: each shard has at most what its better claims are."""
    better = {
        shard: sum(each.slots for each in list_claims(use) if get_rank(each) <= get_rank(claim))
        for shard, use in shares.items()
    }
    if sum(more.values()) < sum(better.values()):
        assert all(more[shard] <= better[shard] for shard in shares)


@given(st.integers(0, 20), uses)
def test_free_slots_are_granted_by_rank_and_each_once(slots: int, shares: dict[int, SlotUse]) -> None:
    capacities = share_slots(slots, shares)
    free = max(0, slots - sum(use.started for use in shares.values()))
    wanted = sum(map(count_claimed, shares.values()))
    left = max(0, free - wanted)
    more = {shard: capacities[shard] - shares[shard].started - left for shard in shares}
    assert all(0 <= more[shard] <= count_claimed(shares[shard]) for shard in shares)
    assert sum(more.values()) == min(free, wanted)
    for use in shares.values():
        for claim in list_claims(use):
            assert_nothing_goes_past(claim, shares, more)


@given(st.integers(0, 20), st.builds(SlotUse, st.integers(0, 20), wants, wants))
def test_a_single_shard_may_use_all_slots(slots: int, use: SlotUse) -> None:
    assert share_slots(slots, {1: use}) == {1: max(slots, use.started)}


@given(uses)
def test_shards_may_start_tasks_in_the_order_of_their_rank(shares: dict[int, SlotUse]) -> None:
    wanting = [shard for shard in share_slots(SLOTS, shares) if list_claims(shares[shard])]
    ranks = [min(map(get_rank, list_claims(shares[shard]))) for shard in wanting]
    assert ranks == sorted(ranks)


class KeeperMachine(RuleBasedStateMachine):
    """A worker that starts tasks as `share_slots` allows, and never stops one."""

    def __init__(self) -> None:
        super().__init__()
        self.running: dict[int, list[int]] = {shard: [] for shard in SHARDS}  # slots of each task
        self.waiting: dict[int, list[int]] = {shard: [] for shard in SHARDS}
        self.ranks = dict.fromkeys(SHARDS, (0, 1))  # priority and job of tasks that wait
        self.wants = dict.fromkeys(SHARDS, Want())

    def use(self, shard: int) -> SlotUse:
        priority, job = self.ranks[shard]
        waiting = Want(sum(self.waiting[shard]), priority, JobId(job))
        return SlotUse(sum(self.running[shard]), waiting, self.wants[shard])

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

    @rule(
        shard=st.sampled_from(SHARDS),
        slots=st.integers(1, SLOTS),
        rank=st.tuples(st.integers(-1, 1), st.integers(1, 9)),
    )
    def give(self, shard: int, slots: int, rank: tuple[int, int]) -> None:
        if not self.waiting[shard]:
            self.ranks[shard] = rank
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
        claims = [(get_rank(claim), shard) for shard in SHARDS for claim in list_claims(self.use(shard))]
        best = min(claims, default=None)
        if best is None or [rank for rank, _ in claims].count(best[0]) > 1:
            return
        first = best[1]
        if self.waiting[first] and get_rank(self.use(first).waiting) == best[0]:
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
