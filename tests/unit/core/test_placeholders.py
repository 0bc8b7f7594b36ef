"""Where `{line}` may stand, and what becomes of it."""

import re

import pytest

from gandy.core.model import Command
from gandy.core.placeholders import check_command, fill, needs_filling
from gandy.errors import ConfigError
from gandy.limits import MAX_SHELL_LINE

GOOD: list[Command] = [
    "wc -w {line}",
    "wc -c < {line}",
    "cp {line} $HOME/out/{line}.bak",
    "cp {line} ${OUT}/x",
    "ls {line}/*.txt | sed s/a/b/ > {line}.list",
    "sed -n s/a/b/p {line}",
    "sed -e s/a/b/ {line}",
    "awk '{print $1}' {line}",
    "sh -c 'cat \"$1\"' sh {line}",
    "sh ./{line}",
    "bash -x -- {line}",
    "python3.11 train.py --input {line}",
    "perl -pi -e 's/a/b/' {line}",
    "for f in {line}; do wc $f; done",
    "echo $(dirname {line})/x",
    "echo '${line}' $GANDY_LINE",
    "sudo -u www cat {line}",
    "ssh host true; cat {line}",
    "flock lock cat {line}",
    "su bob -c 'cat \"$1\"' name {line}",
    "echo 1 # {line}",
    ("optipng", "{line}"),
    ("echo", "{task}:{line}"),
    ("convert", "{line}", "-resize", "200x200", "small/{line}"),
    ("sh", "-c", 'cat "$1"', "sh", "{line}"),
    ("docker", "exec", "box", "cat", "{line}"),
    ("env", "-i", "sh", "-c", 'cat "$1"', "sh", "{line}"),
    "gdb -batch -ex run {line}",
    "vim -es -c wq {line}",
    "tar -C out -xf {line}",
    "tar --exclude={line} -cf x.tar .",
    "rsync -av --exclude={line} a b",
    "ghc -o main {line}",
    "deno run job.ts {line}",
    "octave job.m {line}",
    "python train.py --evaluate={line}",
    "deno run job.ts evaluate-{line}",
]

BAD: list[Command] = [
    'rm -f "{line}"',
    "echo '{line}'",
    "echo 'it is '{line}",
    "sh -c {line}",
    "sh -c cat\\ {line}",
    'sh -c "cat "{line}""',
    "$SHELL -c {line}",
    "env -i /bin/sh -c 'rm -rf keep/{line}'",
    "env -i /bin/sh -c keep/{line}",
    "bash -o pipefail -c {line}",
    "bash -o pipefail -c -x {line}",
    "sh -ec {line}",
    "sh {line}",
    "python {line}",
    "python -c {line}",
    "perl -e 1 -e {line}",
    "perl -e 1 -e{line}",
    "sed s/a/{line}/ x",
    "sed -e s/a/b/ -e {line}",
    "awk {line}",
    "eval {line}",
    "ssh host cat {line}",
    "flock lock -c {line}",
    "flock lock sh -c {line}",
    "su -c {line} bob",
    "make X={line}",
    ("sh", "-c", "cat {line}"),
    ("env", "-i", "sh", "-c", "rm -rf keep/{line}"),
    ("sudo", "bash", "-c", "{line}"),
    ("docker", "exec", "box", "sh", "-c", "cat '{line}'"),
    ("ssh", "host", "cat", "{line}"),
    ("unknown", "cat {line}"),
    ("unknown", "$({line})"),
    ("xargs", "-I%", "sh", "-c", "cat % {line}"),
    "gdb -ex {line}",
    "gdb -batch --eval-command={line} x",
    ("lldb", "-o", "{line}", "x"),
    "nix-shell -p hello --run {line}",
    "nix-shell --command {line}",
    "vim -c {line} x",
    "nvim +{line} x",
    "vi --cmd {line}",
    "emacs --batch --eval {line}",
    "emacs --batch --eval={line}",
    "emacsclient -e {line}",
    "octave --eval {line}",
    "matlab -batch {line}",
    "deno eval {line}",
    "ghc -e {line}",
    "rsync -ae {line} a b",
    "rsync --rsh={line} a b",
    "tar --to-command={line} -xf x",
    "tar -cf x --checkpoint-action {line} .",
    "tar -I {line} -xf x",
    "/usr/bin/tar --use-compress-program={line} -xf x",
    "nice vim sh -c {line}",
    "echo {line} " + "x" * MAX_SHELL_LINE,
]


@pytest.mark.parametrize("command", GOOD, ids=str)
def test_line_may_be_a_word_or_a_part_of_one(command: Command) -> None:
    check_command(command, has_lines=True)


@pytest.mark.parametrize("command", BAD, ids=lambda command: str(command)[:60])
def test_line_may_not_stand_where_it_could_be_code(command: Command) -> None:
    with pytest.raises(ConfigError, match="GANDY_LINE"):
        check_command(command, has_lines=True)
    with pytest.raises(ConfigError):  # a worker does not trust its foreman's store either
        fill(command, 1, "a")


def test_words_say_what_to_write_instead() -> None:
    with pytest.raises(ConfigError, match=r"""write sh -c 'cat "\$1"' sh \{line\}"""):
        check_command(("sh", "-c", "{line}"), has_lines=True)
    with pytest.raises(ConfigError, match=re.escape("write ./{line} or -- {line}")):
        check_command("python {line}", has_lines=True)


def test_line_needs_a_job_with_lines() -> None:
    for command in ("echo {line}", ("echo", "{line}")):
        with pytest.raises(ConfigError, match="has no lines"):
            check_command(command, has_lines=False)
    for command in ("echo ${line} {task}", "echo \\{line}", ("echo", "{lines}")):
        check_command(command, has_lines=False)


def test_shell_line_takes_the_line_out_of_a_variable() -> None:
    assert fill("cat {line}.{task} > {line}", 7, "$(x)") == 'cat "${GANDY_LINE?}".7 > "${GANDY_LINE?}"'
    assert not needs_filling("cat {line}")
    assert needs_filling("cat {line} {task}")


def test_argument_is_filled_in_one_pass() -> None:
    assert fill(("a{line}b", "{task}", "${line} \\{task}"), 3, "{task}") == ("a{task}b", "3", "${line} \\{task}")
    assert needs_filling(("a", "{line}"))
    assert not needs_filling(("a", "${task}"))


def test_without_a_line_only_the_task_is_filled() -> None:
    assert fill("x=${task} {line} {task}", 2, None) == "x=${task} {line} 2"
