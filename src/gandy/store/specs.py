"""Reads specs of jobs that any gandy has stored. It knows no database."""

from typing import Any, Final

import msgspec

from gandy.bounds import escape_controls
from gandy.core.model import JobSpec
from gandy.limits import MAX_JOB_NAME

UNREADABLE: Final = "?"  # stands for the command of a job that cannot be read

_decode_spec = msgspec.json.Decoder(JobSpec).decode


def read_spec(text: str | bytes) -> JobSpec:
    """Raises: one of `bounds.BROKEN`."""
    try:
        return _decode_spec(text)
    except msgspec.ValidationError:
        return _decode_spec(_mend_spec(text))


def unreadable_spec(tasks: int) -> JobSpec:
    """In place of a spec that cannot be read."""
    return JobSpec(command=UNREADABLE, tasks=tasks)


def _mend_spec(text: str | bytes) -> bytes:
    """An earlier gandy accepted names with any character, and wrote null for numbers that JSON does not have."""
    fields = {
        name: value for name, value in msgspec.json.decode(text, type=dict[str, Any]).items() if value is not None
    }
    if isinstance(name := fields.get("name"), str):
        fields["name"] = escape_controls(name)[:MAX_JOB_NAME]
    return msgspec.json.encode(fields)
