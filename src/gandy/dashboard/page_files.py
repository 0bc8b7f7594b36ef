"""The files of the page, which are in the package, and the small pages that say what to do instead."""

import gzip
import re
from functools import lru_cache
from html import escape
from http import HTTPStatus
from pathlib import Path
from typing import Final

from gandy.dashboard.messages import HTML, HttpRefusal, HttpRequest, HttpResponse

FOLDER: Final = Path(__file__).parent / "page"
INDEX: Final = "index.html"

# Types of the files that are served; there are no others.
TYPES: Final = {
    ".html": HTML,
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".json": "application/json",
    ".woff2": "font/woff2",
}
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
COMPRESSED: Final = frozenset({".html", ".css", ".js", ".svg", ".json"})
CACHE: Final = {"Cache-Control": "no-cache"}  # browsers ask each time if the file has changed


def read_page_file(request: HttpRequest) -> HttpResponse:
    """Raises: HttpRefusal."""
    if request.method not in ("GET", "HEAD"):
        raise HttpRefusal(HTTPStatus.METHOD_NOT_ALLOWED, "bad_request", "use GET here", {"Allow": "GET"})
    path = _find_file(request.path.lstrip("/") or INDEX)
    if path is None:
        raise HttpRefusal(HTTPStatus.NOT_FOUND, "not_found", "there is nothing at this address")
    found = path.stat()
    tag = f'"{found.st_mtime_ns:x}-{found.st_size:x}"'
    headers = {**CACHE, "ETag": tag, "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == tag:
        return HttpResponse(HTTPStatus.NOT_MODIFIED, content_type="", headers=headers)
    if path.suffix in COMPRESSED and request.accepts_encoding("gzip"):
        body = _compress(path, found.st_mtime_ns)
        return HttpResponse(HTTPStatus.OK, body, TYPES[path.suffix], {**headers, "Content-Encoding": "gzip"})
    return HttpResponse(HTTPStatus.OK, path.read_bytes(), TYPES[path.suffix], headers)


def _find_file(name: str) -> Path | None:
    """The file with this name, if it is one of the page's: no name leads out of its folder."""
    words = name.split("/")
    if not all(map(_NAME.fullmatch, words)):
        return None
    path = FOLDER.joinpath(*words)
    return path if path.suffix in TYPES and path.is_file() else None


@lru_cache(maxsize=100)
def _compress(path: Path, _changed: int) -> bytes:
    return gzip.compress(path.read_bytes(), mtime=0)


def make_page(title: str, text: str, *, goes_on: bool) -> bytes:
    """A page of one sentence. `goes_on`: the browser opens the dashboard at once, as if its user had clicked a link."""
    refresh = '<meta http-equiv="refresh" content="0; url=/">' if goes_on else ""
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8>{refresh}<title>gandy: {escape(title)}</title>"
        f"<h1>{escape(title)}</h1><p>{escape(text)}</p></html>\n"
    ).encode()
