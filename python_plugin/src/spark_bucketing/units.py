"""Parse sizes in bytes."""

from __future__ import annotations

import re
from math import inf

_UNITS = {"": 0, "B": 0, "KIB": 1, "MIB": 2, "GIB": 3, "TIB": 4, "PIB": 5}
_SIZE = re.compile(r"(?P<number>[0-9]+\.?[0-9]*(E\+?[0-9]+)?|\.[0-9]+)(?P<unit>[A-Z]*)")


def parse_size(text: object) -> int:
    """Return the bytes of `2TiB`, `256 MiB` or a plain number.

    Raises:
        ValueError: the text is not a size.
    """
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    found = _SIZE.fullmatch(str(text).replace(" ", "").replace("_", "").upper())
    size = float(found["number"]) * 1024 ** _UNITS[found["unit"]] if found and found["unit"] in _UNITS else inf
    if size == inf:
        raise ValueError(f"{text!r} is not a size")
    return int(size)


def count(number: int, noun: str) -> str:
    """Return a number with its noun: 1 finding, 2 findings, 3 queries."""
    several = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else several}"
