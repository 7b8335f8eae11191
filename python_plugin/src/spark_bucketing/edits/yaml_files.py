"""Edit YAML files with ruamel, which keeps comments, so that only the edited lines change."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.util import load_yaml_guess_indent

from spark_bucketing.edits.file_edits import line_end

_BOM = "\ufeff"
# The indentation of a key, which may be the first key of an item.
_KEY = re.compile(r"([ -]*)")


def edited_yaml(text: str, edit: Callable[[Any], None]) -> str | None:
    """Return the text of a YAML file after an edit of its data, or None if other lines would have to change."""
    plain = text.removeprefix(_BOM).replace("\r\n", "\n")
    yaml = _yaml(plain)
    data = yaml.load(plain)
    before = _lines(yaml, data)
    edit(data)
    merged = _merged(plain.splitlines(), before, _lines(yaml, data))
    if merged is None:
        return None
    end = line_end(text)
    return text[: text.startswith(_BOM)] + end.join(merged) + (end if plain.endswith("\n") or not plain else "")


def _merged(lines: list[str], before: list[str], after: list[str]) -> list[str] | None:
    """Apply the changes between two versions to lines that differ from the first version only in their format."""
    at: dict[int, int] = {-1: -1, len(before): len(lines)}
    for kind, start, stop, first, last in SequenceMatcher(None, before, lines, autojunk=False).get_opcodes():
        if kind == "equal" or stop - start == last - first:
            at |= zip(range(start, stop), range(first, last), strict=True)
    merged, done = [], 0
    for kind, start, stop, first, last in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        begin, end = at.get(start - 1, -2) + 1, at.get(stop, -1)
        if begin < done or end < begin or (start < stop and end - begin != stop - start):
            return None
        merged += lines[done:begin] + after[first:last]
        done = end
    return merged + lines[done:]


def _yaml(text: str) -> YAML:
    """Return a parser that writes in the style of a text."""
    _, indent, offset = load_yaml_guess_indent(text) if text.strip() else (None, None, None)
    sequence = indent or 4
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    steps = [
        len(_KEY.match(line)[1]) - len(_KEY.match(above)[1])  # type: ignore[index]
        for above, line in pairwise(lines)
        if re.search(r":\s*(#.*)?$", above) and not line.lstrip().startswith("-")
    ]
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 10_000
    yaml.indent(
        mapping=min((step for step in steps if step > 0), default=2),
        sequence=sequence,
        offset=offset if offset is not None else sequence - 2,
    )
    return yaml


def _lines(yaml: YAML, data: Any) -> list[str]:
    stream = io.StringIO()
    yaml.dump(data, stream)
    return stream.getvalue().splitlines()
