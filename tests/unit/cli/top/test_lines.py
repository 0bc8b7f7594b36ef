"""Lines that fit, whatever is in them."""

import pytest

from gandy.cli.top.lines import (
    STYLES,
    Column,
    Styled,
    choose,
    cut,
    draw_fill,
    draw_spark,
    encode_line,
    find_window,
    get_text,
    join,
    lay_out,
    make_line,
    measure,
    pad,
    share_out,
)


def test_text_cannot_control_the_terminal() -> None:
    assert get_text(make_line("a\x1b[2Jb", Styled("\x07", "bad"))) == "a\\x1b[2Jb\\x07"


@pytest.mark.parametrize("width", range(12))
def test_cut_line_fits(width: int) -> None:
    line = make_line("ab", Styled("漢字かな", "bold"), "cd")
    assert measure(cut(line, width)) <= width
    assert measure(pad(line, width)) == width


def test_line_that_fits_is_not_cut() -> None:
    line = make_line("ab", Styled("cd", "bold"))
    assert cut(line, 4) == line
    assert get_text(cut(line, 3)) == "ab…"


def test_right_text_is_kept() -> None:
    assert get_text(join(make_line("left"), make_line("right"), 12)) == "left   right"
    assert get_text(join(make_line("left"), make_line("right"), 7)) == "l…right"


def test_chosen_line_fills_the_width() -> None:
    assert choose(make_line("a", Styled("b", "bad")), 4) == (
        Styled("a", "chosen"),
        Styled("b", "chosen"),
        Styled("  ", "chosen"),
    )


def test_colours_are_left_out_and_attributes_stay() -> None:
    line = make_line("a", Styled("b", "bad"), Styled("c", "finished"))
    assert encode_line(line, has_colours=True) == "a\x1b[1;31mb\x1b[0m\x1b[94mc\x1b[0m"
    assert encode_line(line, has_colours=False) == "a\x1b[1mb\x1b[0mc"


def test_terminal_without_unicode_gets_ascii() -> None:
    assert encode_line(make_line("▁█ é…"), has_colours=False, is_ascii=True) == "_# ?~"


def test_states_that_look_alike_without_colours_differ_in_marks() -> None:
    assert STYLES["failed"][0] != STYLES["finished"][0]


def test_columns_are_as_wide_as_they_must() -> None:
    columns = (Column("name"), Column("n", 4, is_number=True), Column("rest"))
    lines = lay_out(columns, [("a", "1", "x"), (Styled("longer", "bad"), "22", "long text")], 24)
    assert [get_text(line) for line in lines] == [
        "NAME       N  REST     ",
        "a          1  x        ",
        "longer    22  long text",
    ]


def test_last_column_is_cut() -> None:
    columns = (Column("name"), Column("rest"))
    assert [get_text(line) for line in lay_out(columns, [("a", "x" * 30)], 12)] == ["NAME  REST …", "a     xxxxx…"]


def test_chosen_row_is_in_the_window() -> None:
    assert find_window(3, 2, 10) == range(3)
    assert find_window(100, 0, 10) == range(10)
    assert find_window(100, 50, 10) == range(45, 55)
    assert find_window(100, 99, 10) == range(90, 100)


def test_spark_shows_the_last_values() -> None:
    assert draw_spark([9.0, 0.0, 1.0, 2.0], 3) == "▁▅█"
    assert draw_spark([1.0], 3) == "  █"
    assert draw_spark([], 3) == "   "
    assert draw_spark([0.0, 0.0], 2) == "▁▁"
    assert draw_spark([1.0], 0) == ""


def test_fill_shows_eighths() -> None:
    assert draw_fill(0, 4, 4) == "    "
    assert draw_fill(1, 4, 2) == "▌ "
    assert draw_fill(4, 4, 2) == "██"
    assert draw_fill(9, 4, 2) == "██"
    assert draw_fill(1, 0, 2) == "  "


@pytest.mark.parametrize(
    ("counts", "width", "cells"),
    [
        ((0, 0), 5, [0, 0]),
        ((1, 1), 4, [2, 2]),
        ((999_999, 1), 10, [9, 1]),
        ((1, 999_999, 0), 10, [1, 9, 0]),
        ((1, 1, 1), 2, None),
        ((5, 3, 2, 90), 10, None),
        ((1,), 0, [0]),
    ],
)
def test_cells_are_shared_out(counts: tuple[int, ...], width: int, cells: list[int] | None) -> None:
    found = share_out(counts, width)
    assert sum(found) == (width if sum(counts) else 0)
    assert all(cell >= 0 for cell in found)
    assert cells is None or found == cells
