"""A round-robin door, and the peers at it, for all tests of its parts."""

import pytest
from tests.roundrobin import Client, DoorHarness, NativeClient, NativeWorker


@pytest.fixture
def harness() -> DoorHarness:
    return DoorHarness()


@pytest.fixture
def client(harness: DoorHarness) -> Client:
    return harness.client()


@pytest.fixture
def native(harness: DoorHarness) -> NativeClient:
    return harness.native_client()


@pytest.fixture
def worker(harness: DoorHarness) -> NativeWorker:
    return harness.native_worker(slots=3)
