"""Types for numbers that must not be mixed up."""

from typing import NewType

JobId = NewType("JobId", int)
TaskNumber = NewType("TaskNumber", int)
