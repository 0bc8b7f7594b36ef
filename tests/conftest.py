"""No test uses the home of its user. And how hard hypothesis looks: GANDY_HYPOTHESIS_PROFILE=soak for long."""

import atexit
import os
import shutil
import signal
import tempfile
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

# The same examples on every run: a test must not depend on luck. `soak` searches for new ones.
settings.register_profile(
    "quick",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate],  # `soak` shrinks what it finds, which takes minutes
)
settings.register_profile("soak", deadline=None, max_examples=5_000, suppress_health_check=list(HealthCheck))
settings.load_profile(os.environ.get("GANDY_HYPOTHESIS_PROFILE", "quick"))

# In the background of a shell, and with nohup, these are ignored. Programs that the tests start would ignore them too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

os.environ["GANDY_HOME"] = tempfile.mkdtemp(prefix="gandy-tests-")
atexit.register(shutil.rmtree, os.environ["GANDY_HOME"], ignore_errors=True)

if settings.get_current_profile_name() == "quick":
    # Hypothesis uses constants of all imported modules, so examples would depend on what ran before. It has no
    # setting for that.
    _NO_CONSTANTS = Constants()
    providers._get_local_constants = lambda: _NO_CONSTANTS


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Lists what was skipped and why, a line for each reason."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    if reasons:
        terminalreporter.section("skipped")
    for reason, count in reasons.most_common():
        terminalreporter.line(f"{count:4}  {reason}")
