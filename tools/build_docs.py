"""Writes what docs takes from the code: diagrams, tables, test vectors, transcripts, the command line, the HTTP API,
measurements.

It owns the SVGs, and in pages the lines between `<!-- generated: NAME -->` and `<!-- end -->`. It leaves every other
line alone, and refuses a page where a block is missing or unknown. `--check` only lists what is not current.
"""

import json
import re
import struct
import sys
import textwrap
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, TypeAlias

from bench import records

from gandy.doors.v1 import wire as v1
from gandy.doors.v1.law import V1_LAW, V1State
from gandy.errors import ErrorCode
from gandy.talk.law import LAW, State
from gandy.testing.transcript import describe
from gandy.wire import v2
from gandy.wire.messages import Extension
from tools.describe_api import describe_addresses, describe_types, list_addresses
from tools.describe_benchmarks import describe_tables, draw_table, list_marks
from tools.describe_commands import describe_commands, list_commands, list_job_keys
from tools.draw_bands import draw_bands, list_packages
from tools.draw_states import Law, Plan, S, draw
from tools.markdown import table

Blocks: TypeAlias = Mapping[str, str]
Vector: TypeAlias = dict[str, Any]

ROOT: Final = Path(__file__).parent.parent
DOCS: Final = ROOT / "docs"
VECTORS: Final = ROOT / "tests" / "vectors"

BLOCK: Final = re.compile(r"(<!-- generated: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
INDENT: Final = 9
WIDTH: Final = INDENT + 88  # letters in a line; an even number of hex digits, so that no byte is cut

V1_PLAN: Final = Plan(
    "The conversation of the first generation",
    V1State.GREETING,
    {
        V1State.GREETING: (0, 0),
        V1State.OFFER: (1, 0),
        V1State.AGREEMENT: (2, 0),
        V1State.OPEN: (2, 1),
        V1State.REPORTING: (1, 1),
    },
)
V2_PLAN: Final = Plan(
    "The conversation of the second generation",
    State.GREETING,
    {State.GREETING: (0, 0), State.WELCOME: (1, 0), State.OPEN: (1, 1), State.RESETTING: (0, 1)},
)

CODE_MEANINGS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.OVERFLOW: "No room to hold this request. It was dropped: send it again later.",
    ErrorCode.NO_PROCS: "The JOB has more tasks than there are free slots.",
    ErrorCode.NO_SUCH_JOB: "No such job or task is known here.",
    ErrorCode.BAD_SEQ: "A sequence number of the wrong parity, one that does not rise, or an answer without a request.",
    ErrorCode.BAD_MAGIC: "A frame does not begin with the magic number.",
    ErrorCode.UNKNOWN_TYPE: "A type number that does not exist or was not agreed on.",
    ErrorCode.TOO_LONG: "A payload longer than this side accepts.",
    ErrorCode.BAD_PAYLOAD: "A payload that cannot be read, or that lacks what it must have.",
    ErrorCode.BAD_STATE: "A message that the law does not allow in this state.",
    ErrorCode.ALREADY_RUNNING: "The JOB names a task that this worker holds already, or names one twice.",
    ErrorCode.UNKNOWN_KEY: "The foreman does not know the key that the peer showed, or it showed none.",
    ErrorCode.REVOKED_KEY: "The key was revoked.",
    ErrorCode.EXPIRED_KEY: "The key has expired.",
    ErrorCode.WRONG_ROLE: "The key is for another role: a client poses as a worker, or the other way round.",
}
EXTENSION_MEANINGS: Final[Mapping[Extension, str]] = {
    Extension.ATOMIC: "A JOB is started whole or not at all, and error codes from 3 up are understood.",
    Extension.HEARTBEAT: "Signs of life: PING (0x20) is answered by PONG (0x21).",
    Extension.UPDATES: "Many results at once, and tasks that wait on a worker can be recalled.",
    Extension.CLIENT: "Requests of clients to a foreman.",
    Extension.CALLS: "Calls of commands, casts and streams.",
    Extension.OUTPUT: "The foreman asks a worker for pieces of a task's output.",
    Extension.TIMED: "Calls and tasks that begin at a shared time.",
    Extension.BEGUN: "A worker says which tasks it runs.",
    Extension.SHARDS: "A crew with many foremen: where its shards are, and what each wants of a worker.",
    Extension.LOAD: "A worker says how busy its machine is.",
    Extension.LINKED: "Jobs that run after others have ended in any way, or follow others task by task.",
}


def main(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(prog="python -m tools.build_docs", description="Write the generated parts of docs.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is not current")
    options = parser.parse_args(arguments)
    stale = {path: text for path, text in build().items() if not path.exists() or path.read_text() != text}
    if options.check:
        return report(stale)
    for path, text in stale.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


def report(stale: Iterable[Path]) -> int:
    names = [str(path.relative_to(ROOT)) for path in stale]
    if names:
        print(f"not current: {', '.join(names)}; run 'make docs'")
    return 1 if names else 0


def build() -> dict[Path, str]:
    """Every file with generated parts, as it should be."""
    results = records.load()
    pages: dict[str, Blocks] = {
        "protocol/v1.md": {
            "types": list_types(v1.V1Type),
            "errors": list_errors(),
            "law": list_law(V1_LAW),
            "vectors": list_vectors("jobs-v1.json", v1.HEADER),
        },
        "protocol/v2.md": {
            "types": list_types(v2.Type),
            "errors": list_errors(),
            "law": list_law(LAW),
            "vectors": list_vectors("jobs-v2.json", v2.HEADER),
        },
        "design/bands.md": {"packages": list_packages()},
        "protocol/extensions.md": {"extensions": list_extensions()},
        "protocol/sessions.md": list_sessions("jobs-v2-sessions.json"),
        "reference/command-line.md": {"list": list_commands(), "commands": describe_commands()},
        "reference/http-api.md": {
            "list": list_addresses(),
            "addresses": describe_addresses(),
            "types": describe_types(),
        },
        "reference/job-file.md": {"keys": list_job_keys()},
        "benchmarks.md": {"marks": list_marks(results), "tables": describe_tables(results)},
    }
    files = {DOCS / name: fill(DOCS / name, blocks) for name, blocks in pages.items()}
    files[DOCS / "protocol" / "v1.svg"] = draw(V1_LAW, V1_PLAN)
    files[DOCS / "protocol" / "v2.svg"] = draw(LAW, V2_PLAN)
    files[DOCS / "design" / "bands.svg"] = draw_bands()
    return files | {DOCS / "benchmarks" / f"{key}.svg": draw_table(found) for key, found in results.items()}


def fill(page: Path, blocks: Blocks) -> str:
    """The page with each block put in its place.

    Raises: ValueError, if the page and its blocks do not match.
    """
    text = page.read_text()
    found = [name for _, name, _ in BLOCK.findall(text)]
    if sorted(found) != sorted(blocks):
        raise ValueError(f"{page.name} has the blocks {found}, and should have {list(blocks)}")
    return BLOCK.sub(lambda match: f"{match[1]}\n{blocks[match[2]]}\n\n{match[3]}", text)


def load(name: str) -> list[Vector]:
    vectors: list[Vector] = json.loads((VECTORS / name).read_text())
    return vectors


# Tables


def list_types(types: type[IntEnum]) -> str:
    return table(["type", "number"], [[kind.name, f"0x{kind.value:02x}"] for kind in types])


def list_errors() -> str:
    rows = [[code.value, code.name.lower(), CODE_MEANINGS[code]] for code in ErrorCode]
    return table(["code", "word", "meaning"], rows)


def list_law(law: Law[S]) -> str:
    rows = [[state.name, sender.value, step, following.name] for (state, sender, step), following in law.items()]
    return table(["state", "sender", "says", "next state"], rows)


def list_extensions() -> str:
    rows = [
        [extension.name, f"0x{extension.value:04x}", _name_types(extension), EXTENSION_MEANINGS[extension]]
        for extension in Extension
    ]
    return table(["extension", "bit", "type numbers", "what for"], rows)


def _name_types(extension: Extension) -> str:
    numbers = v2.EXTENSION_TYPES.get(extension)
    return "none" if numbers is None else f"0x{numbers[0]:02x} to 0x{numbers[-1]:02x}"


# Bytes


def list_vectors(name: str, header: struct.Struct) -> str:
    return "\n\n".join(show_vector(vector, header) for vector in load(name))


def show_vector(vector: Vector, header: struct.Struct) -> str:
    """A frame's bytes, cut into the header's fields and the payload, over what they mean."""
    fields = dict(vector["frame"])
    payload = fields.pop("payload")
    parts = split_frame(bytes.fromhex(vector["hex"]), header)
    lines = [
        *wrap("header", " ".join(parts[:-1])),
        *wrap("", " ".join(f"{key}={value}" for key, value in fields.items())),
    ]
    if parts[-1]:
        lines += [*wrap("payload", parts[-1]), *wrap("", json.dumps(payload))]
    use = "encoded and decoded" if vector["canonical"] else "decoded only"
    return "\n".join([f"**{vector['name']}**: {use}", "", "```text", *lines, "```"])


def split_frame(frame: bytes, header: struct.Struct) -> list[str]:
    """The hex of each field of the header, then that of the payload."""
    order, fields = header.format[0], header.format[1:]
    parts, begin = [], 0
    for field in fields:
        end = begin + struct.calcsize(order + field)
        parts.append(frame[begin:end].hex())
        begin = end
    return [*parts, frame[begin:].hex()]


def wrap(word: str, text: str) -> list[str]:
    """Lines under each other, after a word."""
    first, others = word.ljust(INDENT), " " * INDENT
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)


# Sessions


def list_sessions(name: str) -> Blocks:
    """One block for each session."""
    return {f"session {session['name']}": transcribe(session["frames"]) for session in load(name)}


def transcribe(frames: Iterable[Vector]) -> str:
    """A session as a text block, one line for each message."""
    lines = []
    for frame in frames:
        decoder = v2.V2Decoder()
        decoder.receive_data(bytes.fromhex(frame["hex"]))
        numbered = decoder.next_message()
        assert numbered is not None, "a recorded frame is whole"
        seq, message = numbered
        lines.append(f"{frame['from']:7}  {seq:>3}  {describe(message)}")
    return "\n".join(["```text", *lines, "```"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
