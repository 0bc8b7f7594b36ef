"""Describes the command line in Markdown, from the commands themselves: docs/reference takes its tables from here.

It says what `--help` says, whatever terminal, machine or environment it runs on. It loads every command and runs none.
"""

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import click
import msgspec

from gandy.cli.jobfile import JobFile
from gandy.cli.main import program
from gandy.cli.submit import submit
from tools.markdown import table

WIDTH: Final = 120  # characters in a line, as in the handwritten pages
SHORT_HELP: Final = 200  # characters; no first sentence is longer, so none is cut
VERBATIM: Final = "\b\n"  # how click knows a paragraph that must not be wrapped

COUNTS: Final = {
    (1, True): "One argument.",
    (1, False): "One argument, or none.",
    (-1, True): "One or more arguments.",
    (-1, False): "Any number of arguments.",
}

# TOML's names for the types that msgspec reads. None is a key that is left out.
TOML_NAMES: Final[dict[type[msgspec.inspect.Type], str]] = {
    msgspec.inspect.BoolType: "boolean",
    msgspec.inspect.DictType: "table of strings",
    msgspec.inspect.FloatType: "number",
    msgspec.inspect.IntType: "integer",
    msgspec.inspect.StrType: "string",
}
TOML_ITEMS: Final[dict[type[msgspec.inspect.Type], str]] = {
    msgspec.inspect.IntType: "array of integers",
    msgspec.inspect.StrType: "array of strings",
}

# Keys of a job file that mean more than the option of the same name, or that are not options.
KEY_MEANINGS: Final = {
    "command": "A string is a line for the shell; an array is a program and its arguments, which no shell sees.",
    "each-line": "Run the command once for each line of this file, or once for each string of the array.",
    "env": "Variables for the tasks.",
}


class Found(NamedTuple):
    """A command, and the context that knows its full name."""

    command: click.Command
    context: click.Context

    @property
    def path(self) -> str:
        return self.context.command_path


def list_commands() -> str:
    """Every command on a line, with a link to its description."""
    rows = [
        [f"[`{found.path}`](#{found.path.replace(' ', '-')})", found.command.get_short_help_str(limit=SHORT_HELP)]
        for found in find_commands()
    ]
    return table(["command", "what it does"], rows)


def describe_commands() -> str:
    """A section for each command."""
    return "\n\n".join(describe(found) for found in find_commands())


def list_job_keys() -> str:
    """Every key of a job file. A key means what the option of that name means."""
    options = {name: option for option in submit.params for name in option.opts if isinstance(option, click.Option)}
    keys = msgspec.inspect.type_info(JobFile)
    assert isinstance(keys, msgspec.inspect.StructType)
    rows = [
        [
            f"`{field.encode_name}`",
            name_type(field.type),
            KEY_MEANINGS.get(field.encode_name) or explain_option(options[f"--{field.encode_name}"]),
        ]
        for field in keys.fields
    ]
    return table(["key", "type", "meaning"], rows)


def find_commands() -> Iterator[Found]:
    """`gandy` and every command below it, each group before its commands."""
    yield from _find(program, click.Context(program, info_name="gandy"))


def _find(command: click.Command, context: click.Context) -> Iterator[Found]:
    yield Found(command, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None, "a group has the commands that it lists"
            yield from _find(child, click.Context(child, parent=context, info_name=name))


# Sections


def describe(found: Found) -> str:
    command, context = found
    usage = f"    {found.path} {' '.join(command.collect_usage_pieces(context))}"
    parts = [f"## {found.path}", usage, *format_text(command.help or "")]
    if isinstance(command, click.Group):
        parts.append(_list_children(found, command))
    if command.params:
        in_order = sorted(command.params, key=lambda parameter: isinstance(parameter, click.Option))
        parts.append(table(["", "meaning"], (_make_row(parameter, context) for parameter in in_order)))
    return "\n\n".join([*parts, *format_text(command.epilog or "")])


def _list_children(found: Found, group: click.Group) -> str:
    names = group.list_commands(found.context)
    links = (f"[`{name}`](#{found.path.replace(' ', '-')}-{name})" for name in names)
    return f"Commands: {', '.join(links)}."


def format_text(text: str) -> list[str]:
    """Paragraphs of help. A paragraph that must not be wrapped becomes a block, under its first line."""
    paragraphs = re.split(r"\n\s*\n", text.strip("\n "))
    return [part for paragraph in paragraphs if paragraph for part in _format_paragraph(paragraph)]


def _format_paragraph(text: str) -> list[str]:
    if not text.startswith(VERBATIM):
        return [textwrap.fill(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False)]
    title, _, lines = text.removeprefix(VERBATIM).partition("\n")
    return [title, textwrap.indent(textwrap.dedent(lines).strip("\n"), "    ")]


# Parameters


def _make_row(parameter: click.Parameter, context: click.Context) -> Sequence[str]:
    metavar = parameter.make_metavar(context)
    if not isinstance(parameter, click.Option):
        return _code(metavar), _join(COUNTS[parameter.nargs, parameter.required], describe_range(parameter))
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    words = names if parameter.is_flag else f"{names} {metavar}"
    return _code(words) + (" …" if parameter.multiple else ""), explain_option(parameter)


def explain_option(option: click.Option) -> str:
    default = f"Default: {option.default}." if option.show_default else ""
    variables = [option.envvar] if isinstance(option.envvar, str) else list(option.envvar or ())
    variable = f"If left out, `{'`, `'.join(variables)}` is read first." if variables else ""
    return _join(option.help or "", describe_range(option), default, variable)


def describe_range(parameter: click.Parameter) -> str:
    kind = parameter.type
    if not isinstance(kind, click.IntRange) or kind.min is None:
        return ""
    return f"From {kind.min} up." if kind.max is None else f"From {kind.min} to {kind.max}."


def name_type(kind: msgspec.inspect.Type) -> str:
    """The name of the type in TOML."""
    if isinstance(kind, msgspec.inspect.UnionType):
        return " or ".join(name_type(each) for each in kind.types if not isinstance(each, msgspec.inspect.NoneType))
    if isinstance(kind, msgspec.inspect.VarTupleType):
        return TOML_ITEMS[type(kind.item_type)]
    return TOML_NAMES[type(kind)]


# Text


def _code(text: str) -> str:
    return f"`{text}`"


def _join(*sentences: str) -> str:
    return " ".join(filter(None, sentences))
