"""What a shell line is read as, and where gandy is not sure."""

import pytest

from gandy.core.shell_text import UnclearShellLine, read_commands


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("", []),
        ("wc -w {line}", [["wc", "-w", "{line}"]]),
        ("a 'b c'\"d e\"f\\ g", [["a", "b cd ef g"]]),
        ("a b; c d | e & f\ng", [["a", "b"], ["c", "d"], ["e"], ["f"], ["g"]]),
        ("a < b 2> c >> d e", [["a", "e"]]),
        ("a 2>&1 b >| c", [["a", "b"]]),
        ("(a b; c)", [["a", "b"], ["c"]]),
        ("a $(b {line} c) d", [["b", "{line}", "c"], ["a", "$()", "d"]]),
        ("a x$(b)y", [["b"], ["a", "x$()y"]]),
        ("case a in b) c;; esac", [["case", "a", "in", "b"], ["c"], ["esac"]]),
        ("a # b 'c\nd a#b", [["a"], ["d", "a#b"]]),
        ("a \\\n  b", [["a", "b"]]),
        ("echo $x ${y} ${z%.*} $1 $@ a$", [["echo", "$x", "${y}", "${z%.*}", "$1", "$@", "a$"]]),
        ('echo "$x ${y} \\" $"', [["echo", '$x ${y} \\" $']]),
        ("awk '{print}' {x}", [["awk", "{print}", "{x}"]]),
    ],
)
def test_words_and_commands_are_those_of_a_shell(text: str, commands: list[list[str]]) -> None:
    assert read_commands(text) == commands


@pytest.mark.parametrize(
    "text",
    [
        'echo "{line}"',
        "echo '{line}'",
        "echo 'a {line} b'",
        'echo "$(echo " {line} ")"',
        'echo "`date`" {line}',
        "echo `date` {line}",
        "cat << E\n{line}\nE",
        "cat 0<<E\n{line}\nE",
        "echo $(( {line} ))",
        "echo ${x:-{line}}",
        'echo ${x:-"a"} {line}',
        "echo $'a' {line}",
        "echo 'open {line}",
        "echo $(case x in x) echo {line};; esac)",
        "ec\\\nho {line}",
        'echo "a\\\nb" {line}',
        'echo "$\\\n(date)" {line}',
        "echo a\N{NO-BREAK SPACE}b {line}",
    ],
)
def test_what_shells_may_read_in_another_way_is_unclear(text: str) -> None:
    with pytest.raises(UnclearShellLine):
        read_commands(text)
