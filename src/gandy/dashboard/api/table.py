"""The table of the API: every address, the handler that answers it, and the types of what comes in and goes out."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from gandy.core.requests import ForemanStatus
from gandy.dashboard.api import bus, crew, history, jobs, tasks
from gandy.dashboard.endpoints import Endpoint
from gandy.dashboard.messages import EVENTS, TEXT
from gandy.dashboard.rows import CrewObject
from gandy.viewer.summary import JobSummary

JOB: Final = "/api/jobs/{job}"
TASK: Final = JOB + "/tasks/{task}"

ENDPOINTS: Final[Sequence[Endpoint]] = (
    Endpoint("GET", "/api/session", crew.show_session, "Who asks, and what it may do", crew.SessionAnswer, asks=False),
    Endpoint("GET", "/api/crew", crew.show_crew, "The whole crew", CrewObject, asks=False),
    Endpoint("GET", "/api/crew/events", crew.stream_crew, "The crew, and what changes", EVENTS, asks=False),
    Endpoint("GET", "/api/jobs", jobs.list_jobs, "Jobs, the newest first", jobs.JobsAnswer, query=jobs.JobsQuery),
    Endpoint(
        "POST",
        "/api/jobs",
        jobs.submit_job,
        "Submit a job",
        jobs.JobSubmitted,
        body=jobs.NewJobBody,
        status=HTTPStatus.CREATED,
    ),
    Endpoint("GET", JOB, jobs.show_job, "One job", jobs.OneJobAnswer),
    Endpoint(
        "GET",
        JOB + "/explain",
        jobs.explain_job,
        "Why tasks wait, or how they ended",
        jobs.Explanation,
        query=jobs.TaskQuery,
    ),
    Endpoint("GET", JOB + "/summary", jobs.summarise_job, "Durations, memory and failures of a job", JobSummary),
    Endpoint(
        "POST",
        JOB + "/cancel",
        jobs.cancel_job,
        "Cancel a job, or some of its tasks",
        jobs.JobAnswer,
        body=jobs.SomeTasksBody,
    ),
    Endpoint(
        "POST",
        JOB + "/retry",
        jobs.retry_job,
        "Run tasks again that failed or were cancelled",
        jobs.JobAnswer,
        body=jobs.SomeTasksBody,
    ),
    Endpoint(
        "POST", JOB + "/hold", jobs.hold_job, "Start no more tasks of a job", jobs.JobAnswer, body=jobs.WholeJobBody
    ),
    Endpoint(
        "POST", JOB + "/release", jobs.release_job, "Start tasks of a job again", jobs.JobAnswer, body=jobs.WholeJobBody
    ),
    Endpoint("GET", JOB + "/states", tasks.read_states, "The states of all tasks, a byte each", tasks.BYTES),
    Endpoint("GET", JOB + "/states/events", tasks.stream_states, "The states of all tasks, and what changes", EVENTS),
    Endpoint("GET", JOB + "/tasks", tasks.list_tasks, "Tasks by number", tasks.TasksAnswer, query=tasks.TasksQuery),
    Endpoint("GET", TASK, tasks.show_task, "One task with its attempts", tasks.OneTaskAnswer),
    Endpoint("GET", TASK + "/output", tasks.read_output, "What a task wrote", TEXT, query=tasks.OutputQuery),
    Endpoint(
        "GET", TASK + "/output/events", tasks.follow_output, "What a task writes", EVENTS, query=tasks.StreamQuery
    ),
    Endpoint("GET", "/api/workers", crew.list_workers, "All workers", crew.WorkersAnswer),
    Endpoint(
        "POST",
        "/api/workers/{id}/stop",
        crew.stop_worker,
        "Stop a worker",
        crew.WorkerStopped,
        body=crew.StopWorkerBody,
    ),
    Endpoint("GET", "/api/foremen", crew.list_foremen, "The foremen of the crew", crew.ForemenAnswer),
    Endpoint("GET", "/api/status", crew.show_status, "The foreman that answers", ForemanStatus),
    Endpoint("GET", "/api/bus", bus.show_bus, "The ensemble of the bus", bus.BusAnswer, asks=False),
    Endpoint("GET", "/api/history", history.list_points, "The past as points", Any, query=history.HistoryQuery),
    Endpoint(
        "GET",
        "/api/history/at",
        history.show_moment,
        "The crew at a moment of the past",
        Any,
        query=history.MomentQuery,
    ),
)
