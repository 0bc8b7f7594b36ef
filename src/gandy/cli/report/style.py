"""How a report looks: light, dark, and on paper. Colours of states can be told apart by colour-blind readers."""

from collections.abc import Mapping
from typing import Final

from gandy.core.model import TaskState

# Red, green and blue, on light and on dark ground.
COLOURS: Final[Mapping[TaskState, tuple[int, int, int]]] = {
    TaskState.WAITING: (0xB4, 0xB8, 0xBE),
    TaskState.RUNNING: (0xE3, 0xB5, 0x05),
    TaskState.FINISHED: (0x2F, 0x7F, 0xBF),
    TaskState.FAILED: (0xD5, 0x4B, 0x00),
    TaskState.CANCELLED: (0x7D, 0x6B, 0x8E),
    TaskState.ASSIGNED: (0x7F, 0xC4, 0xEE),
}


def format_colour(state: TaskState) -> str:
    red, green, blue = COLOURS[state]
    return f"#{red:02x}{green:02x}{blue:02x}"


_STATES: Final = "\n".join(f".{state.name.lower()} {{ --state: {format_colour(state)} }}" for state in COLOURS)

CSS: Final = f"""
:root {{ color-scheme: light dark; --text: #1d2127; --soft: #5c6570; --ground: #ffffff; --card: #f6f7f9;
  --line: #dde1e6 }}
@media (prefers-color-scheme: dark) {{
  :root {{ --text: #e6e9ed; --soft: #9aa4b0; --ground: #14171b; --card: #1d2127; --line: #343b44 }}
}}
{_STATES}
* {{ box-sizing: border-box }}
body {{ margin: 0 auto; max-width: 1080px; padding: 24px 20px 60px; background: var(--ground); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif }}
h1 {{ font-size: 26px; margin: 0 0 4px }}
h2 {{ font-size: 21px; margin: 48px 0 8px; padding-top: 20px; border-top: 2px solid var(--line) }}
h3 {{ font-size: 16px; margin: 28px 0 8px }}
p {{ margin: 4px 0 }}
.soft {{ color: var(--soft) }}
pre, dd.code {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 13px }}
pre {{ margin: 4px 0 0; padding: 8px 10px; background: var(--card); border: 1px solid var(--line); border-radius: 6px;
  white-space: pre-wrap; overflow-wrap: anywhere }}
.badge {{ display: inline-block; padding: 1px 9px; margin-left: 8px; border-radius: 10px;
  border: 2px solid var(--state); font-size: 14px; font-weight: 600; vertical-align: 2px }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: 3px 18px; margin: 8px 0 }}
dt {{ color: var(--soft) }}
dd {{ margin: 0; overflow-wrap: anywhere }}
.wide {{ overflow-x: auto }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ text-align: left; vertical-align: top; padding: 4px 14px 4px 0; border-bottom: 1px solid var(--line) }}
th {{ color: var(--soft); font-weight: 500; white-space: nowrap }}
th.number, td.number {{ text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }}
td {{ overflow-wrap: break-word }}
.timeline svg {{ min-width: 640px }}
p.task {{ margin-top: 16px; font-weight: 600 }}
.two {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(380px, 1fr)); gap: 12px 28px }}
svg {{ display: block; width: 100%; height: auto }}
.two svg {{ max-width: 500px }}
svg text {{ fill: var(--soft); font-size: 11px; font-family: inherit }}
svg line {{ stroke: var(--line) }}
svg rect {{ fill: var(--state) }}
svg rect.lane {{ fill: var(--card) }}
img.map {{ display: block; image-rendering: pixelated; border-radius: 3px }}
ul.legend {{ display: flex; flex-wrap: wrap; gap: 2px 18px; list-style: none; padding: 0; margin: 6px 0 }}
ul.legend li::before {{ content: ""; display: inline-block; width: 11px; height: 11px; margin-right: 6px;
  border-radius: 2px; background: var(--state); vertical-align: -1px;
  print-color-adjust: exact; -webkit-print-color-adjust: exact }}
@media print {{
  :root {{ --text: #000; --soft: #444; --ground: #fff; --card: #fff; --line: #bbb }}
  body {{ max-width: none; padding: 0; font-size: 12px }}
  h2 {{ break-before: page }}
  section:first-of-type h2 {{ break-before: auto }}
  h3 {{ break-after: avoid }}
  svg, img, tr, pre {{ break-inside: avoid }}
}}
"""
