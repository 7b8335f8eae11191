"""Edit keys of a model's config in a YAML properties file.

PyYAML locates the keys and values. An edit replaces only the text of one value, or inserts or removes one key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from spark_bucketing.edits.config_changes import CannotEditError, in_yaml, line_end, same

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
    after = text
    # Remove keys last, because a config without keys is null.
    for key, value in sorted(different.items(), key=lambda pair: pair[1] is None):
        config = read_properties(after, model)
        if config and config.config:
            after = (
                _with(after, config.config, key, value) if value is not None else _without(after, config.config, key)
            )
    _verify(text, after, model, different)
    return after


def _holds(values: Mapping[str, object], key: str, value: object) -> bool:
    return key not in values if value is None else key in values and same(values[key], value)


def _with(text: str, config: yaml.MappingNode, key: str, value: object) -> str:
    """Return the text with a new value for this key, which comes after the last key unless the config sets it."""
    for name, old in config.value:
        if name.value == key:
            start, stop = text.index(":", name.end_mark.index) + 1, _end(text, old)
            if _COMMENT.search(text[start:stop]):
                raise CannotEditError(f"The value of {key} in the model's YAML properties contains comments.")
            return text[:start] + _in_style_of(old, value, line_end(text)) + text[stop:]
    pair = f"{in_yaml(key)}: {in_yaml(value)}"
    if not config.value:
        stop = config.end_mark.index - 1
        return text[:stop] + pair + text[stop:]
    stop = _end(text, config.value[-1][1])
    if config.flow_style:
        return f"{text[:stop]}, {pair}{text[stop:]}"
    stop += len(re.split(r"\r?\n", text[stop:], maxsplit=1)[0])
    return text[:stop] + line_end(text) + " " * config.start_mark.column + pair + text[stop:]


def _in_style_of(old: yaml.Node, value: object, line_end: str) -> str:
    """Return a value in the style of the value that it replaces: with the same quotes or the same list style."""
    is_block = isinstance(old, yaml.SequenceNode) and not old.flow_style
    if is_block and isinstance(value, (list, tuple)) and value:
        return "".join(f"{line_end}{' ' * old.start_mark.column}- {in_yaml(one)}" for one in value)
    quote = old.style if isinstance(old, yaml.ScalarNode) and old.style in ("'", '"') else None
    return f" {in_yaml(value, quote)}"


def _without(text: str, config: yaml.MappingNode, key: str) -> str:
    """Return the text without this key, and without its lines unless the config is a flow mapping."""
    if len(config.value) == 1:
        raise CannotEditError("The edit would leave the config in the model's YAML properties without a key.")
    place = next(number for number, (name, _) in enumerate(config.value) if name.value == key)
    name, value = config.value[place]
    start, stop = name.start_mark.index, _end(text, value)
    if config.flow_style:
        is_last = place + 1 == len(config.value)
        start = _end(text, config.value[place - 1][1]) if is_last else start
        stop = stop if is_last else config.value[place + 1][0].start_mark.index
        if _COMMENT.search(text[start:stop]):
            raise CannotEditError("The config in the model's YAML properties has comments between its brackets.")
        return text[:start] + text[stop:]
    before, (_, line_break, after) = text[: start - name.start_mark.column], text[stop:].partition("\n")
    # The last line of a file may have no line break.
    return before + after if line_break else before.removesuffix("\n").removesuffix("\r")


def _end(text: str, node: yaml.Node) -> int:
    """Return the position after the last character of a value; a block ends before the comments that follow it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(text, last[1] if isinstance(last, tuple) else last)
    is_block = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
    return len(text[: node.end_mark.index].rstrip()) if is_block else node.end_mark.index


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
