"""The tag of workers with this version of Python: pickled code of one minor version runs in no other."""

import sys
from typing import Final

PYTHON_TAG: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
