"""Validate a model's config against the schema, as the macro model_config() does when dbt runs the model.

This is the only validation in Python: `check`, the lint rules and the Python API use it. The macro interprets the same
schema, and the cases in tests/cases/shared/config.yml test both. An unknown value is never a violation. A value whose
validity depends on an unknown value is no violation either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from spark_bucketing.config import schema
from spark_bucketing.config.schema import Condition, Key, base_type
from spark_bucketing.errors import ProjectError, error_message
from spark_bucketing.units import parse_size


class Unknown:
    """A value that is unknown here, because only dbt can evaluate it."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = Unknown()


@dataclass(eq=False)
class Violation(Exception):
    """A violation of the config schema or of another lint rule."""

    key: str  # the config key to report; it may be missing
    found: str
    expected: str
    instead: str
    rule: str = "invalid-config"  # name of the lint rule
    meant: str | None = None  # the correct key for a misspelled key
    warns: bool = False  # whether dbt only warns about it

    def message(self, model: str) -> str:
        """Return the error message that dbt prints when it runs the model."""
        of = f"`{self.key}` in the config of model `{model}`; did you mean `{self.meant}`?"
        title = f"Unknown key {of}" if self.meant else f"Model `{model}` has an invalid `{self.key}`."
        return error_message(title, self.found, self.expected, self.instead)

    @property
    def sentence(self) -> str:
        """Return the message as a single line."""
        if self.meant:
            return f"Unknown config key `{self.key}`; did you mean `{self.meant}`?"
        return f"Found {self.found} in `{self.key}`; expected {self.expected}. Instead: {self.instead}."


def parse_value(key: str, spec: Key, value: Any, found: list[Violation]) -> Any:
    """Normalize a value. If the value is invalid, return UNKNOWN and add a violation to `found`."""
    if value is UNKNOWN or value is None or (spec.lenient and not value):
        return UNKNOWN if value is UNKNOWN else spec.default
    try:
        return _PARSERS[spec.type](key, spec, value)
    except Violation as violation:
        found.append(violation)
        return UNKNOWN


def _invalid(key: str, spec: Key, found: object, instead: str = "", expected: str = "") -> Violation:
    return Violation(key, str(found), expected or spec.expected, instead or f"{key}={spec.example}")


def _columns(key: str, spec: Key, value: Any) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)):
        raise _invalid(key, spec, value)
    distinct: dict[str, str] = {}
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise _invalid(key, spec, names, expected="column names, each a non-empty string")
        if name.lower() in distinct and not spec.lenient:
            raise _invalid(key, spec, names, f"remove the second `{name}`", "each column once")
        distinct.setdefault(name.lower(), name)
    if spec.maximum and len(distinct) > spec.maximum:
        raise _invalid(key, spec, names, f"{key}='{next(iter(distinct.values()))}'")
    return list(distinct.values())


def _integer(key: str, spec: Key, value: Any) -> int:
    # Every integer has limits.
    least, most = spec.minimum or 0, spec.maximum or 0
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        text = value.strip() if isinstance(value, str) else ""
        meant = re.fullmatch("[0-9]{1,9}", text) and least <= int(text) <= most
        raise _invalid(key, spec, _found(value), f"{key}={int(text)}" if meant else "")
    return value


def _number(key: str, spec: Key, value: Any) -> float:
    valid = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not valid or not (spec.minimum or 0) < value <= (spec.maximum or value):
        raise _invalid(key, spec, _found(value))
    return float(value) if isinstance(value, float) else int(value)


def _size(key: str, spec: Key, value: Any) -> int:
    try:
        size = parse_size(value)
    except ValueError:
        size = 0
    if size < 1:
        text = re.match("^ *([0-9.]+) *([kmgt])(?:b|ib|bytes)? *$", str(value).lower())
        meant = f"{key}='{text[1]}{text[2].upper()}iB'" if text else ""
        raise _invalid(key, spec, f"'{value}'" if isinstance(value, str) else value, meant)
    return size


def _choice(key: str, spec: Key, value: Any) -> str:
    if not isinstance(value, str) or value.lower() not in spec.choices:
        near = spec.aliases.get(str(value).lower()) or nearest_name(str(value), spec.choices)
        raise _invalid(key, spec, value, f"{key}='{near or spec.default or spec.choices[0]}'")
    return value.lower()


def _mapping(key: str, spec: Key, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _invalid(key, spec, value)
    for name, entry in value.items():
        if not isinstance(name, str) or not isinstance(entry, (str, int, float)):
            expected = "string keys with values that are strings, numbers or booleans"
            raise _invalid(key, spec, f"{name}: {entry}", expected=expected)
        for pattern, allowed, expected, instead in spec.refused:
            if re.match(pattern, name) and str(entry) != allowed:
                raise _invalid(key, spec, f"{name} = {entry}", instead.format(name=name), expected)
    return value


def _text(key: str, spec: Key, value: Any) -> str:
    if not isinstance(value, str) or not re.match(spec.pattern, value):
        raise _invalid(key, spec, value)
    return value.strip()


def _boolean(key: str, spec: Key, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _invalid(key, spec, value)
    return value


_PARSERS: Mapping[str, Callable[[str, Key, Any], Any]] = {
    "columns": _columns, "integer": _integer, "number": _number, "size": _size, "choice": _choice,
    "mapping": _mapping, "text": _text, "date": lambda key, spec, value: _text(key, spec, str(value)),
    "boolean": _boolean, "any": lambda _, __, value: value,
}  # fmt: skip


def _found(value: Any) -> str:
    return f"'{value}' (a string)" if isinstance(value, str) else str(value)


def nearest_name(word: str, names: Iterable[str], within: int = 2) -> str | None:
    """Return the name that a word probably misspells, or None if no name is similar.

    Two names are similar if they are equal without up to `within` letters of each, at most one of every three, as in
    the macro nearest_name(). The ratio in Python's difflib would consider other words similar.
    """
    for letters in range(within + 1):
        shortened = _shortened(word, letters)
        for name in names:
            if letters <= len(_plain(name)) // 3 and shortened & _shortened(name, letters):
                return name
    return None


def _plain(word: str) -> str:
    return re.sub("[^a-z0-9]", "", word.lower())


def _shortened(word: str, letters: int) -> set[tuple[str, ...]]:
    plain = _plain(word)
    return {kept for most in range(letters + 1) for kept in combinations(plain, max(len(plain) - most, 0))}


class Config:
    """The known part of a model's config, which may be incomplete."""

    def __init__(self, values: Mapping[str, Any], whole: Callable[[str], bool] = lambda _: True) -> None:
        """Store values; `whole` tells whether a key that is missing from them certainly has no value."""
        self.values, self._whole = values, whole

    def __getitem__(self, key: str) -> Any:
        return self.values[key] if key in self.values else None if self._whole(key) else UNKNOWN


def validated(config: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Return the values of all keys that the materialization accepts, including default values."""
    values, violations = validate(Config(config))
    for violation in (found for found in violations if not found.warns):
        raise ProjectError(violation.message(model))
    return values


def value_of(key: str, value: Any, model: str) -> Any:
    """Return the validated value of one key, or its default value."""
    found: list[Violation] = []
    parsed = parse_value(key, schema.KEYS[key], value, found)
    for violation in found:
        raise ProjectError(violation.message(model))
    return parsed


def validate(config: Config) -> tuple[dict[str, Any], list[Violation]]:
    """Return the values of all accepted keys, UNKNOWN for invalid ones, and all violations."""
    materialized = config["materialized"]
    if materialized not in schema.MATERIALIZATIONS:
        return {}, []
    found = list(_unknown_keys(config, materialized))
    values: dict[str, Any] = {"materialized": materialized}
    for key, spec in schema.KEYS.items():
        value = config[key]
        if materialized in spec.taken_by:
            unused = spec.of_dbt and str(config["incremental_strategy"]).lower() not in spec.strategies
            values[key] = value if unused else parse_value(key, spec, value, found)
        # Keys of incremental models, and of other models of the family, may be set for all models in a folder.
        elif value not in (None, UNKNOWN) and not (
            set(spec.taken_by) <= set(schema.INCREMENTAL) or _family(materialized) in map(_family, spec.taken_by)
        ):
            expected = f"no `{key}`, which is a key of {' and '.join(spec.taken_by)}"
            instead = f"materialized='{spec.taken_by[0]}', or remove `{key}`"
            found.append(Violation(key, str(value), expected, instead))
    for meant in {violation.meant for violation in found if violation.meant and not violation.warns}:
        values[meant] = UNKNOWN
    if values.get("sorted_by", ()) is None:
        values["sorted_by"] = values["clustered_by"]
    if values.get("incremental_strategy") == "merge" and values["unique_key"] in ([], UNKNOWN):
        # As in dbt, a merge without a key matches no row.
        values["incremental_strategy"] = UNKNOWN if values["unique_key"] else "append"
    found += _overlaps(values)
    for rule in schema.RULES:
        if all(_holds(condition, _value(condition.key, values)) for condition in rule.when):
            what, expected, instead = (text.format_map(values) for text in (rule.found, rule.expected, rule.instead))
            found.append(Violation(rule.key, what, expected, instead, rule.name))
    return values, found


def _unknown_keys(config: Config, materialized: str) -> Iterator[Violation]:
    names = [key for key, spec in schema.KEYS.items() if _family(materialized) in map(_family, spec.taken_by)]
    missing = [key for key in names if schema.KEYS[key].required and config[key] is None]
    for key, value in config.values.items():
        meant = (
            None if value is None or key in schema.KEYS or key in schema.OTHER_KEYS else meant_key(key, names, missing)
        )
        if meant:
            text = f"'{value}'" if isinstance(value, str) else value
            expected = "a config key of dbt or of this package"
            # If the model has the correct key too, the other one may be for another adapter.
            warns = config[meant] not in (None, UNKNOWN)
            yield Violation(key, f"{key}={text}", expected, f"{meant}={text}", "misspelled-key", meant, warns)


def meant_key(key: str, names: Iterable[str], missing: Iterable[str] = ()) -> str | None:
    """Return the valid key that an unknown key resembles, a distant one only if it is required but missing."""
    plain = key.lower().replace("-", "_")
    known = (name for name in names if plain in (name, *schema.KEYS[name].misspellings))
    return next(known, None) or nearest_name(key, names, within=1) or nearest_name(key, missing)


def _family(materialized: str) -> str:
    return materialized.partition("_")[0]


def _overlaps(values: Mapping[str, Any]) -> Iterator[Violation]:
    for rule in schema.DISJOINT:
        names, others = values.get(rule.key), values.get(rule.other)
        if isinstance(names, list) and isinstance(others, list):
            taken = {name.lower() for name in others}
            for name in (name for name in names if name.lower() in taken):
                why = ": data files do not contain partition columns" if rule.other == "partition_by" else ""
                expected = f"columns that are not in `{rule.other}`{why}"
                instead = f"remove `{name}` from `{rule.key}` or from `{rule.other}`"
                yield Violation(rule.key, name, expected, instead, rule.name)


def _value(key: str, values: Mapping[str, Any]) -> Any:
    """Return the value of a key, or the value of a mapping's entry as text."""
    name, _, entry = key.partition(".")
    value = values.get(name)
    if not entry or not isinstance(value, Mapping):
        return None if entry and value is not UNKNOWN else value
    found = value.get(entry)
    return found if found in (None, UNKNOWN) else str(found)


def _holds(condition: Condition, value: Any) -> bool:
    """Return whether a condition is certainly true."""
    if value is UNKNOWN:
        return False
    # Empty text, lists and mappings count as no value, but 0 and false are values.
    holds = value in condition.values if condition.values else value in (None, "", [], {})
    return holds != condition.negated


_PARTITIONS = ("array", "map", "struct", "binary", "void")


# A contract may also use other names of types, such as integer. The rules accept names that they do not know.
_KNOWN_TYPES = (*schema.SPARK_TYPES, *schema.RANGE_TYPES, *_PARTITIONS)


def violations(config: Config, columns: Mapping[str, str | None] | None = None) -> Iterator[Violation]:
    """Find all violations in a config, whose contract may state column types by lowercase name."""
    values, found = validate(config)
    yield from found
    yield from _order(values)
    if str(config["incremental_strategy"]).lower() == "merge" and values.get("incremental_strategy") == "append":
        yield Violation(
            "incremental_strategy", "merge without `unique_key`, which appends all rows", "a key that identifies a row",
            "add unique_key=['id'], or use incremental_strategy='append'", "merge-without-unique-key",
        )  # fmt: skip
    merges = values.get("incremental_strategy") == "merge"
    for key, names in values.items():
        # The default sort columns are the bucket columns, which need no second message.
        own = isinstance(names, list) and schema.KEYS[key].type == "columns" and config[key] is not None
        if columns and own and (merges or not schema.KEYS[key].strategies):
            yield from _contract_columns(key, names, columns, values)


def _order(values: Mapping[str, Any]) -> Iterator[Violation]:
    by, order = values.get("clustered_by"), values.get("sorted_by")
    # Users set an empty list deliberately.
    if not isinstance(by, list) or not isinstance(order, list) or not by or not order:
        return
    first = {name.lower() for name in by}
    if {name.lower() for name in order[: len(by)]} != first:
        rest = [name for name in order if name.lower() not in first]
        expected = f"the bucket columns first; with another order, joins on {', '.join(by)} sort the rows again"
        yield Violation("sorted_by", str(order), expected, f"sorted_by={[*by, *rest]}", "sort-columns-mismatch")


def _contract_columns(
    key: str, names: list[str], columns: Mapping[str, str | None], values: Mapping[str, Any]
) -> Iterator[Violation]:
    for name in names:
        kind = columns.get(name.lower())
        if name.lower() not in columns:
            expected = f"a column of the model's contract: {', '.join(columns)}"
            near = nearest_name(name, columns)
            yield Violation(key, name, expected, f"`{near}`" if near else "use one of these names")
        elif kind and base_type(kind) in _KNOWN_TYPES:
            yield from _column_type(key, name, kind, values)


def _column_type(key: str, name: str, kind: str, values: Mapping[str, Any]) -> Iterator[Violation]:
    base, found = base_type(kind), f"{name} {kind}"
    bucket_hash = values.get("bucket_hash", UNKNOWN)
    if key == "clustered_by":
        types = schema.SPARK_TYPES if bucket_hash is UNKNOWN else schema.BUCKET_TYPES[bucket_hash]
        if base not in types:
            expected = f"a column of type {', '.join(types)}"
            yield Violation(key, found, expected, _cast(name, base), "unsupported-bucket-column")
    elif (key == "partition_by" and base in _PARTITIONS) or (key == "sorted_by" and base == "map"):
        yield Violation(key, found, "a column of a simple type", "choose another column")
    elif key in ("range_by", "implicit_partition_by") and base not in schema.RANGE_TYPES:
        expected = "a column of a numeric, string, date, timestamp or boolean type without a collation"
        yield Violation(key, found, expected, "choose another column, or cast this column in the model")


def _cast(name: str, base: str) -> str:
    if base in ("float", "double"):
        return f"`cast({name} as decimal(38, 9))` in every model that joins on it, or as bigint if it has no fractions"
    if base == "void":
        return f"`cast({name} as bigint)` in the model, or to its type in the tables that the model joins"
    if base in schema.SPARK_TYPES and base not in schema.HIVE_TYPES:
        return f"`cast({name} as string)` in the model, or bucket_hash='spark'"
    return "bucket by another column"
