"""Edit YAML at the positions of its values, so that all other text stays the same: a model's config in YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

import yaml

from spark_bucketing.edits.file_edits import CannotEditError, in_yaml, line_end, same

_COMMENT = re.compile(r"(?:^|\s)(#.*)", re.MULTILINE)
_CANNOT_EDIT = "The YAML file cannot be edited without changes to other lines."
Keys = Sequence[Any]
"""The keys of mappings and the indexes of lists from the root of a file to a mapping."""
Edit = tuple[int, int, str]
"""The start and the end of a part of a text, and the new text of the part."""


class _Loader(yaml.SafeLoader):
    """A loader whose nodes have their own positions, also where they are aliases."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.get_event()  # type: ignore[no-untyped-call]
            return yaml.ScalarNode("alias", event.anchor, event.start_mark, event.end_mark)
        return super().compose_node(parent, index)


def set_keys(text: str, path: Keys, values: Mapping[str, object], quote: str | None = None) -> str:
    """Return the text of a YAML file after setting keys of the mapping at a path.

    Strings have the quotes of the old value, if any, or else this quote.

    Raises:
        CannotEditError: a comment or other data would change.
    """
    end = line_end(text)
    after = text if text.endswith("\n") else text + end
    data = before = yaml.safe_load(text)
    node = yaml.compose(after, _Loader)
    for step in path:
        data = data[step]
        node = node.value[step] if isinstance(node, yaml.SequenceNode) else _pairs(node).get(step, (0, None))[1]
    if not isinstance(node, yaml.MappingNode):
        raise CannotEditError(_CANNOT_EDIT)
    # Of two edits at one place, the first stays first.
    edits = sorted(_edits(after, node, data, values, quote), key=lambda edit: edit[0], reverse=True)
    for start, stop, written in edits:
        after = after[:start] + written + after[stop:]
    after = after if text.endswith("\n") else after.removesuffix(end)
    if not _is_expected(text, after, _with_keys(before, path, values)):
        raise CannotEditError(_CANNOT_EDIT)
    return after


def _is_expected(before: str, after: str, expected: Any) -> bool:
    """Return whether a text has the expected data and all comments."""
    was, new = ({comment.strip() for comment in _COMMENT.findall(text)} for text in (before, after))
    try:
        return was <= new and same(yaml.safe_load(after), expected)
    except yaml.YAMLError:
        return False


def _with_keys(data: Any, path: Keys, values: Mapping[str, object]) -> Any:
    """Return data after setting these keys. An alias of a changed part remains unchanged."""
    if not path:
        return {**data, **values}
    copied = data.copy()
    copied[path[0]] = _with_keys(data[path[0]], path[1:], values)
    return copied


def _edits(
    text: str, mapping: yaml.MappingNode, data: Mapping[str, Any], values: Mapping[str, object], quote: str | None
) -> Iterator[Edit]:
    """Yield the edits of a mapping. New keys come last."""
    end = line_end(text)
    pairs = _pairs(mapping)
    for name, (key, old) in pairs.items():
        if name not in values:
            continue
        value, stop = values[name], _end(text, old)
        if isinstance(old, yaml.SequenceNode) and not old.flow_style and isinstance(value, (list, tuple)) and value:
            kept = sum(1 for _ in takewhile(lambda pair: same(*pair), zip(data[name], value, strict=False)))
            start = _line(text, old.value[kept]) if kept < len(old.value) else _next_line(text, stop)
            items = _dumped(value[kept:]) if kept < len(value) else ()
            yield start, _next_line(text, stop), _indented(items, old, end)
        elif old.start_mark.line == key.end_mark.line and old.start_mark.index < stop:
            yield old.start_mark.index, stop, _in_style_of(old, value, quote)
        else:
            colon = text.find(":", key.end_mark.index, stop) + 1
            yield colon or stop, stop, f"{'' if colon else ':'} {_in_style_of(old, value, quote)}"
    new = {key: value for key, value in values.items() if key not in pairs}
    if mapping.flow_style:
        place = _end(text, mapping.value[-1][1]) if pairs else text.index("{", mapping.start_mark.index) + 1
        added = [f"{in_yaml(key)}: {_in_style_of(None, value, quote)}" for key, value in new.items()]
        yield place, place, ", ".join(["", *added] if pairs else added)
    else:
        last = _next_line(text, _end(text, mapping))
        lines = [line for pair in new.items() for line in _entry(*pair, quote)]
        yield last, last, _indented(lines, mapping.value[0][0], end)


def _entry(key: str, value: object, quote: str | None) -> list[str]:
    if isinstance(value, Mapping) and value:
        return [f"{in_yaml(key)}:", *(f"  {line}" for pair in value.items() for line in _entry(*pair, quote))]
    return [f"{in_yaml(key)}: {_in_style_of(None, value, quote)}"]


def _dumped(data: object) -> list[str]:
    """Format data as YAML with one entry per line."""
    text = yaml.safe_dump(data, default_flow_style=False, sort_keys=False, allow_unicode=True, width=float("inf"))
    return str(text).splitlines()


def _indented(lines: Sequence[str], beside: yaml.Node, end: str) -> str:
    """Return lines with the indentation of a node and these line endings."""
    return "".join(" " * beside.start_mark.column + line + end for line in lines)


def _pairs(node: Any) -> dict[str, tuple[Any, Any]]:
    """Return the keys and the values of a mapping, by key. Of equal keys, YAML reads the last."""
    return {str(key.value): (key, value) for key, value in node.value} if isinstance(node, yaml.MappingNode) else {}


def _in_style_of(old: Any, value: object, quote: str | None) -> str:
    """Format a value on one line. A string has the quotes of the old value, if any, or else this quote."""
    if not isinstance(value, str):
        return in_yaml(value)
    return in_yaml(value, old.style if isinstance(old, yaml.ScalarNode) and old.style in ("'", '"') else quote)


def _end(text: str, node: Any) -> int:
    """Return the position after the last character of a node."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(node, yaml.MappingNode) else last
    return len(text[: node.end_mark.index].rstrip())


def _line(text: str, node: yaml.Node) -> int:
    """Return the position of the line in which a node starts."""
    return text.rfind("\n", 0, node.start_mark.index) + 1


def _next_line(text: str, position: int) -> int:
    """Return the position after the end of a line."""
    return text.index("\n", position) + 1


def read_properties(text: str, model: str) -> tuple[int, Mapping[str, Any]] | None:
    """Return the number and the content of a model's entry in a properties file, or None if it has no entry."""
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        raise CannotEditError(f"The model's properties file is not valid YAML: {_first_line(error)}") from error
    entries = data.get("models") if isinstance(data, dict) else None
    # dbt ignores entries without a name.
    named = enumerate(entries) if isinstance(entries, list) else ()
    found = [(number, one) for number, one in named if isinstance(one, dict) and one.get("name") == model]
    if len(found) > 1:
        raise CannotEditError("The properties file defines the model twice.")
    if found and not isinstance(found[0][1].get("config"), dict | None):
        raise CannotEditError("The config in the model's YAML properties is not a mapping.")
    return found[0] if found else None


def edit_properties(text: str, model: str, wanted: Mapping[str, object]) -> str:
    """Return the text of a properties file after setting these keys in a model's existing config."""
    number, entry = read_properties(text, model) or (0, {})
    config = entry.get("config")
    if config is None:
        raise CannotEditError("The model's YAML properties have no config.")
    different = {key: value for key, value in wanted.items() if not same(config.get(key), value)}
    for key in different:
        if re.search("{{|{%", repr(config.get(key))):
            raise CannotEditError(f"The config in the model's YAML properties sets {key} with a Jinja expression.")
    return set_keys(text, ("models", number, "config"), different) if different else text


def _first_line(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    return f"{problem} (line {mark.line + 1})." if mark else f"{problem}."
