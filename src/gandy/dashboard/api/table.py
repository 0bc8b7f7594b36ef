"""The table of the API: every address, the handler that answers it, and the types of what comes in and goes out."""

from functools import partial
from http import HTTPStatus
from typing import Any, Final

from gandy.dashboard.api import bus, crew, history, jobs, tasks
from gandy.dashboard.bus_view import BusAnswer
from gandy.dashboard.crew import ShownCrew
from gandy.dashboard.endpoints import ApiCall, Endpoint
from gandy.dashboard.messages import EVENTS, TEXT, HttpResponse
from gandy.dashboard.metrics import CONTENT_TYPE
from gandy.dashboard.openapi import encode_document
from gandy.dashboard.rows import CrewObject
from gandy.viewer.summary import JobSummary

HEALTH: Final = "/healthz"
METRICS: Final = "/metrics"
JOB: Final = "/api/jobs/{job}"
TASK: Final = JOB + "/tasks/{task}"

get: Final = partial(Endpoint, "GET")
post: Final = partial(Endpoint, "POST")


async def show_document(_crew: ShownCrew, _call: ApiCall) -> HttpResponse:
    return HttpResponse(HTTPStatus.OK, encode_document(ENDPOINTS))


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    get("/api/session", crew.show_session, "Who asks, and what it may do", crew.SessionAnswer, asks=False),
    get("/api/crew", crew.show_crew, "The whole crew", CrewObject, asks=False),
    get("/api/crew/events", crew.stream_crew, "The whole crew, and what changes", EVENTS, asks=False),
    get("/api/status", crew.show_status, "The foreman that answers", crew.StatusAnswer),
    get("/api/foremen", crew.list_foremen, "The foremen of the crew", crew.ForemenAnswer),
    get("/api/workers", crew.list_workers, "All workers", crew.WorkersAnswer),
    post(
        "/api/workers/{id}/stop",
        crew.stop_worker,
        "Stop a worker, by id or name",
        crew.WorkerStopped,
        body=crew.StopWorkerBody,
    ),
    # Jobs
    get("/api/jobs", jobs.list_jobs, "Jobs, the newest first", jobs.JobsAnswer, query=jobs.JobsQuery),
    post(
        "/api/jobs", jobs.submit_job, "Submit a job", jobs.JobSubmitted, body=jobs.NewJobBody, status=HTTPStatus.CREATED
    ),
    get(JOB, jobs.show_job, "One job", jobs.OneJobAnswer),
    get(
        f"{JOB}/explain", jobs.explain_job, "Why tasks wait, or how they ended", jobs.Explanation, query=jobs.TaskQuery
    ),
    get(f"{JOB}/summary", jobs.summarise_job, "Durations, memory and failures of a job", JobSummary),
    post(
        f"{JOB}/cancel", jobs.cancel_job, "Cancel a job, or some of its tasks", jobs.JobAnswer, body=jobs.SomeTasksBody
    ),
    post(f"{JOB}/retry", jobs.retry_job, "Retry a job, or some of its tasks", jobs.JobAnswer, body=jobs.SomeTasksBody),
    post(f"{JOB}/hold", jobs.hold_job, "Start no more tasks of a job", jobs.JobAnswer, body=jobs.WholeJobBody),
    post(f"{JOB}/release", jobs.release_job, "Start tasks of a job again", jobs.JobAnswer, body=jobs.WholeJobBody),
    # Tasks
    get(f"{JOB}/states", tasks.read_states, "The states of all tasks, a byte each", tasks.BYTES),
    get(f"{JOB}/states/events", tasks.stream_states, "The states of all tasks, and what changes", EVENTS),
    get(f"{JOB}/tasks", tasks.list_tasks, "Tasks by number", tasks.TasksAnswer, query=tasks.TasksQuery),
    get(TASK, tasks.show_task, "One task with its attempts", tasks.OneTaskAnswer),
    get(f"{TASK}/output", tasks.read_output, "What a task wrote", TEXT, query=tasks.OutputQuery),
    get(f"{TASK}/output/events", tasks.follow_output, "What a task writes", EVENTS, query=tasks.StreamQuery),
    # The bus, and the past
    get("/api/bus", bus.show_bus, "The ensemble of the bus", BusAnswer, asks=False),
    get("/api/history", history.list_points, "The past as points", history.HistoryAnswer, query=history.HistoryQuery),
    get("/api/history/at", history.show_moment, "The crew at a moment", CrewObject, query=history.MomentQuery),
    # For programs
    get("/api/openapi.json", show_document, "This document", dict[str, Any], asks=False),
    get(HEALTH, crew.show_health, "ok, or 503 and how many troubles there are", TEXT, asks=False, is_open=True),
    get(METRICS, crew.show_metrics, "The crew as numbers, for Prometheus", CONTENT_TYPE, asks=False),
)
