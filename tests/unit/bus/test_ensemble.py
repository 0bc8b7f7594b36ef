"""The constructors of both kinds of ensembles."""

import inspect

import pytest

import gandy
from gandy.bus.ensemble import Bus

KINDS = pytest.mark.parametrize("kind", [gandy.Ensemble, gandy.AsyncEnsemble])


@KINDS
def test_a_constructor_names_and_types_all_its_parameters(kind: type[Bus]) -> None:
    parameters = inspect.signature(kind).parameters
    assert list(parameters) == [
        *("name", "dialect", "clock", "peers", "ip", "insecure", "key", "unix_time"),
    ]
    assert all(parameter.annotation is not inspect.Parameter.empty for parameter in parameters.values())


@KINDS
def test_an_unknown_option_is_refused(kind: type[Bus]) -> None:
    with pytest.raises(TypeError, match="dialekt"):
        kind("band", dialekt="2016")  # type: ignore[call-arg]


def test_an_async_ensemble_needs_a_loop_before_it_opens_sockets() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        gandy.AsyncEnsemble("band")
