"""gandy makes a crew out of machines: a foreman hands work to workers, and everyone keeps the same time."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gandy.bus import AsyncEnsemble, Ensemble
    from gandy.client import AsyncClient, AsyncJob, Client, Job, JobState, TaskState, task
    from gandy.client.executor import Executor
    from gandy.client.gathering import as_completed, gather, wait
    from gandy.crew import AsyncCrew, Crew
    from gandy.worker.program import Worker

__version__ = "0.1.0"
__all__ = [
    "AsyncClient",
    "AsyncCrew",
    "AsyncEnsemble",
    "AsyncJob",
    "Client",
    "Crew",
    "Ensemble",
    "Executor",
    "Job",
    "JobState",
    "TaskState",
    "Worker",
    "as_completed",
    "gather",
    "task",
    "wait",
]


def __getattr__(name: str) -> Any:
    """Imports each name when it is first used: `gandy --help` and the pure bands need none."""
    if name in ("AsyncEnsemble", "Ensemble"):
        return getattr(import_module("gandy.bus"), name)
    if name in ("AsyncCrew", "Crew"):
        return getattr(import_module("gandy.crew"), name)
    if name == "Executor":
        return import_module("gandy.client.executor").Executor
    if name in ("as_completed", "gather", "wait"):
        return getattr(import_module("gandy.client.gathering"), name)
    if name == "Worker":
        return import_module("gandy.worker.program").Worker
    if name in __all__:
        return getattr(import_module("gandy.client"), name)
    raise AttributeError(f"module 'gandy' has no attribute {name!r}")
