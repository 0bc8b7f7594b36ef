"""The tag of workers that fit: code that is pickled in one minor version of Python runs in no other."""

import sys
from typing import Final

PYTHON_TAG: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
