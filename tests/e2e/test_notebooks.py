"""What clients, jobs and futures show in a real kernel, as a notebook has it, and in IPython in a terminal."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager
from tests.e2e.crew import PATIENCE
from tests.processes import is_alive
from tests.waiting import until

from gandy import Crew


class Notebook:
    """A kernel, and the displays of the cells that have run in it."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(env=environment, stderr=subprocess.DEVNULL)
        self._client = self.manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=PATIENCE)
        self.displays: dict[str, list[dict[str, str]]] = {}  # by id, each with all its contents

    def run(self, code: str) -> str:
        """Run a cell. Returns the id of the display that it ends with, or what else it shows."""
        request = self._client.execute(code)
        shown = ""
        while True:
            message = self._read()
            content, kind = message["content"], message["msg_type"]
            if message["parent_header"].get("msg_id") != request:
                continue
            assert kind != "error", content
            if kind == "display_data":
                shown = content["transient"]["display_id"]
            elif kind == "stream":
                shown += content["text"]
            elif kind == "execute_result":
                shown = content["data"]["text/plain"]
            elif kind == "status" and content["execution_state"] == "idle":
                return shown

    def wait_for(self, display: str, text: str) -> list[str]:
        """Wait until a display says this. Returns all that it said."""
        deadline = time.monotonic() + PATIENCE
        while not any(text in each["text/plain"] for each in self.displays[display]):
            assert time.monotonic() < deadline, self.displays[display]
            self._read()
        return [each["text/plain"] for each in self.displays[display]]

    def _read(self) -> dict[str, Any]:
        message: dict[str, Any] = self._client.get_iopub_msg(timeout=PATIENCE)
        if message["msg_type"] in ("display_data", "update_display_data"):
            content = message["content"]
            self.displays.setdefault(content["transient"]["display_id"], []).append(content["data"])
        return message

    def close(self) -> None:
        self._client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    folder = tmp_path_factory.mktemp("notebook")
    places = {name: str(folder / name) for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_RUNTIME_DIR", places["JUPYTER_RUNTIME_DIR"])
        found = Notebook({**os.environ, **places})
        try:
            found.run("import time, gandy; crew = gandy.Crew(slots=2).start()")
            yield found
        finally:
            found.close()


def test_a_job_is_followed_to_its_end(notebook: Notebook) -> None:
    display = notebook.run("job = crew.submit('sleep 0.5', tasks=4, name='<b>bold</b>'); job")
    said = notebook.wait_for(display, "finished; 4 tasks: 4 finished")
    assert len(said) > 1
    assert "<b>bold</b>: running" in said[0]
    for content in notebook.displays[display]:
        assert "&lt;b&gt;bold&lt;/b&gt;" in content["text/html"]


def test_a_future_is_followed_to_its_value(notebook: Notebook) -> None:
    display = notebook.run("future = crew.run(lambda: time.sleep(0.5) or '<i>'); future")
    assert notebook.wait_for(display, "finished; '<i>'")[0].endswith("waiting")
    display = notebook.run("crew.run(int, 'seven')")
    notebook.wait_for(display, "failed; ValueError: invalid literal")


def test_a_crew_is_followed_while_it_has_jobs(notebook: Notebook) -> None:
    display = notebook.run("job = crew.submit('sleep 600', name='long'); crew")
    notebook.wait_for(display, "1 of 2 slots in use")
    notebook.run("job.cancel(); None")
    notebook.wait_for(display, "long: cancelled")


def test_objects_for_asyncio_are_followed_too(notebook: Notebook) -> None:
    notebook.run("client = gandy.AsyncClient(crew.address); await client.connect()")
    notebook.wait_for(notebook.run("job = await client.submit('sleep 0.5'); job"), "finished; 1 task: 1 finished")
    notebook.wait_for(notebook.run("client.run(pow, 2, 5)"), "finished; 32")
    notebook.wait_for(notebook.run("client"), "1 worker")
    notebook.run("await client.close()")


def test_what_cannot_be_asked_about_says_why(notebook: Notebook) -> None:
    display = notebook.run("crew.job(9999)")
    assert notebook.wait_for(display, "9999") == ["Job(9999): there is no job 9999"]


def test_closing_a_crew_ends_its_displays_quietly(notebook: Notebook) -> None:
    display = notebook.run("other = gandy.Crew(slots=1).start(); job = other.submit('sleep 600'); job")
    notebook.wait_for(display, "1 running")
    assert notebook.run("other.close()") == ""


def test_nothing_is_left_of_a_crew_whose_kernel_is_restarted(notebook: Notebook) -> None:
    pid, folder = notebook.run("print(crew.status().pid, crew.folder)").split()
    notebook.manager.restart_kernel(now=True)
    until(lambda: not is_alive(int(pid)) and not Path(folder).exists())


def test_ipython_in_a_terminal_prints_what_a_notebook_shows(tmp_path: Path) -> None:
    lines = (
        "import gandy",
        "client = gandy.Client()",
        "job = client.submit('true', name='quick')",
        "row = job.wait()",
        "job",
        "client",
    )
    with Crew(slots=1) as crew:
        done = subprocess.run(
            [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner"],
            input="".join(f"{line}\n" for line in lines),
            env={**os.environ, **crew.environment, "IPYTHONDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert "Out[5]: Job 1 quick: finished; 1 task: 1 finished" in done.stdout
    assert "1 worker, 0 of 1 slot in use, 0 jobs not done" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
