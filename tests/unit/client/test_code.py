"""What a client tells workers about the code of its program."""

import os
import sys
import sysconfig
from pathlib import Path

import pytest

from gandy.client.code import describe_code


def test_folders_that_the_program_added_are_named_and_those_of_python_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = tmp_path / "program" / "main.py"
    installed = [sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), "/opt/lib/site-packages"]
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(main), raising=False)
    monkeypatch.setattr(sys, "path", [*installed, str(main.parent), "", str(tmp_path / "src"), object(), "lib"])
    expected = [str(main.parent), str(tmp_path / "src"), str(Path("lib").absolute())]
    assert describe_code()["GANDY_PATH"].split(os.pathsep) == expected
