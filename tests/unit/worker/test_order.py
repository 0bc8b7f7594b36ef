"""What a worker runs for a JOB, and in which environment."""

from gandy.core.model import AttemptKey
from gandy.ids import JobId, TaskNumber
from gandy.wire.messages import JobDescription, Orders, Status, Task
from gandy.worker.order import Order, inherited_environment, make_environment, make_job_environment, make_order

JOB = JobDescription(JobId(7), "name", 9, "/work", "/logs", "run", Status.RUNNING)


def test_a_plain_job_runs_its_command_with_the_number_of_the_task_and_has_a_log() -> None:
    order = make_order(Task(TaskNumber(3), JOB), None)
    assert order.attempt == AttemptKey(JobId(7), TaskNumber(3), 1)
    assert order.command == (JOB.command, "3")
    assert order.log_folder == JOB.logging_dir


def test_a_job_of_gandy_says_itself_what_to_run() -> None:
    orders = Orders(2, command="echo {line}", line="x", env={"A": "b"}, timeout=3.0, memory=5, identity=11)
    order = make_order(Task(TaskNumber(3), JOB, orders), None)
    assert order.attempt.attempt == 2
    assert (order.command, order.line, order.env) == ("echo {line}", "x", {"A": "b"})
    assert (order.timeout, order.memory, order.identity) == (3.0, 5, 11)
    assert order.log_folder == ""


def test_tasks_do_not_inherit_an_invitation() -> None:
    assert inherited_environment({"GANDY_TOKEN": "secret", "HOME": "/h"}) == {"HOME": "/h"}


def test_the_environment_of_a_task_is_its_own() -> None:
    order = Order(attempt=AttemptKey(JobId(7), TaskNumber(3), 2), command="x", tasks=9, job_name="name", env={"A": "b"})
    env = make_environment({"A": "a", "GANDY_LINE": "of an outer task"}, order)
    assert env == {
        "A": "b",
        "GANDY_JOB": "7",
        "GANDY_TASK": "3",
        "GANDY_ATTEMPT": "2",
        "GANDY_TASKS": "9",
        "GANDY_JOB_NAME": "name",
    }
    assert "GANDY_TASK" not in make_job_environment({}, order)
