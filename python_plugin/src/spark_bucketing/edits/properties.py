"""Edit keys of a model's config in a YAML properties file, at the positions that PyYAML reports for each node."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from spark_bucketing.edits.changes import CannotEditError
from spark_bucketing.edits.entries import Entries, Entry
from spark_bucketing.edits.literals import in_yaml, line_end, same

_COMMENT = re.compile(r"(^|\s)#")


@dataclass(frozen=True)
class Properties:
    """A model in a properties file."""

    text: str  # text of the file
    tree: yaml.MappingNode  # the node of the model
    config: yaml.MappingNode | None  # the node of its config; None if it has no config
    values: Mapping[str, object]  # the nodes of the config's values

    @property
    def pairs(self) -> Sequence[tuple[yaml.ScalarNode, yaml.Node]]:
        """Return the nodes of the config's keys and values."""
        return self.config.value if self.config else []


def read_properties(text: str, model: str) -> Properties | None:
    """Find a model in a file; None if the file does not contain it.

    Raises:
        CannotEditError: the file cannot be read, or contains the model twice.
    """
    data, tree = _loaded(text), _tree(text)
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
    values = _models(data)[found[0]].get("config") or {}
    if not isinstance(values, dict):
        raise CannotEditError("The config in the model's YAML properties is not a mapping.")
    return Properties(text, node, config if isinstance(config, yaml.MappingNode) else None, values)


def version_keys(text: str, model: str) -> frozenset[str]:
    """Return the keys that the config of any version of a model sets.

    Raises:
        CannotEditError: the file cannot be read.
    """
    entries = [entry for entry in _models(_loaded(text)) if entry.get("name") == model]
    versions = [one for entry in entries for one in entry.get("versions") or () if isinstance(one, dict)]
    return frozenset(key for one in versions for key in (one.get("config") or {}))


def edit_properties(text: str, model: str, wanted: Mapping[str, object]) -> str:
    """Return the text of a properties file with these keys set in the existing config of a model.

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
    after = _flow_edited(found, node, different) if node.flow_style else _block_edited(found, different)
    _verify(text, after, model, different)
    return after


def _holds(values: Mapping[str, object], key: str, value: object) -> bool:
    return key not in values if value is None else key in values and same(values[key], value)


def _flow_edited(found: Properties, node: yaml.Node, wanted: Mapping[str, object]) -> str:
    entries = tuple(
        Entry(str(key.value), key.start_mark.index, value.start_mark.index, _end(value)) for key, value in found.pairs
    )
    inner = Entries(found.text, node.start_mark.index + 1, node.end_mark.index - 1, entries)
    if entries and _COMMENT.search(found.text[inner.start : inner.end]):
        raise CannotEditError("The config in the model's YAML properties has comments between its brackets.")
    return inner.edited(wanted, found.values, _written, lambda key, value: f"{key}: {in_yaml(value)}")


def _block_edited(found: Properties, wanted: Mapping[str, object]) -> str:
    """Edit a mapping with one key per line, from the last key to the first, so that earlier positions stay valid."""
    text = found.text
    keys = {str(key.value): (key, value) for key, value in found.pairs}
    last = found.pairs[-1]
    indent = " " * found.pairs[0][0].start_mark.column
    changes = [_replaced(text, *keys[key], value) for key, value in wanted.items() if key in keys and value is not None]
    gone = [key for key, value in wanted.items() if value is None]
    new = [f"{indent}{key}: {in_yaml(one)}" for key, one in wanted.items() if one is not None and key not in keys]
    if len(gone) == len(keys) and not new:
        raise CannotEditError("The edit would leave the config in the model's YAML properties without a key.")
    changes += [(_line_start(text, keys[key][0]), _next_line(text, _end(keys[key][1])), "") for key in gone]
    if new:
        end = line_end(text)
        place = _next_line(text, _end(last[1]))
        lines = "".join(line + end for line in new)
        # The last line of the file may lack a line ending.
        missing = end if not text[:place].endswith("\n") else ""
        changes.append((place, place, missing + (lines if not missing else lines[: -len(end)])))
    # If two edits have the same position, remove a line before inserting another one.
    for start, stop, put in sorted(changes, key=lambda change: change[:2], reverse=True):
        text = text[:start] + put + text[stop:]
    return text


def _replaced(text: str, key: yaml.Node, old: yaml.Node, value: object) -> tuple[int, int, str]:
    """Return the replacement for a key's value, with its position."""
    start, stop = old.start_mark.index, _end(old)
    is_block = isinstance(old, yaml.CollectionNode) and not old.flow_style
    if not is_block:
        # A key may lack a value.
        space = "" if text[start - 1] in " \t" else " "
        return start, stop, space + _written(value, text[start:stop])
    if _COMMENT.search(text[key.end_mark.index : stop]):
        raise CannotEditError(f"The value of {key.value} in the model's YAML properties contains comments.")
    if isinstance(old, yaml.SequenceNode) and isinstance(value, (list, tuple)) and value:
        between = line_end(text) + " " * old.start_mark.column
        return start, stop, between.join(f"- {in_yaml(item)}" for item in value)
    return key.end_mark.index, stop, f": {in_yaml(value)}"


def _written(value: object, old: str) -> str:
    return in_yaml(value, old[0] if old[:1] in ("'", '"') else None)


def _end(node: yaml.Node) -> int:
    """Return the position after a node; PyYAML's end mark of a block is after trailing spaces and comments."""
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        raise CannotEditError("The config in the model's YAML properties contains a block scalar (| or >).")
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)


def _line_start(text: str, node: yaml.Node) -> int:
    return text.rfind("\n", 0, node.start_mark.index) + 1


def _next_line(text: str, position: int) -> int:
    found = text.find("\n", position)
    return len(text) if found < 0 else found + 1


def _refuse_aliases(found: Properties, node: yaml.Node) -> None:
    if any(key.value == "<<" for key, _ in [*found.tree.value, *found.pairs]):
        raise CannotEditError("The config in the model's YAML properties contains a merge key (<<).")
    start, stop = node.start_mark.index, node.end_mark.index
    owned = found.tree.start_mark.index <= start and stop <= found.tree.end_mark.index
    anchors = [event.start_mark for event in yaml.parse(found.text) if getattr(event, "anchor", None)]
    if not owned or any(mark and start <= mark.index < stop for mark in anchors):
        raise CannotEditError("The config in the model's YAML properties contains a YAML anchor or alias.")


def _refuse_logic(found: Properties, wanted: Mapping[str, object]) -> None:
    for key in wanted:
        if any("{{" in text or "{%" in text for text in _texts(found.values.get(key))):
            raise CannotEditError(f"The config in the model's YAML properties sets {key} with a Jinja expression.")


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _texts(one)


def _verify(before: str, after: str, model: str, wanted: Mapping[str, object]) -> None:
    """Verify the edited file: the requested keys have their new values, and everything else is unchanged.

    Raises:
        CannotEditError: the verification failed.
    """
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


def _tree(text: str) -> yaml.Node | None:
    return yaml.compose(text, Loader=yaml.SafeLoader)


def _first_line(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    return f"{problem} (line {mark.line + 1})." if mark else f"{problem}."


def _models(data: Any) -> list[dict[str, Any]]:
    entries = data.get("models") if isinstance(data, dict) else None
    # dbt ignores entries without a name, but they count for the index.
    return [entry if isinstance(entry, dict) else {} for entry in entries] if isinstance(entries, list) else []


def _child(node: yaml.Node | None, name: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    found = [value for key, value in node.value if key.value == name]
    if len(found) > 1:
        raise CannotEditError(f"The model's properties file sets {name} twice in the same mapping.")
    return found[0] if found else None
