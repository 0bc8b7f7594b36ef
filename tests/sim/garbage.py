"""What a long run of seeds does about garbage: each crew is one large knot of objects, and is freed when it has ended.

Python would look through all modules again and again while crews run. No simulated process depends on when that is.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def freed_at_the_end() -> Iterator[None]:
    """Free what is left of this block as soon as it is over, and look at nothing older."""
    was_enabled = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        gc.unfreeze()
        if was_enabled:
            gc.enable()
