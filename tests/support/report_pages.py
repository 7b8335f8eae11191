"""Write reports to strings, and parse HTML pages strictly, without the error recovery of a browser."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from io import StringIO
from typing import TextIO, TypeVar

_Report = TypeVar("_Report")


def written(write: Callable[[_Report, TextIO], None], report: _Report) -> str:
    """Return what a function writes about a report."""
    file = StringIO()
    write(report, file)
    return file.getvalue()


class Page(HTMLParser):
    """Counts tags, and checks that they are closed in the right order."""

    VOID = ("meta", "br", "hr", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
