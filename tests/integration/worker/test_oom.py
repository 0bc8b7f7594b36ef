"""Where the out-of-memory killer is counted: our control group before the whole machine."""

from pathlib import Path

import pytest

from gandy.worker.oom import OomCounter

FILES = {
    "v2": ("0::/crew\n", "sys/fs/cgroup/crew/memory.events", "low 0\noom 9\noom_kill 7\noom_group_kill 0\n"),
    "v1": ("4:memory:/crew\n0::/\n", "sys/fs/cgroup/memory/crew/memory.oom_control", "under_oom 0\noom_kill 7\n"),
    "machine": ("0::/\n", "proc/vmstat", "nr_free_pages 5\noom_kill 7\n"),
}


def place(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.mark.parametrize("kind", FILES)
def test_counter_is_found_and_read_anew(tmp_path: Path, kind: str) -> None:
    groups, path, text = FILES[kind]
    place(tmp_path, "proc/self/cgroup", groups)
    place(tmp_path, path, text)
    counter = OomCounter(tmp_path)
    assert counter.read() == 7
    place(tmp_path, path, text.replace("7", "8"))
    assert counter.read() == 8
    counter.close()


def test_nothing_is_known_where_the_kernel_does_not_count(tmp_path: Path) -> None:
    place(tmp_path, "proc/self/cgroup", "0::/crew\n")
    place(tmp_path, "sys/fs/cgroup/crew/memory.events", "low 0\n")
    counter = OomCounter(tmp_path)
    assert counter.read() is None
    counter.close()


def test_this_machine_counts() -> None:
    counter = OomCounter()
    assert counter.read() is not None
    counter.close()
    assert counter.read() is None
