"""Only a home that was made to be temporary is removed."""

from pathlib import Path

from gandy.worker.temporary import MARK, mark_temporary, remove_temporary


def test_a_marked_home_is_removed_with_all_that_is_in_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "output").mkdir(parents=True)
    mark_temporary(home)
    remove_temporary(home)
    assert not home.exists()


def test_other_homes_stay(tmp_path: Path) -> None:
    remove_temporary(tmp_path)
    (tmp_path / MARK).write_text("")
    remove_temporary(tmp_path)
    (tmp_path / MARK).write_bytes(b"\xff")
    remove_temporary(tmp_path)
    assert tmp_path.exists()


def test_a_home_that_was_moved_stays(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    mark_temporary(tmp_path / "home")
    moved = (tmp_path / "home").rename(tmp_path / "kept")
    remove_temporary(moved)
    assert moved.exists()
