"""Write reports to strings, check JSON with schemas, and parse HTML pages strictly, unlike a browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any, TextIO, TypeVar

from jsonschema import Draft202012Validator

from conftest import REPOSITORY

_Report = TypeVar("_Report")


def written(write: Callable[[_Report, TextIO], None], report: _Report) -> str:
    """Return what a function writes about a report."""
    file = StringIO()
    write(report, file)
    return file.getvalue()


def schema_errors(schema: str | Path, data: Any) -> list[str]:
    """Return how data violates a schema in docs/reference, or another schema."""
    loaded = json.loads((REPOSITORY / "docs" / "reference" / schema).read_text())
    Draft202012Validator.check_schema(loaded)
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(loaded).iter_errors(data)]


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

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
