"""One word for one thing: a class name says which class is meant, and verbs say what happens."""

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import Final

from tests.sources import read_modules

SOURCE: Final = Path(__file__).parents[2] / "src" / "gandy"

# Names that several classes have, and why each of them must.
SHARED: Final = {
    "Job": "the message JOB of the wire carries the word of its protocol; users hold a gandy.Job",
    "Status": "the wire carries the word of its protocol; users of the bus are given a gandy.bus.Status",
}

# Words that hide who acts, and verbs that hide what happens.
UNCLEAR: Final = re.compile(r"\b(whoever|nobody|somebody)\b", re.IGNORECASE)


def test_no_two_classes_have_the_same_name() -> None:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name, _, nodes in read_modules():
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(name)
    twice = {name: where for name, where in found.items() if len(where) > 1}
    assert twice.keys() == SHARED.keys(), twice


def test_no_function_tells() -> None:
    for name, _, nodes in read_modules():
        told = [
            node.name
            for node in nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and re.match("_?tell_", node.name)
        ]
        assert not told, f"{name}: say what {told} do: compute, format, print, send"


def test_sentences_have_subjects() -> None:
    unclear = {name: len(UNCLEAR.findall(text)) for name, text, _ in read_modules()}
    assert not {name: count for name, count in unclear.items() if count}
