"""Drives Chromium over its DevTools protocol, through two pipes: no port, no driver and no package is needed.

Owns the browser's process and what it says. It knows nothing of gandy.
"""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE: Final = 60.0  # seconds; far more than anything takes on a busy machine

# Without these, a browser asks the network for updates and settings at every start.
FLAGS: Final = [
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-extensions",
    "--hide-scrollbars",
    "--mute-audio",
    "--remote-debugging-pipe",
]

Event = dict[str, Any]


class BrowserError(Exception):
    """The browser refused a command, or a script threw an exception."""


class Browser:
    """One Chromium. `command` sends, waits for the answer, and keeps the events that came meanwhile."""

    def __init__(self, folder: Path) -> None:
        assert CHROMIUM is not None, "there is no Chromium here"
        their_in, self._out = os.pipe()
        self._in, their_out = os.pipe()

        def place_pipes() -> None:
            os.setsid()
            ends = os.dup(their_in), os.dup(their_out)  # so that neither is overwritten below
            for end, number in zip(ends, (3, 4), strict=True):
                os.dup2(end, number)

        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        self._process = subprocess.Popen(
            [CHROMIUM, *FLAGS, *sandbox, f"--user-data-dir={folder}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=place_pipes,
        )
        os.close(their_in)
        os.close(their_out)
        self._buffer = bytearray()
        self._number = 0
        self._events: deque[Event] = deque()

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def command(self, method: str, session: str | None = None, **params: Any) -> Any:
        """Raises: BrowserError."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._read(deadline)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._events.append(answer)

    def take_event(self, seconds: float = PATIENCE) -> Event | None:
        """The next event; None if there is none in time."""
        if self._events:
            return self._events.popleft()
        try:
            return self._read(time.monotonic() + seconds)
        except TimeoutError:
            return None

    def _read(self, deadline: float) -> Event:
        while (end := self._buffer.find(0)) < 0:
            left = deadline - time.monotonic()
            if left < 0 or not select.select([self._in], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self._in, 1 << 20)
            if not data:
                raise BrowserError("the browser has ended")
            self._buffer += data
        message: Event = json.loads(self._buffer[:end])
        del self._buffer[: end + 1]
        return message


class Tab:
    """A page of the browser, in a context of its own: no cookie and no storage is shared."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self._context = browser.command("Target.createBrowserContext")["browserContextId"]
        target = browser.command("Target.createTarget", url="about:blank", browserContextId=self._context)
        self._target = target["targetId"]
        attached = browser.command("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session = attached["sessionId"]
        self.problems: list[str] = []  # errors and warnings in the console, exceptions, and what failed to load
        self.loaded_bytes: dict[str, int] = {}  # by request: over the wire, headers included
        self.urls: dict[str, str] = {}  # by request
        self.statuses: dict[str, int] = {}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.command(f"{domain}.enable")

    def close(self) -> None:
        self.browser.command("Target.disposeBrowserContext", browserContextId=self._context)

    def command(self, method: str, **params: Any) -> Any:
        return self.browser.command(method, self._session, **params)

    def open(self, url: str) -> None:
        """Raises: BrowserError."""
        answer = self.command("Page.navigate", url=url)
        if "errorText" in answer:
            raise BrowserError(f"{url}: {answer['errorText']}")

    # What the page is like

    def run(self, script: str) -> Any:
        """The value of an expression; of a promise, what it resolves to. Raises: BrowserError."""
        answer = self.command("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def wait_for(self, condition: str, seconds: float = PATIENCE) -> Any:
        """Look in every frame of the page until an expression is true. Returns its value. Raises: AssertionError."""
        deadline = time.monotonic() + seconds
        script = f"""new Promise((resolve) => {{
            const until = performance.now() + 1000;
            const look = async () => {{
                let found = null;
                try {{ found = await ({condition}); }} catch (error) {{ found = null; }}
                if (found || performance.now() > until) resolve(found instanceof Node || found || null);
                else setTimeout(look, 30);
            }};
            look();
        }})"""
        while True:
            try:
                found = self.run(script)
            except BrowserError:  # the page was left while the script ran
                found = None
            if found:
                return found
            assert time.monotonic() < deadline, (condition, self.text(), self.take_problems())

    def text(self) -> str:
        """What a person can read."""
        return str(self.run("document.body.innerText"))

    # What a person does

    def click(self, selector: str) -> None:
        """Move there and click, as with a mouse."""
        self.wait_for(f"document.querySelector({selector!r})")
        script = f"""(() => {{
            const node = document.querySelector({selector!r});
            node.scrollIntoView({{ block: "center", inline: "nearest" }});
            const box = node.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()"""
        self.click_at(*self.run(script))

    def click_at(self, x: float, y: float) -> None:
        self.move_to(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def move_to(self, x: float, y: float, is_pressed: bool = False) -> None:
        self.command("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, buttons=1 if is_pressed else 0)

    def press(self, key: str) -> None:
        """A key by its name: `?`, `Enter`, `ArrowRight`."""
        text = {"text": "\r" if key == "Enter" else key} if len(key) == 1 or key == "Enter" else {}
        codes = {"Enter": 13, "Escape": 27, "Tab": 9}
        code = {"windowsVirtualKeyCode": codes[key]} if key in codes else {}
        self.command("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **code)
        self.command("Input.dispatchKeyEvent", type="keyUp", key=key, **code)

    # How it looks

    def resize(self, width: int, height: int, scale: float = 1) -> None:
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False
        )

    def prefer(self, theme: str) -> None:
        """What the system is set to: light or dark."""
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def take_picture(self, path: Path, width: int, height: int, scale: float = 1, is_whole: bool = True) -> None:
        """Write a PNG file of a window of this size; if the whole page is wanted, as high as the page is."""
        self.resize(width, height, scale)
        self.wait_for_frames()
        if is_whole:  # what is out of sight is not drawn: the window has to be so high
            self.resize(width, max(height, self.run("document.documentElement.scrollHeight")), scale)
            self.wait_for_frames()
        path.write_bytes(base64.b64decode(self.command("Page.captureScreenshot", format="png")["data"]))

    def wait_for_frames(self, count: int = 4) -> None:
        """Until the page was drawn so many times."""
        self.run(
            f"(async () => {{ for (let i = 0; i < {count}; i += 1) await new Promise(requestAnimationFrame); }})()"
        )

    # What it says

    def take_problems(self) -> list[str]:
        """Everything that a developer would see in the console and should not, since the last time."""
        self.run("null")  # what happened before has been told when this is answered
        while (event := self.browser.take_event(0.0)) is not None:
            if event.get("sessionId") == self._session:
                self._note(event["method"], event["params"])
        problems, self.problems = self.problems, []
        return problems

    def _note(self, method: str, params: Event) -> None:
        match method:
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.problems.append(details.get("exception", {}).get("description") or details["text"])
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.problems.append(" ".join(str(each.get("value")) for each in params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.problems.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
            case "Network.requestWillBeSent":
                self.urls[params["requestId"]] = params["request"]["url"]
            case "Network.responseReceived":
                self.statuses[params["requestId"]] = params["response"]["status"]
                self.loaded_bytes[params["requestId"]] = params["response"]["encodedDataLength"]
            case "Network.dataReceived":
                known = self.loaded_bytes.get(params["requestId"], 0)
                self.loaded_bytes[params["requestId"]] = known + params["encodedDataLength"]
            case _:
                pass


@contextmanager
def browsing() -> Iterator[Callable[[], Tab]]:
    """A browser; the value opens a tab of it."""
    with tempfile.TemporaryDirectory(prefix="gandy-browser-") as folder:
        browser = Browser(Path(folder))
        try:
            yield lambda: Tab(browser)
        finally:
            browser.close()
