"""Entries between brackets, with commas between them: arguments of a call, pairs of a mapping, in Jinja or in YAML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from spark_bucketing.edits.literals import same


@dataclass(frozen=True)
class Entry:
    """A key and its value, by their positions in the file."""

    key: str
    start: int  # of the key
    value_start: int
    end: int  # of the value


@dataclass(frozen=True)
class Entries:
    """What is between two brackets of a text."""

    text: str  # of the whole file
    start: int  # after the bracket that opens
    end: int  # before the one that closes
    all: tuple[Entry, ...]

    @property
    def _between(self) -> str:
        """What stands between two entries: the comma, and the spaces or the line end at it."""
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
        """The text of the whole file with these keys set.

        What is between two entries that stay remains as it is; new ones come last, in the way of the last two.

        Args:
            wanted: values by keys; None takes a key away.
            found: the values that are there, of these keys at least.
            value: writes a value in the place of this text.
            entry: writes a key and its value.
        """
        parts: list[tuple[str, str]] = []  # what stands before an entry, and the entry
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
