"""A foreman whose home is temporary makes keys when they are needed."""

import asyncio
import stat
from pathlib import Path

from gandy import Crew
from gandy.core.roles import CrewRole
from gandy.keys.certificates import make_secret
from gandy.keys.foreman import CERTIFICATE, RING, SECRET, ForemanKeys


def test_no_keys_are_made_before_they_are_needed(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    keys = ForemanKeys(folder, is_temporary=True)
    assert (folder.exists(), keys.ring.list_keys(), keys.has_joined, keys.is_revoked) == (False, [], False, False)
    made = asyncio.run(keys.add(make_secret().public, "one", CrewRole.CLIENT, "a test"))
    assert [key.name for key in keys.ring.list_keys()] == ["one"]
    assert made.key.fingerprint != keys.fingerprint
    assert {path.name for path in folder.iterdir()} >= {CERTIFICATE, SECRET, RING}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / SECRET).stat().st_mode) == 0o600
    assert ForemanKeys(folder).fingerprint == keys.fingerprint


def test_a_crew_of_a_program_can_make_keys() -> None:
    with Crew(slots=1) as crew:
        assert crew.keys() == ()
        crew.make_key(make_secret().public, "one", "client")
        (row,) = crew.keys()
        assert row.name == "one"
