"""Parse and format sizes in bytes, and format counts."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: A number of bytes with an optional unit. Its groups are the number and the prefix of the unit.
SIZE_PATTERN = r" *([0-9]{1,15}(?:[.][0-9]+)?) *(?:([KMGTP])iB|B)? *$"
_NAMES = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def parse_size(text: object) -> int:
    """Return the number of bytes in a size such as `2TiB`, `256 MiB`, or a number without a unit."""
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    found = re.match(SIZE_PATTERN, text, re.IGNORECASE) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f"{text!r} is not a size")
    return int(float(found[1]) * 1024 ** " KMGTP".index((found[2] or " ").upper()))


def count(number: int, noun: str) -> str:
    """Format a number with its noun in singular or plural: 1 finding, 2 findings, 3 queries."""
    several = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else several}"


def some(names: Sequence[str], most: int = 5) -> str:
    """List the first names, and say how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers in a Spark version. For a vendor's version, only the leading numbers count."""
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def has_union_bug(version: tuple[int, ...]) -> bool:
    """Return whether Spark returns wrong rows for a grouped union of bucketed tables (SPARK-59141)."""
    return (4, 1) <= version < (4, 1, 4) or (4, 2) <= version < (4, 2, 1)


def size(number: int) -> str:
    """Format a number of bytes with a unit, such as 1.2 TiB."""
    value, unit = float(number), 0
    while value >= 1024 and unit < len(_NAMES) - 1:
        value, unit = value / 1024, unit + 1
    return f"{number:,} {_NAMES[0]}" if unit == 0 else f"{value:,.1f} {_NAMES[unit]}"
