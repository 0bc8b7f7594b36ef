"""What `Crew` and `AsyncCrew` have in common."""

from pathlib import Path

from gandy.crew.process import CrewProcess


class OwnCrew:
    """A crew that this program starts and ends."""

    _process: CrewProcess

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self._process.address}>"

    @property
    def folder(self) -> Path:
        """Where it keeps its files: GANDY_HOME for its commands."""
        return Path(self._process.options.folder)

    @property
    def environment(self) -> dict[str, str]:
        """Variables for other programs, by which `Client()` and `gandy` find this crew there."""
        return {"GANDY_HOME": self._process.options.folder, "GANDY_FOREMAN": str(self._process.address)}

    @property
    def is_running(self) -> bool:
        return self._process.is_running
