"""`{task}` and `{line}` in a command: where they may stand, and what a worker runs instead.

A line is data, whatever is in it. No shell ever reads it as part of its text: in a shell line it comes out of a
variable, in an argument vector it is an argument or a part of one. Where the program is known to read that argument as
code again, as after `sh -c`, `{line}` is refused. Other braces are left alone.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from gandy.core.model import Command
from gandy.core.shell_text import LINE, UnclearShellLine, read_commands
from gandy.errors import ConfigError
from gandy.limits import MAX_SHELL_LINE

# The line from the variable, quoted: no shell reads it as code, splits it or expands it to names of files. If something
# has unset the variable, the shell stops instead of going on without the line.
IN_SHELL: Final = '"${GANDY_LINE?}"'
TASK: Final = re.compile(r"(?<![$\\])\{task\}")
EITHER: Final = re.compile(r"(?<![$\\])\{(?:task|line)\}")


def _list_names(names: str) -> frozenset[str]:
    return frozenset(names.split())


SHELLS: Final = _list_names("sh ash bash dash ksh mksh zsh fish csh tcsh yash rbash rksh pwsh $SHELL ${SHELL}")

# Their first operand is a file, unless an option brings code.
SCRIPTED: Final = SHELLS | _list_names(
    "python pypy ipython perl ruby node nodejs deno bun php lua luajit R Rscript julia tclsh expect osascript"
)

# Their first operand is code, or follows the option that brings it.
PROGRAMMED: Final = _list_names("awk gawk mawk nawk sed gsed jq yq")

# They join their arguments, or read any of them, as a line for a shell.
JOINING: Final = _list_names("eval ssh autossh mosh rsh remsh dsh pdsh clush watch parallel sem trap alias make gmake")

# They run a program with its arguments, or, after an option, code.
LAUNCHERS: Final = _list_names("su runuser sg flock script")

VERSION: Final = re.compile(r"[-.\d]+$")  # python3.11
CODE_OPTION: Final = r"-\w*[ceE]|--?(?:[Cc]ommand|eval|expression|execute)"

# The same for common programs with other options. No list of them can be complete.
VIM: Final = r"-c|--cmd|\+"
EMACS: Final = r"-e|--?(?:eval|execute)"
TAR: Final = (
    r"-\w*[IF]|--(?:to-command|checkpoint-action|use-compress-program|info-script|new-volume-script|rmt-command"
    r"|rsh-command)"
)
CODE_OPTIONS: Final = {
    "deno": rf"{CODE_OPTION}|eval",
    **dict.fromkeys(("gdb", "rust-gdb"), r"--?(?:init-)?(?:ex|iex|eval-command)"),
    **dict.fromkeys(("lldb", "rust-lldb"), r"-[oOk]|--one-line[\w-]*"),
    **dict.fromkeys(("vim", "vi", "view", "vimdiff", "gvim", "nvim", "ex"), VIM),
    **dict.fromkeys(("emacs", "emacsclient"), EMACS),
    **dict.fromkeys(("octave", "octave-cli"), "--eval"),
    **dict.fromkeys(("tar", "gtar", "bsdtar"), TAR),
    **dict.fromkeys(("ghc", "ghci", "runghc"), r"-e"),
    "matlab": r"-(?:batch|r)",
    "nix-shell": r"--(?:run|command)",
    "rsync": r"-\w*e|--rsh|--rsync-path",
}
OPTIONED: Final = frozenset(CODE_OPTIONS) - SCRIPTED

# Beside {line} in one word, these make it look like code of some language; $name is the shell's own.
CODE_SIGN: Final = re.compile(r"[\s'\"\\`;&|<>()]|\$(?!\w+|\{\w+\}|\(\))")


def check_command(command: Command, has_lines: bool) -> None:
    """See that `{line}` in a command means the task's line, as one argument and never as code.

    Raises: ConfigError: it does not. The text says what to write instead.
    """
    if not has_lines and any(LINE.search(text) for text in _list_texts(command)):
        raise ConfigError("the command has {line}, and the job has no lines: --each-line FILE, or lines= in Python")
    _parse(command)


def needs_filling(command: Command) -> bool:
    """True if the arguments of each task are its own."""
    places = TASK if isinstance(command, str) else EITHER
    return any(map(places.search, _list_texts(command)))


def fill(command: Command, task: int, line: str | None) -> Command:
    """The command of one task. A shell line takes its line from GANDY_LINE.

    Raises: ConfigError.
    """
    if line is None:  # then {line} means nothing
        return _replace(command, TASK, {"{task}": str(task)})
    filling = {"{task}": str(task), "{line}": line}
    # In one pass, so that a line which contains {task} stays as it is.
    return _replace(_parse_once(command), TASK if isinstance(command, str) else EITHER, filling)


def _parse(command: Command) -> Command:
    """The command with the variable in place of `{line}`, if it is a shell line.

    Raises: ConfigError.
    """
    try:
        if not isinstance(command, str):
            _check_words(command)
            return command
        if LINE.search(command) is None:
            return command
        if len(command) > MAX_SHELL_LINE:
            raise UnclearShellLine("the line is too long for any shell")
        for words in read_commands(command):
            _check_words(words)
        return LINE.sub(lambda _place: IN_SHELL, command)
    except UnclearShellLine as error:
        raise ConfigError(f'{error}. Or write a shell line with "$GANDY_LINE", in double quotes') from None


_parse_once = lru_cache(maxsize=64)(_parse)  # a worker needs it for each task, and has few jobs at a time


class _Program:
    """How one program takes its arguments, after those that were read."""

    def __init__(self, name: str, kind: frozenset[str]) -> None:
        self.name = name
        self._kind = kind
        self._code_option = CODE_OPTIONS.get(name, CODE_OPTION)
        self._wants_code = False  # an option said that the next operand is code
        self._has_operand = False
        self._options_ended = False

    @property
    def takes_any_operand(self) -> bool:
        """Also a program with code of its own."""
        return self._kind in (LAUNCHERS, OPTIONED)

    def read(self, word: str) -> None:
        if word == "--":
            self._options_ended = True
        elif re.fullmatch(self._code_option, word):
            self._wants_code = True
        elif not word.startswith(("-", "+")):
            self._has_operand = True
            self._wants_code = False

    def check(self, word: str) -> None:
        """Raises: UnclearShellLine: the line would be read as code."""
        may_be_option = word.startswith(("{line}", "-", "+"))
        if self._kind is JOINING:
            raise UnclearShellLine(f"{self.name} reads its arguments as code, and would run what the line says")
        if self._wants_code or self._has_glued_code(word):
            raise UnclearShellLine(self._explain_code())
        if self._has_operand or self.takes_any_operand:
            return
        if self._kind is PROGRAMMED:
            raise UnclearShellLine(f"{self.name} reads its first argument as code, and would run what the line says")
        if may_be_option and not self._options_ended:
            raise UnclearShellLine(
                f"{self.name} takes options here, and a line that begins with '-' would be one: "
                f"write ./{{line}} or -- {{line}}"
            )

    def _has_glued_code(self, word: str) -> bool:
        """-eCODE, --eval=CODE or +CODE."""
        option = f"(?:{self._code_option})=" if word.startswith("--") else self._code_option
        return word.startswith(("-", "+")) and re.match(option, word) is not None

    def _explain_code(self) -> str:
        problem = f"{self.name} would run the line as code"
        return f"{problem}: write {self.name} -c 'cat \"$1\"' {self.name} {{line}}" if self.name in SHELLS else problem


def _check_words(words: Iterable[str]) -> None:
    """Of one program and its arguments. Raises: UnclearShellLine."""
    program: _Program | None = None
    for word in words:
        if LINE.search(word):
            if CODE_SIGN.search(LINE.sub("", word)):
                raise UnclearShellLine(f"some programs would run {word!r} as code: let {{line}} be a word of its own")
            if program is not None:
                program.check(word)
        found = _find_program(word) if program is None or program.takes_any_operand else None
        if found is not None:
            program = found
        elif program is not None:
            program.read(word)


def _find_program(word: str) -> _Program | None:
    name = VERSION.sub("", word.rpartition("/")[2])
    for kind in (SCRIPTED, PROGRAMMED, JOINING, LAUNCHERS, OPTIONED):
        if name in kind:
            return _Program(name, kind)
    return None


def _replace(command: Command, places: re.Pattern[str], filling: dict[str, str]) -> Command:
    if isinstance(command, str):
        return places.sub(lambda place: filling[place[0]], command)
    return tuple(places.sub(lambda place: filling[place[0]], argument) for argument in command)


def _list_texts(command: Command) -> tuple[str, ...]:
    return (command,) if isinstance(command, str) else command
