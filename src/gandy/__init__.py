"""gandy makes a crew out of machines: a foreman hands work to workers, and everyone keeps the same time."""

__version__ = "0.1.0"
