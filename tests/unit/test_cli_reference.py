"""The reference of the command line: it has everything, and says the same wherever it is made."""

import click
import msgspec
import pytest
from tools import describe_commands as reference

from gandy.cli.jobfile import JobFile

FOUND = list(reference.find_commands())


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.path)
def test_section_has_all_that_help_has(found: reference.Found) -> None:
    section = reference.describe(found)
    assert section.startswith(f"## {found.path}\n\n    {found.path} ")
    assert "\n\nExit codes:\n\n    0  done\n" in section
    assert f"\n    {found.path}" in section.partition("\n\nExamples:\n")[2] or f"| {found.path}" in section
    for parameter in found.command.params:
        if isinstance(parameter, click.Option):
            assert all(name in section for name in parameter.opts)
            assert (parameter.help or "") in section
        else:
            assert parameter.make_metavar(found.context).replace("|", "\\|") in section


def test_every_command_is_linked_to_its_section() -> None:
    listed, described = reference.list_commands(), reference.describe_commands()
    for found in FOUND:
        assert f"(#{found.path.replace(' ', '-')})" in listed
        assert f"## {found.path}\n" in described


def test_reference_is_the_same_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    before = reference.list_commands(), reference.describe_commands(), reference.list_job_keys()
    for name, value in {"COLUMNS": "20", "GANDY_FOREMAN": "tcp://far:1", "GANDY_HOME": "/far", "HOME": "/far"}.items():
        monkeypatch.setenv(name, value)
    assert (reference.list_commands(), reference.describe_commands(), reference.list_job_keys()) == before


def test_option_tells_its_bounds_default_and_variable() -> None:
    kind = click.IntRange(1, 5)
    option = click.Option(["--level"], type=kind, default=3, show_default=True, envvar="LEVEL", help="How loud.")
    told = "How loud. From 1 to 5. Default: 3. If left out, `LEVEL` is read first."
    assert reference.explain_option(option) == told


def test_text_is_wrapped_except_where_it_must_not_be() -> None:
    text = "one\ntwo\n\n\b\nExamples:\n  first\n    second\n"
    assert reference.format_text(text) == ["one two", "Examples:", "    first\n      second"]


def test_every_key_of_a_job_file_has_a_type_and_a_meaning() -> None:
    rows = reference.list_job_keys().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == list(JobFile.__struct_encode_fields__)
    assert all(len(row.replace("\\|", "").split(" | ")) == 3 for row in rows)


def test_type_of_a_key_has_the_name_that_toml_gives_it() -> None:
    kind = msgspec.inspect.type_info(float | str | tuple[int, ...] | None)
    assert set(reference.name_type(kind).split(" or ")) == {"number", "string", "array of integers"}
