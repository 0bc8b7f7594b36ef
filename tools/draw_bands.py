"""Draws the packages of gandy in their layers, and lists what each owns, from the import graph and the docstrings.

The layers are those that the linter enforces. It refuses a package that is in none of them.
"""

import ast
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

from tools.markdown import table

ROOT: Final = Path(__file__).parent.parent
SOURCE: Final = ROOT / "src" / "gandy"

# All lengths are in pixels.
WIDTH: Final = 1000
MARGIN: Final = 24
BOX_HEIGHT: Final = 40
BOX_GAP: Final = 12
ROW_GAP: Final = 16
BAND_WIDTH: Final = 64  # left of the boxes: what the rows have in common

STYLE: Final = """
text { font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #2b2b2b; text-anchor: middle }
.name { font-size: 15px; font-weight: 700 }
.card { fill: #fbfaf6; stroke: #d9d4c8 }
.face { fill: #f3e9f7; stroke: #5d3b86 }
.io { fill: #fdeee2; stroke: #a3470a }
.pure { fill: #e6f0f7; stroke: #1b5a86 }
.word { fill: #ffffff; stroke: #4a4a4a }
.band { font-size: 12px; fill: #6b675f }
"""

# Which band a package belongs to. Packages of two bands, such as a door, have the same bands inside.
BANDS: Final[Mapping[str, Sequence[str]]] = {
    "face": ("cli", "dashboard", "terminal", "up", "crew", "joblib", "pytest_plugin", "testing"),
    "io": (
        *(
            "viewer",
            "doors",
            "bus",
            "foreman",
            "worker",
            "client",
            "reach",
            "net",
            "store",
            "functions",
            "progress",
            "notebook",
            "journal",
        ),
        *("keys", "interfaces", "files", "processes", "poll_thread", "clocks"),
    ),
    "pure": ("core", "talk", "wire", "bounds"),
    "word": ("limits", "ids", "config", "moments", "amounts", "errors"),
}
BAND_NAMES: Final = {"face": "faces", "io": "I/O", "pure": "pure", "word": "words"}


def read_layers() -> list[list[str]]:
    """From the top."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract = settings["tool"]["importlinter"]["contracts"][0]
    return [[name.strip().removeprefix("gandy.") for name in layer.split("|")] for layer in contract["layers"]]


def read_purpose(name: str) -> str:
    """The first sentence of the docstring of a package, or of a module that stands beside the packages."""
    path = SOURCE / name
    head = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return (ast.get_docstring(ast.parse(head.read_text())) or "").partition("\n")[0]


def list_imports(name: str, known: Iterable[str]) -> list[str]:
    """The packages that a package imports from."""
    path = SOURCE / name
    files = path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]
    found = {module.split(".")[1] for file in files for module in _find_modules(ast.parse(file.read_text()))}
    return sorted(found & set(known) - {name})


def _find_modules(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module)) if module.startswith("gandy."):
                yield module
            case ast.ImportFrom(module="gandy", names=names):
                yield from (f"gandy.{each.name}" for each in names)
            case ast.Import(names=names):
                yield from (each.name for each in names if each.name.startswith("gandy."))
            case _:
                pass


def list_packages() -> str:
    """The packages from the top, with what each owns and imports."""
    layers = read_layers()
    names = [name for layer in layers for name in layer]
    _check_complete(names)
    rows = []
    for name in names:
        imports = ", ".join(f"`{each}`" for each in list_imports(name, names))
        rows.append([f"`{name}`", read_purpose(name), imports or "-"])
    return table(["package", "what it is", "imports from"], rows)


def _check_complete(names: Sequence[str]) -> None:
    here = {path.stem for path in SOURCE.iterdir() if path.stem not in ("__init__", "__main__", "__pycache__", "py")}
    missing = sorted(name for name in here - set(names) if (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").exists())
    if missing:
        raise ValueError(f"these packages are in no layer of pyproject.toml: {', '.join(missing)}")


def draw_bands() -> str:
    """The layers as rows, the packages as boxes: each package stands above those that it imports."""
    layers = read_layers()
    height = 2 * MARGIN + len(layers) * (BOX_HEIGHT + ROW_GAP) - ROW_GAP
    label = "The packages of gandy in their layers"
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}">',
        f"<style>{STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="10"/>',
    ]
    for row, layer in enumerate(layers):
        parts += _draw_row(layer, MARGIN + row * (BOX_HEIGHT + ROW_GAP))
    return "\n".join([*parts, "</svg>\n"])


def _draw_row(layer: Sequence[str], top: int) -> Iterator[str]:
    room = WIDTH - 2 * MARGIN - BAND_WIDTH
    width = (room - BOX_GAP * (len(layer) - 1)) / len(layer)
    bands = sorted({_find_band(name) for name in layer}, key=list(BANDS).index)
    middle = top + BOX_HEIGHT / 2
    yield f'<text class="band" x="{MARGIN + BAND_WIDTH / 2 - 6}" y="{middle + 4}">{BAND_NAMES[bands[0]]}</text>'
    for place, name in enumerate(layer):
        left = MARGIN + BAND_WIDTH + place * (width + BOX_GAP)
        kind = _find_band(name)
        yield f'<rect class="{kind}" x="{left:.1f}" y="{top}" width="{width:.1f}" height="{BOX_HEIGHT}" rx="8"/>'
        yield f'<text class="name" x="{left + width / 2:.1f}" y="{middle + 5}">{escape(name)}</text>'


def _find_band(name: str) -> str:
    return next(band for band, names in BANDS.items() if name in names)
