"""Folders as the metastore, Hadoop and Spark spell them."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_FILE_SYSTEM = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")
_SLASHES = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):/(?!/)|^([A-Za-z][A-Za-z0-9+.-]*):///")


def plain(location: str) -> str:
    """A location of the metastore in one spelling: file:/x and file:///x are the same."""
    return _SLASHES.sub(lambda found: f"{found[1] or found[2]}:///", location).rstrip("/")


def address(url: str) -> str:
    """The path of an encoded URL in one spelling: file:/x and file:///x are the same."""
    parts = urlsplit(url)
    return unquote(f"{parts.scheme}://{parts.netloc}{parts.path}").rstrip("/")


def parent(folder: str) -> str:
    """The folder above, with the same spelling; empty for a root."""
    head, _, tail = folder.rstrip("/").rpartition("/")
    return head if tail and head and not _SCHEME.fullmatch(head) and not head.endswith("/") else ""


def base_name(folder: str) -> str:
    """The last part of a path."""
    return folder.rstrip("/").rpartition("/")[2]


def is_within(inner: str, outer: str) -> bool:
    """Whether an address is another one, or below it."""
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


def path(location: str) -> str:
    """A location without its file system, which not every one names."""
    found = _FILE_SYSTEM.match(location)
    return location[found.end() if found else 0 :].rstrip("/")
