"""How different two colours look to people with each kind of colour vision. Pure.

Dichromacy as in Machado, Oliveira and Fernandes (2009), at full severity; distances in OKLab (Ottosson, 2020).
"""

import math
from collections.abc import Sequence
from typing import Final

Vector = tuple[float, float, float]
Matrix = tuple[Vector, Vector, Vector]

VISIONS: Final[dict[str, Matrix]] = {
    "normal": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}

TO_CONES: Final[Matrix] = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
TO_LAB: Final[Matrix] = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)


def find_distances(one: int, other: int) -> dict[str, float]:
    """By kind of vision; 100 is between black and white. Colours are pixels of a canvas: red is the lowest byte."""
    return {name: _measure(_see(one, vision), _see(other, vision)) for name, vision in VISIONS.items()}


def _see(pixel: int, vision: Matrix) -> Vector:
    linear = tuple(_linearise(pixel >> shift & 0xFF) for shift in (0, 8, 16))
    seen = tuple(min(1.0, max(0.0, part)) for part in _multiply(vision, linear))
    cones = tuple(part ** (1 / 3) for part in _multiply(TO_CONES, seen))
    return _multiply(TO_LAB, cones)


def _linearise(byte: int) -> float:
    part = byte / 255
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def _multiply(matrix: Matrix, vector: Sequence[float]) -> Vector:
    first, second, third = (sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix)
    return first, second, third


def _measure(one: Vector, other: Vector) -> float:
    return 100 * math.dist(one, other)
