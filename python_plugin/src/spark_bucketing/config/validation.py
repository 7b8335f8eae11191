"""Validate a model's config against the schema, as the macro model_config() does when dbt runs the model.

The cases in tests/cases/shared/config.yml test this module and the macro. An unknown value is never a violation. A
value whose validity depends on an unknown value is no violation either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from spark_bucketing.config.rules import DISJOINT, RULES, Condition
from spark_bucketing.config.schema import INCREMENTAL, KEYS, MATERIALIZATIONS, OTHER_KEYS, Key
from spark_bucketing.config.values import UNKNOWN, Violation, nearest_name, parse_value
from spark_bucketing.errors import ProjectError


class Config:
    """The known part of a model's config, which may be incomplete."""

    def __init__(self, values: Mapping[str, Any], whole: Callable[[str], bool] = lambda _: True) -> None:
        """Store the values by key.

        The predicate `whole` returns true for a key that certainly has no value if it is missing from `values`.
        """
        self.values, self._whole = values, whole

    def __getitem__(self, key: str) -> Any:
        return self.values[key] if key in self.values else None if self._whole(key) else UNKNOWN


def validated(config: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Return the values of all keys that the materialization accepts, including default values.

    Raises:
        ProjectError: the config is invalid.
    """
    values, violations = validate(Config(config))
    for violation in (found for found in violations if not found.warns):
        raise ProjectError(violation.message(model))
    return values


def value_of(key: str, value: Any, model: str) -> Any:
    """Return the validated value of one key, or its default value.

    Raises:
        ProjectError: the value is invalid.
    """
    found: list[Violation] = []
    parsed = parse_value(key, KEYS[key], value, found)
    for violation in found:
        raise ProjectError(violation.message(model))
    return parsed


def validate(config: Config) -> tuple[dict[str, Any], list[Violation]]:
    """Return the values of all keys that the materialization accepts, and all violations.

    An invalid value becomes UNKNOWN.
    """
    materialized = config["materialized"]
    if materialized not in MATERIALIZATIONS:
        return {}, []
    found = list(_unknown_keys(config, materialized))
    values: dict[str, Any] = {"materialized": materialized}
    for key, spec in KEYS.items():
        value = config[key]
        if materialized in spec.taken_by:
            unused = spec.of_dbt and str(config["incremental_strategy"]).lower() not in spec.strategies
            values[key] = value if unused else parse_value(key, spec, value, found)
        elif value not in (None, UNKNOWN) and not _may_have(spec, materialized):
            found.append(_of_another_family(key, spec, value))
    for meant in {violation.meant for violation in found if violation.meant and not violation.warns}:
        values[meant] = UNKNOWN
    if values.get("sorted_by", ()) is None:
        values["sorted_by"] = values["clustered_by"]
    if values.get("incremental_strategy") == "merge" and values["unique_key"] in ([], UNKNOWN):
        # As in dbt, a merge without a key matches no row.
        values["incremental_strategy"] = UNKNOWN if values["unique_key"] else "append"
    return values, [*found, *_overlaps(values), *_combinations(values)]


def _unknown_keys(config: Config, materialized: str) -> Iterator[Violation]:
    names = [key for key, spec in KEYS.items() if _family(materialized) in map(_family, spec.taken_by)]
    missing = [key for key in names if KEYS[key].required and config[key] is None]
    for key, value in config.values.items():
        meant = None if value is None or key in KEYS or key in OTHER_KEYS else meant_key(key, names, missing)
        if meant:
            text = f"'{value}'" if isinstance(value, str) else value
            expected = "a config key of dbt or of this package"
            # If the model has the correct key too, the other one may be for another adapter.
            warns = config[meant] not in (None, UNKNOWN)
            yield Violation(key, f"{key}={text}", expected, f"{meant}={text}", "misspelled-key", meant, warns)


def meant_key(key: str, names: Iterable[str], missing: Iterable[str] = ()) -> str | None:
    """Return the valid key that an unknown key resembles, or None if it resembles none of them.

    Without a required key, the model is invalid in any case, so even a distant name is worth a suggestion.

    Args:
        key: the unknown key.
        names: the valid keys.
        missing: the required keys without a value.
    """
    plain = key.lower().replace("-", "_")
    known = (name for name in names if plain in (name, *KEYS[name].misspellings))
    return next(known, None) or nearest_name(key, names, within=1) or nearest_name(key, missing)


def _family(materialized: str) -> str:
    return materialized.partition("_")[0]


def _may_have(spec: Key, materialized: str) -> bool:
    """Return whether a materialization ignores a key instead of rejecting it.

    A key is ignored if it may be set for all models in a folder.
    """
    of_incremental = all(name in INCREMENTAL for name in spec.taken_by)
    return of_incremental or _family(materialized) in map(_family, spec.taken_by)


def _of_another_family(key: str, spec: Key, value: Any) -> Violation:
    expected = f"no `{key}`, which is a key of {' and '.join(spec.taken_by)}"
    return Violation(key, str(value), expected, f"materialized='{spec.taken_by[0]}', or remove `{key}`")


def _overlaps(values: Mapping[str, Any]) -> Iterator[Violation]:
    for rule in DISJOINT:
        names, others = values.get(rule.key), values.get(rule.other)
        if isinstance(names, list) and isinstance(others, list):
            taken = {name.lower() for name in others}
            for name in (name for name in names if name.lower() in taken):
                why = ": data files do not contain partition columns" if rule.other == "partition_by" else ""
                expected = f"columns that are not in `{rule.other}`{why}"
                instead = f"remove `{name}` from `{rule.key}` or from `{rule.other}`"
                yield Violation(rule.key, name, expected, instead, rule.name)


def _combinations(values: Mapping[str, Any]) -> Iterator[Violation]:
    for rule in RULES:
        if all(_holds(condition, _value(condition.key, values)) for condition in rule.when):
            found, expected, instead = (text.format_map(values) for text in (rule.found, rule.expected, rule.instead))
            yield Violation(rule.key, found, expected, instead, rule.name)


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
