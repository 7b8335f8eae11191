"""Edit YAML files with ruamel, which keeps comments, so that only the edited lines change: a model's config in YAML."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, SingleQuotedScalarString
from ruamel.yaml.util import load_yaml_guess_indent

from spark_bucketing.edits.file_edits import CannotEditError, in_yaml, line_end, same

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
