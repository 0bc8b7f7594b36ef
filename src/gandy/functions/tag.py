"""The tag of workers with this version of Python: pickled code runs only in the minor version that pickled it."""

import sys
from typing import Final

PYTHON_TAG: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
