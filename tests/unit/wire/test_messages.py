from tests.builders import a_pair, a_result, a_task

from gandy.wire.messages import STOP_IMMEDIATELY, Stop, pack_pair, unpack_pair


def test_processors_are_the_high_half() -> None:
    assert pack_pair(17, 5) == 0x0011_0005
    assert unpack_pair(0x0011_0005) == (17, 5)


def test_only_the_last_count_is_immediate() -> None:
    assert Stop(STOP_IMMEDIATELY).is_immediate
    assert not Stop(STOP_IMMEDIATELY - 1).is_immediate
    assert not Stop(0).is_immediate


def test_a_task_and_its_result_have_the_same_pair() -> None:
    assert a_task(7, job=3).pair == a_result(7, job=3).pair == a_pair(3, 7)
