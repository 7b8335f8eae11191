"""Edit keys of a model's config in a YAML properties file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, SingleQuotedScalarString

from spark_bucketing.edits.file_edits import CannotEditError, in_yaml, same
from spark_bucketing.edits.yaml_files import edited_yaml

_COMMENT = re.compile(r"(?:^|\s)(#.*)", re.MULTILINE)


@dataclass(frozen=True)
class Properties:
    """A model's entry in a properties file."""

    number: int  # of the entry
    config: Mapping[str, object] | None  # None if the entry has no config
    version_keys: frozenset[str]  # the keys that the config of any version of the model sets


def read_properties(text: str, model: str) -> Properties | None:
    """Find a model's entry in a file, or return None if the file has no entry for it."""
    entries = _entries(_loaded(text))
    found = [number for number, entry in enumerate(entries) if entry.get("name") == model]
    if not found:
        return None
    if len(found) > 1:
        raise CannotEditError("The properties file defines the model twice.")
    entry = entries[found[0]]
    config = entry.get("config")
    if config is not None and not isinstance(config, dict):
        raise CannotEditError("The config in the model's YAML properties is not a mapping.")
    versions = [one for one in entry.get("versions") or () if isinstance(one, dict)]
    return Properties(found[0], config, frozenset(key for one in versions for key in one.get("config") or {}))


def edit_properties(text: str, model: str, wanted: Mapping[str, object]) -> str:
    """Return the text of a properties file after setting these keys in a model's existing config."""
    found = read_properties(text, model)
    if found is None or found.config is None:
        raise CannotEditError("The model's YAML properties have no config.")
    config = found.config
    different = {key: value for key, value in wanted.items() if not same(config.get(key), value)}
    if not different:
        return text
    for key in different:
        if re.search("{{|{%", repr(config.get(key))):
            raise CannotEditError(f"The config in the model's YAML properties sets {key} with a Jinja expression.")
    try:
        after = edited_yaml(text, lambda data: _set(data["models"][found.number]["config"], different))
    except YAMLError as error:
        raise CannotEditError(f"The model's properties file is not valid YAML: {_first_line(error)}") from error
    if after is None or not _is_expected(text, after, found.number, different):
        raise CannotEditError("The model's properties file cannot be edited without changes to other lines.")
    return after


def _set(config: CommentedMap, wanted: Mapping[str, object]) -> None:
    # ruamel keeps comments with the key before them, so new keys come before all comments.
    new = 0
    for key, value in wanted.items():
        old = config.get(key)
        if value is None:
            del config[key]
        elif isinstance(old, CommentedSeq) and not old.fa.flow_style() and isinstance(value, (list, tuple)) and value:
            last = old.ca.items.pop(len(old) - 1, None)
            del old[len(value) :]
            for number, one in enumerate(value):
                old[number : number + 1] = [_styled(one, None)]
            if last:
                old.ca.items[len(old) - 1] = last
        elif key in config:
            config[key] = _styled(value, old)
        else:
            config.insert(new, key, _styled(value, None))
            new += 1


def _styled(value: object, old: object) -> Any:
    """Return a value that ruamel writes on one line, with the quotes of the old value, and that PyYAML reads."""
    if isinstance(value, str):
        if isinstance(old, (SingleQuotedScalarString, DoubleQuotedScalarString)) and "\n" not in value:
            return type(old)(value)
        quote = in_yaml(value)[:1]
        return {"'": SingleQuotedScalarString, '"': DoubleQuotedScalarString}.get(quote, str)(value)
    if isinstance(value, (list, tuple)):
        sequence = CommentedSeq([_styled(one, None) for one in value])
        sequence.fa.set_flow_style()
        return sequence
    if isinstance(value, Mapping):
        mapping = CommentedMap({_styled(key, None): _styled(one, None) for key, one in value.items()})
        mapping.fa.set_flow_style()
        return mapping
    return value


def _is_expected(before: str, after: str, number: int, wanted: Mapping[str, object]) -> bool:
    """Return whether the requested keys have their new values, everything else is unchanged, and comments are kept."""
    data = _loaded(before)
    entry = data["models"][number]
    config = {
        key: value for key, value in {**entry["config"], **wanted}.items() if value is not None or key not in wanted
    }
    # Copy the entry, because an alias of it must remain unchanged.
    models = [*data["models"][:number], {**entry, "config": config}, *data["models"][number + 1 :]]
    was, new = ({one.strip() for one in _COMMENT.findall(text)} for text in (before, after))
    lost = was - new
    if None in wanted.values():
        # A key is removed with the comment in its line.
        lost &= {line.strip() for line in before.splitlines()}
    return bool(config) and not lost and same(_loaded(after), {**data, "models": models})


def _loaded(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        raise CannotEditError(f"The model's properties file is not valid YAML: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    return f"{problem} (line {mark.line + 1})." if mark else f"{problem}."


def _entries(data: Any) -> list[dict[str, Any]]:
    entries = data.get("models") if isinstance(data, dict) else None
    # dbt ignores entries without a name, but they still count toward the index.
    return [entry if isinstance(entry, dict) else {} for entry in entries] if isinstance(entries, list) else []
