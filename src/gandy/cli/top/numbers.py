"""Numbers as short texts of columns: rates, times left, parts of a whole, microseconds. Pure."""

from gandy.terminal.people import format_seconds


def format_rate(rate: float) -> str:
    """Things per second, to two digits at least."""
    if rate >= 10 or not rate:
        return f"{rate:,.0f}/s"
    return f"{rate:.1f}/s" if rate >= 0.1 else f"{rate * 60:.1f}/min"


def format_left(seconds: float | None) -> str:
    return "" if seconds is None else format_seconds(seconds)


def format_part(part: int, whole: int) -> str:
    """Percent, rounded down: all is 100 % only when all is done."""
    return f"{100 * part // whole} %" if whole else ""


def format_us(microseconds: float | None) -> str:
    """A short duration in a unit that suits it."""
    if microseconds is None:
        return "-"
    for unit, name in ((1e6, "s"), (1e3, "ms")):
        if microseconds >= unit:
            value = microseconds / unit
            return format_seconds(value) if name == "s" and value >= 10 else f"{value:.3g} {name}"
    return f"{microseconds:.0f} µs"
