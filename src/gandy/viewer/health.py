"""Is all well with the crew now? Pure. A job that has ended with failures is its user's concern, and does not count."""

from gandy.core.model import FINAL_JOB_STATES
from gandy.ids import JobId
from gandy.viewer.picture import Picture
from gandy.viewer.trouble import Severity, Trouble, list_trouble


def list_present_trouble(picture: Picture, problem: str, is_complete: bool = True) -> list[Trouble]:
    """What is wrong now, worst first. `problem`: why the picture is not current."""
    found = [trouble for trouble in list_trouble(picture) if not _is_over(picture, trouble)]
    if problem or not is_complete:
        problem = problem or "no foreman has answered yet"
        found.insert(0, Trouble("foreman", Severity.BAD, f"The crew cannot be watched: {problem}"))
    return found


def _is_over(picture: Picture, trouble: Trouble) -> bool:
    glance = picture.jobs.get(JobId(int(trouble.about))) if trouble.kind == "job" and trouble.about else None
    return glance is not None and glance.state in FINAL_JOB_STATES
