"""The laws of `store_machine.py`, for whatever people, workers and the disk do in any order."""

from hypothesis import settings
from tests.property.store_machine import StoreMachine

TestWithdrawal = StoreMachine.TestCase
TestWithdrawal.settings = settings(max_examples=150, stateful_step_count=60)
