"""Clients for programs: `Client` blocks, `AsyncClient` awaits, and both have the same methods."""

from gandy.client.aio import AsyncClient
from gandy.client.aio_job import AsyncJob
from gandy.client.blocking import Client, Job
from gandy.client.decorator import task
from gandy.core.model import JobState, TaskState

__all__ = ["AsyncClient", "AsyncJob", "Client", "Job", "JobState", "TaskState", "task"]
