"""Numbers of bytes as people write them."""

from __future__ import annotations

_UNITS = {"": 0, "B": 0, "KIB": 1, "MIB": 2, "GIB": 3, "TIB": 4, "PIB": 5}


def parse_size(text: object) -> int:
    """Bytes of `2TiB`, `256 MiB` or a plain number.

    Raises:
        ValueError: it is none of these.
    """
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    compact = str(text).replace(" ", "").replace("_", "").upper()
    number = compact.rstrip("BIKMGTP")
    unit = compact[len(number) :]
    if unit not in _UNITS or not number or float(number) < 0:
        raise ValueError(f"{text!r} is no size")
    return int(float(number) * 1024 ** _UNITS[unit])
