"""The laws of `reactor_machine.py`, for whatever people, workers and the store do in any order."""

from hypothesis import settings
from tests.property.reactor_machine import ReactorMachine

TestReactor = ReactorMachine.TestCase
TestReactor.settings = settings(max_examples=150, stateful_step_count=80)
