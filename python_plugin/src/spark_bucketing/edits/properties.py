"""Edit keys of a model's config in a YAML properties file.

PyYAML locates the config, and ruamel.yaml edits it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import yaml
from ruamel.yaml.comments import CommentedSeq
from ruamel.yaml.scalarstring import ScalarString

from spark_bucketing.edits.config_changes import CannotEditError
from spark_bucketing.edits.literals import in_yaml, line_end, same
from spark_bucketing.edits.round_trip import dumped, loaded

_COMMENT = re.compile(r"(^|\s)#")


@dataclass(frozen=True)
class Properties:
    """A model's entry in a properties file."""

    text: str  # text of the file
    tree: yaml.MappingNode  # the node of the model
    config: yaml.MappingNode | None  # the node of its config; None if it has no config
    values: Mapping[str, object]  # the config
    version_keys: frozenset[str]  # the keys that the config of any version of the model sets


def read_properties(text: str, model: str) -> Properties | None:
    """Find a model's entry in a file, or return None if the file has no entry for it.

    Raises:
        CannotEditError: the file cannot be read, or has two entries for the model.
    """
    data, tree = _loaded(text), yaml.compose(text, Loader=yaml.SafeLoader)
    found = [number for number, entry in enumerate(_models(data)) if entry.get("name") == model]
    if not found:
        return None
    if len(found) > 1:
        raise CannotEditError("The properties file defines the model twice.")
    entries = _child(tree, "models")
    node = entries.value[found[0]] if isinstance(entries, yaml.SequenceNode) else None
    if not isinstance(node, yaml.MappingNode):
        raise CannotEditError("The model cannot be located in its properties file.")
    config = _child(node, "config")
    entry = _models(data)[found[0]]
    values = entry.get("config") or {}
    if not isinstance(values, dict):
        raise CannotEditError("The config in the model's YAML properties is not a mapping.")
    versions = [one for one in entry.get("versions") or () if isinstance(one, dict)]
    of_versions = frozenset(key for one in versions for key in one.get("config") or {})
    return Properties(text, node, config if isinstance(config, yaml.MappingNode) else None, values, of_versions)


def edit_properties(text: str, model: str, wanted: Mapping[str, object]) -> str:
    """Return the text of a properties file after setting these keys in a model's existing config.

    Args:
        text: text of the file.
        model: name of the model.
        wanted: new values by key; None removes the key.

    Raises:
        CannotEditError: the edit is not safe.
    """
    found = read_properties(text, model)
    node = found.config if found else None
    if found is None or node is None:
        raise CannotEditError("The model's YAML properties have no config.")
    different = {key: value for key, value in wanted.items() if not _holds(found.values, key, value)}
    if not different:
        return text
    _refuse_aliases(found, node)
    _refuse_logic(found, different)
    key = next(key for key, value in found.tree.value if value is node)
    start, column = key.start_mark.index, key.start_mark.column
    block = _without_trailing_comments(text[start : node.end_mark.index])
    if node.flow_style and _COMMENT.search(block):
        raise CannotEditError("The config in the model's YAML properties has comments between its brackets.")
    indent, end = " " * column, line_end(text)
    lines = textwrap.dedent(indent + block.replace("\r\n", "\n")).split("\n")
    lines = _edited(lines, {key: value for key, value in different.items() if value is not None})
    lines = _edited(lines, dict.fromkeys(key for key, value in different.items() if value is None))
    edited = textwrap.indent("\n".join(lines), indent).removeprefix(indent).replace("\n", end)
    after = text[:start] + edited + text[start + len(block) :]
    _verify(text, after, model, different)
    return after


def _holds(values: Mapping[str, object], key: str, value: object) -> bool:
    return key not in values if value is None else key in values and same(values[key], value)


def _without_trailing_comments(block: str) -> str:
    lines = block.splitlines(keepends=True)
    while lines[-1].strip()[:1] in ("", "#"):
        lines.pop()
    return "".join(lines).rstrip("\r\n")


def _edited(lines: list[str], wanted: Mapping[str, object]) -> list[str]:
    """Edit the keys of a config.

    All other lines stay the same, provided that ruamel.yaml keeps the number of lines.

    Args:
        lines: the lines of the config, from its key to its last value.
        wanted: new values by key; None removes the key.

    Raises:
        CannotEditError: the edit would remove a comment.
    """
    yaml, data = loaded("\n".join(lines))
    before, config = dumped(yaml, data).splitlines(), data["config"]
    for key, value in wanted.items():
        if value is None:
            config.pop(key, None)
        else:
            config[key] = _in_style_of(config.get(key), loaded(f"[{in_yaml(value)}]")[1][0])
    if not config:
        raise CannotEditError("The edit would leave the config in the model's YAML properties without a key.")
    after = dumped(yaml, data).splitlines()
    if len(before) != len(lines):
        return after
    result: list[str] = []
    for what, first, last, start, stop in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if what == "equal":
            result += lines[first:last]
            continue
        put, taken = after[start:stop], lines[first:last]
        if any(
            _COMMENT.search(line) and line.strip()[0] != "#" and line.split("#")[-1] not in "".join(put)
            for line in taken
            if None not in wanted.values()
        ):
            raise CannotEditError("The value of a key in the model's YAML properties contains comments.")
        # ruamel.yaml attaches the comments before a key to the value above them.
        result += put + [line for line in taken if line.strip()[:1] in ("", "#") and line not in put]
    return result


def _in_style_of(old: object, value: object) -> object:
    """Return a value in the style of the value that it replaces: with the same quotes or the same list style."""
    if isinstance(old, ScalarString) and isinstance(value, str) and "\n" not in value:
        return type(old)(value)
    if isinstance(old, CommentedSeq) and isinstance(value, CommentedSeq) and value and not old.fa.flow_style():
        value.fa.set_block_style()
    return value


def _refuse_aliases(found: Properties, node: yaml.MappingNode) -> None:
    if any(key.value == "<<" for key, _ in [*found.tree.value, *node.value]):
        raise CannotEditError("The config in the model's YAML properties contains a merge key (<<).")
    start, stop = node.start_mark.index, node.end_mark.index
    owned = found.tree.start_mark.index <= start and stop <= found.tree.end_mark.index
    anchors = [event.start_mark for event in yaml.parse(found.text) if getattr(event, "anchor", None)]
    if not owned or any(mark and start <= mark.index < stop for mark in anchors):
        raise CannotEditError("The config in the model's YAML properties contains a YAML anchor or alias.")


def _refuse_logic(found: Properties, wanted: Mapping[str, object]) -> None:
    for key in wanted:
        if re.search("{{|{%", repr(found.values.get(key))):
            raise CannotEditError(f"The config in the model's YAML properties sets {key} with a Jinja expression.")


def _verify(before: str, after: str, model: str, wanted: Mapping[str, object]) -> None:
    """Raise an error unless the requested keys have their new values and everything else is unchanged."""
    data = _loaded(before)
    number = next(number for number, entry in enumerate(_models(data)) if entry.get("name") == model)
    entry = data["models"][number]
    config = {key: value for key, value in entry["config"].items() if key not in wanted}
    config |= {key: value for key, value in wanted.items() if value is not None}
    # Copy the entry, because an alias of it must remain unchanged.
    models = [*data["models"][:number], {**entry, "config": config}, *data["models"][number + 1 :]]
    expected = {**data, "models": models}
    if not same(_loaded(after), expected):
        raise CannotEditError("The model's properties file would have unexpected content after the edit.")


def _loaded(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        said = _first_line(error)
        raise CannotEditError(f"The model's properties file is not valid YAML: {said}") from error


def _first_line(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    return f"{problem} (line {mark.line + 1})." if mark else f"{problem}."


def _models(data: Any) -> list[dict[str, Any]]:
    entries = data.get("models") if isinstance(data, dict) else None
    # dbt ignores entries without a name, but they still count toward the index.
    return [entry if isinstance(entry, dict) else {} for entry in entries] if isinstance(entries, list) else []


def _child(node: yaml.Node | None, name: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    found = [value for key, value in node.value if key.value == name]
    if len(found) > 1:
        raise CannotEditError(f"The model's properties file sets {name} twice in the same mapping.")
    return found[0] if found else None
