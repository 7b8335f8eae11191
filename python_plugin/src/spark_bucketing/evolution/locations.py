"""Folders as the metastore, Hadoop and Spark spell them."""

from __future__ import annotations

import re

_SLASHES = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):/(?!/)|^([A-Za-z][A-Za-z0-9+.-]*):///")


def plain(location: str) -> str:
    """A location of the metastore in one spelling: file:/x and file:///x are the same."""
    return _SLASHES.sub(lambda found: f"{found[1] or found[2]}:///", location).rstrip("/")
