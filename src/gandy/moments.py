"""Moments of the three clocks, as three types that the type checker keeps apart. At run time each is a float.

`Monotonic`: seconds of a clock that never steps, for everything that is timed: silence, grace, pauses, timeouts.
`Wall`: the time of day in seconds since 1970, for what people read and the store keeps. It may step at any moment.
`Shared`: the time that an ensemble agrees on, for what begins on several machines at the same instant.

Durations are plain floats: the difference of two moments of one clock, and what is added to a moment. Users pass and
get their times as floats too; the public classes convert them. `moments.pyi` says what each type allows.
"""

from math import inf
from typing import Final

Monotonic = Wall = Shared = float

NEVER: Final = Monotonic(inf)  # later than every moment
LONG_AGO: Final = Monotonic(-inf)  # earlier than every moment
