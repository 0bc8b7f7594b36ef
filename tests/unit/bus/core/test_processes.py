from itertools import permutations

from gandy.bus.core.processes import Process, ProcessState, Providers, Status


def test_states_and_statuses_are_counted_as_in_the_original() -> None:
    assert [state.name for state in ProcessState] == ["DISCOVERED", "CONNECTING", "CONNECTED", "NO_CLOCK", "OK"]
    assert [*ProcessState] == [1, 2, 3, 4, 5]
    assert [*Status] == [-1, 0, 1, 2, 3, 4, 5, 6, 7]


def test_a_process_is_here_when_it_has_said_who_it_is() -> None:
    process = Process("10.0.0.1:5", "10.0.0.1")
    seen = []
    for state in ProcessState:
        process.move(state)
        seen.append(process.is_here)
    assert seen == [False, False, False, True, True]


def test_the_greatest_name_has_a_service_whatever_the_order_of_offers() -> None:
    names = ("10.0.0.1:9", "10.0.0.1:10", "9.0.0.1:9")  # names are text: "10" comes before "9"
    for order in permutations(names):
        services = Providers()
        for name in order:
            services.add("drum", name)
        assert services.find("drum") == "9.0.0.1:9"
        assert list(services) == [("drum", "9.0.0.1:9")]


def test_the_next_one_takes_over() -> None:
    services = Providers()
    assert services.add("drum", "b")
    assert not services.add("drum", "a")
    assert not services.add("drum", "b")
    assert services.add("drum", "c")
    assert not services.remove("drum", "a")
    assert services.remove("drum", "c")
    assert services.find("drum") == "b"
    assert services.remove("drum", "b")
    assert services.find("drum") is None
    assert list(services) == []


def test_a_process_without_an_offer_removes_nothing() -> None:
    services = Providers()
    services.add("drum", "b")
    assert not services.remove("drum", "a")
    assert not services.remove("horn", "b")
    assert services.find("drum") == "b"
