"""Generate the macro that returns the config schema, and the tables on the configuration page, from the schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from pathlib import Path
from typing import Any

from reference.markdown import table
from spark_bucketing.config import schema
from spark_bucketing.spec import HASHES, VERSION_OF_HASH, BucketHash
from spark_bucketing.units import SIZE_PATTERN

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"
HEAD = """{#-
  Returns the schema of the config keys, which model_config() interprets.

  This file is generated from python_plugin/src/spark_bucketing/config/schema.py. Edit that file, and run
  `make docs`.
-#}
{% macro config_schema() -%}
  {{ return({
"""
TAIL = """  }) }}
{%- endmacro %}
"""
PROPERTIES_HEAD = """# Descriptions of the materializations and their config keys, for `dbt docs`.
# This file is generated from python_plugin/src/spark_bucketing/config/schema.py. Edit that file, and run `make docs`.
macros:
"""
MEANINGS = {
    "bucketed_table": "Builds a table with a fixed number of sorted files. The hash of a row determines its file.",
    "bucketed_incremental": "Adds rows to a bucketed table, in which each bucket remains one file.",
    "organized_table": "Builds a table with files of a chosen number or size. With `range_by`, a file has one range.",
    "organized_incremental": "Adds rows to an organized table, or merges rows and rewrites only the affected files.",
}
# Fields that only the documentation uses.
TEXTS = ("expects",)


def macro() -> str:
    """Return the content of the file that defines the macro."""
    parts: Mapping[str, object] = {
        "size": SIZE_PATTERN,
        "materializations": list(schema.MATERIALIZATIONS),
        "incremental": list(schema.INCREMENTAL),
        "other_keys": list(schema.OTHER_KEYS),
        "hashes": {name: _hash(name) for name in HASHES},
        "range_types": list(schema.RANGE_TYPES),
    }
    lines = [f"    {name!r}: {value!r},\n" for name, value in parts.items()]
    lines += [
        "    'keys': {\n",
        *(f"      {name!r}: {_key(key)!r},\n" for name, key in schema.KEYS.items()),
        "    },\n",
    ]
    lines += ["    'disjoint': [\n", *(f"      {_rule(rule)!r},\n" for rule in schema.DISJOINT), "    ],\n"]
    lines += ["    'rules': [\n", *(f"      {_rule(rule)!r},\n" for rule in schema.RULES), "    ],\n"]
    return HEAD + "".join(lines) + TAIL


def _hash(name: BucketHash) -> dict[str, object]:
    types, is_stock = list(schema.BUCKET_TYPES[name]), name in ("hive", "spark")
    # A SQL expression computes the bucket of these types too. In version 2, equal numbers can have different hashes.
    hashed_types = [*types, "float", "double"] if is_stock else types
    return {"version": VERSION_OF_HASH.get(name), "stock": is_stock, "types": types, "hashed_types": hashed_types}


def _key(key: schema.Key) -> dict[str, object]:
    given = {one.name: getattr(key, one.name) for one in fields(key)}
    kept = {one.name: _literal(given[one.name]) for one in fields(key) if given[one.name] != _default(one)}
    kept |= {"taken_by": list(key.taken_by), "expected": key.expected}
    return {name: value for name, value in kept.items() if name not in TEXTS}


def _default(one: Field[Any]) -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()


def _rule(rule: schema.Rule | schema.Disjoint) -> dict[str, object]:
    return {name: _literal(value) for name, value in vars(rule).items() if name != "name"}


def _literal(value: Any) -> Any:
    """Convert a value so that it consists only of lists, dicts and scalars."""
    if isinstance(value, Mapping):
        return {name: _literal(each) for name, each in value.items()}
    return [_literal(each) for each in value] if isinstance(value, (tuple, list)) else value


def properties() -> str:
    """Return the YAML properties file that describes the materializations.

    The descriptions list the config keys, because dbt has no field for them.
    """
    return PROPERTIES_HEAD + "\n".join(
        f"  - name: materialization_{name}_spark\n    description: |\n      {MEANINGS[name]}\n\n"
        + "".join(f"      {row}\n" for row in _described(name).splitlines())
        for name in schema.MATERIALIZATIONS
    )


def _described(materialized: str) -> str:
    """Describe the keys that a materialization accepts.

    The text has no links, because relative links would not work in dbt's docs.
    """
    names = [name for name, key in schema.KEYS.items() if materialized in key.taken_by]
    text = re.sub(r" See \[.*?\]\(.*?\)\.", "", _rows(names, materialized))
    return re.sub(r"\[(.*?)\]\(.*?\)", r"\1", text).replace("see below", "computed")


def page() -> str:
    """Return the page with new tables of keys.

    The text between the tables does not change.
    """
    return re.sub(r"(<!-- keys of (\w+) -->\n).*?(<!-- end -->)", _table, PAGE.read_text(), flags=re.DOTALL)


def _table(place: re.Match[str]) -> str:
    return f"{place[1]}\n{_rows(_names(place[2]), place[2])}\n{place[3]}"


def _names(materialized: str) -> Iterator[str]:
    """Yield the keys of a materialization, without the keys that its base materialization accepts in the same way."""
    base, incremental = (materialized.replace("incremental", "table"), materialized.replace("table", "incremental"))
    for name, key in schema.KEYS.items():
        # A key with more choices in the incremental materialization belongs in the table of that materialization.
        of_both = base in key.taken_by and _type(name, key, base) == _type(name, key, incremental)
        if materialized in key.taken_by and of_both == (materialized == base):
            yield name


def _rows(names: Iterable[str], materialized: str) -> str:
    keys = ((name, schema.KEYS[name]) for name in names)
    known = _texts()
    rows = (
        [f"`{name}`", _type(name, key, materialized), _default_of(key, known[name][0]), known[name][1]]
        for name, key in keys
    )
    return table(["key", "type", "default", "meaning"], rows)


@cache
def _texts() -> Mapping[str, tuple[str, str]]:
    """Return the default value and the meaning of each key on the page, where they are edited."""
    rows = re.findall(r"^\| `(\w+)` \|.*\| (.*?) \| (.*?) \|$", PAGE.read_text(), re.MULTILINE)
    return {name: (default, meaning) for name, default, meaning in rows}


def _default_of(key: schema.Key, shown: str) -> str:
    """Return the default value, which the page describes if it depends on other keys."""
    if key.default in (None, [], {}):
        return "required" if key.required else shown
    return f"`{key.default}`".replace("True", "true")


def _type(name: str, key: schema.Key, materialized: str) -> str:
    limits = f", {key.minimum} to {key.maximum:,}" if key.maximum and key.minimum is not None else ""
    names = {
        "columns": "column" if key.maximum == 1 else "column or list",
        "number": f"number, above {key.minimum} to {key.maximum}",
        "size": "size, such as `'256MiB'`",
        "choice": ", ".join(f"`{choice}`" for choice in _choices(name, key, materialized)),
        "text": f"string, such as `{re.split(', with|;', key.example)[0]}`",
        "any": "as in dbt",
    }
    return names.get(key.type, key.type + limits)


def _choices(name: str, key: schema.Key, materialized: str) -> Iterator[str]:
    """Yield the choices of a key that no rule forbids for a materialization as a whole."""
    for choice in key.choices:
        if not any(_excludes(rule, name, choice, materialized) for rule in schema.RULES):
            yield choice


def _excludes(rule: schema.Rule, name: str, choice: str, materialized: str) -> bool:
    known = {"materialized": materialized, name: choice}
    return all(
        each.values and each.key in known and (known[each.key] in each.values) != each.negated for each in rule.when
    )
