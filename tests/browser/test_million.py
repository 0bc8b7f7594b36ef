"""A job of a million tasks: what travels, when it is first seen, and how smoothly it moves.

What depends on the machine is printed, never asserted: run pytest with -s to read it.
"""

from typing import Any

from tests.browser.dashboards import Site
from tests.browser.devtools import Tab

MILLION = 1_000_000
MAX_WIRE_BYTES = 300_000

# Notes when the answer with all states is there, and when the first picture of it has been drawn.
WATCH_FIRST_PAINT = """
(() => {
    const { picture } = gandy.view;
    const replace = picture.replace.bind(picture);
    window.first = new Promise((resolve) => {
        picture.replace = (bytes) => {
            const answered = performance.now();
            replace(bytes);
            const look = () => {
                if (picture.cells.frames) resolve(performance.now() - answered);
                else requestAnimationFrame(look);
            };
            look();
        };
    });
})()
"""

# Counts the browser's frames, those of the picture, and the longest pause between two frames.
COUNT_FRAMES = """
new Promise((resolve) => {
    const { cells, states } = gandy.view.picture;
    const began = performance.now();
    const drawn = cells.frames;
    const over = states.counts[2];
    let frames = 0;
    let longest = 0;
    let before = began;
    const look = (now) => {
        frames += 1;
        longest = Math.max(longest, now - before);
        before = now;
        const seconds = (performance.now() - began) / 1000;
        if (seconds < SECONDS) requestAnimationFrame(look);
        else resolve({
            frames: frames / seconds, longest,
            drawn: (cells.frames - drawn) / seconds, tasks: (states.counts[2] - over) / seconds,
        });
    };
    requestAnimationFrame(look);
})
"""

# As many changes as the server sends at most: ten times a second, ten thousand runs each, all over the job.
CHANGE_EVERYTHING = """
(() => {
    const { picture } = gandy.view;
    picture.live.close();
    let step = 0;
    window.changing = setInterval(() => {
        step += 1;
        const runs = Array.from({ length: 10_000 }, (_, index) => {
            const first = index * 100 + ((step * 37 + index * 7) % 90) + 1;
            return [first, first + 9, (step + index) % 6];
        });
        picture.change(1_000_000, runs);
    }, 100);
})()
"""


def test_million_tasks_are_drawn_at_once_and_move_smoothly(site: Site, tab: Tab) -> None:
    site.start_worker("--slots", "2")
    job = site.crew.submit("--tasks", str(MILLION), "--", "true")
    site.start_dashboard().show(tab, f"#/jobs/{job}")
    paint = tab.run(f"{WATCH_FIRST_PAINT} ?? first") or tab.run("first")
    tab.take_problems()  # and what was loaded
    wire = sum(tab.loaded_bytes.values())
    print(f"\nfirst paint {paint:.0f} ms after the answer; {wire:,} bytes over the wire until then, with the page")
    assert wire < MAX_WIRE_BYTES

    tab.wait_for("gandy.view.picture.states.counts[2] > 0")
    assert tab.run("gandy.view.picture.states.length") == MILLION

    width, height = tab.run("[gandy.view.picture.cells.canvas.width, gandy.view.picture.cells.canvas.height]")
    assert width * height >= MILLION  # a pixel for each
    real = count_frames(tab, 5.0)
    print(f"a real crew:      {describe(real)}")
    assert real["drawn"] > 0

    tab.run(CHANGE_EVERYTHING)
    hardest = count_frames(tab, 5.0)
    tab.run("clearInterval(changing)")
    print(f"all tasks change: {describe(hardest)}")
    assert hardest["drawn"] > 0
    assert sum(tab.run("gandy.view.picture.states.counts")) == MILLION  # as many as before


def count_frames(tab: Tab, seconds: float) -> dict[str, Any]:
    counted: dict[str, Any] = tab.run(COUNT_FRAMES.replace("SECONDS", str(seconds)))
    return counted


def describe(counted: dict[str, Any]) -> str:
    frames, drawn, longest = counted["frames"], counted["drawn"], counted["longest"]
    smooth = f"{frames:.0f} frames a second, {drawn:.1f} with news; longest pause {longest:.0f} ms"
    return f"{smooth}; {counted['tasks']:.0f} tasks/s"
