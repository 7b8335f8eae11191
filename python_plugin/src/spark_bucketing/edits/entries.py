"""Edit comma-separated entries between brackets: arguments of a Jinja call, or pairs in a Jinja or YAML mapping."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from spark_bucketing.edits.literals import same


@dataclass(frozen=True)
class Entry:
    """A key and its value, given by their positions in the file."""

    key: str
    start: int  # position of the key
    value_start: int
    end: int  # position after the value


@dataclass(frozen=True)
class Entries:
    """The entries between an opening and a closing bracket."""

    text: str  # text of the whole file
    start: int  # position after the opening bracket
    end: int  # position of the closing bracket
    all: tuple[Entry, ...]

    @property
    def _between(self) -> str:
        """Return the text between two entries: the comma, and the spaces or the line ending next to it."""
        if len(self.all) > 1:
            return self.text[self.all[-2].end : self.all[-1].start]
        before = self.text[self.start : self.all[0].start] if self.all else ""
        return "," + before if "\n" in before else ", "

    def edited(
        self,
        wanted: Mapping[str, object],
        found: Mapping[str, object],
        value: Callable[[object, str], str],
        entry: Callable[[str, object], str],
    ) -> str:
        """Return the text of the whole file after setting these keys.

        The text between two entries that remain does not change. New entries are appended, with the same separator as
        between the last two entries.

        Args:
            wanted: new values by key; None removes the key.
            found: the current values, at least of the keys in `wanted`.
            value: formats a new value in the style of the text that it replaces.
            entry: formats a key and its value.
        """
        parts: list[tuple[str, str]] = []  # the text before an entry, and the entry
        before = self.start
        for one in self.all:
            separator = self.text[before : one.start]
            before = one.end
            if one.key in wanted and wanted[one.key] is None:
                continue
            text = self.text[one.start : one.end]
            if one.key in wanted and not same(wanted[one.key], found[one.key]):
                old = self.text[one.value_start : one.end]
                text = self.text[one.start : one.value_start] + value(wanted[one.key], old)
            parts.append((separator, text))
        there = {one.key for one in self.all}
        new = [key for key, one in wanted.items() if one is not None and key not in there]
        parts += [(self._between, entry(key, wanted[key])) for key in new]
        first = self.all[0].start if self.all else self.end
        tail = self.text[self.all[-1].end : self.end] if self.all else ""
        if not parts:
            return self.text[: self.start] + self.text[self.end :]
        body = "".join(part if number == 0 else separator + part for number, (separator, part) in enumerate(parts))
        return self.text[:first] + body + tail + self.text[self.end :]
