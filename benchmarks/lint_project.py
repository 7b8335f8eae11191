"""Generate a dbt project with random models that read bucketed tables.

The same seed always produces the same project.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from bench_project import model, profile, write_files

_SHUFFLING = ("limit", "repartition", "distribute")
COLUMNS = ("k", "g", "d", "v", "w")


@dataclass(frozen=True)
class Source:
    """A source table, which may be bucketed by some of the columns k (number), g (string) and d (date)."""

    name: str
    by: tuple[str, ...]
    buckets: int
    bucket_hash: str
    key: str  # type of k

    @property
    def entry(self) -> Mapping[str, Any]:
        """Return the table's entry for the YAML file of the sources."""
        types = {"k": self.key, "g": "string", "d": "date", "v": "int", "w": "int"}
        spec = {"clustered_by": [*self.by], "sorted_by": [*self.by], "buckets": self.buckets}
        bucketing = {**spec, "bucket_hash": self.bucket_hash} if self.by else {}
        columns = [{"name": name, "data_type": types[name]} for name in COLUMNS]
        return {
            "name": self.name,
            "columns": columns,
            "config": {"meta": {"bucketing": bucketing} if bucketing else {}},
        }


def write_project(folder: Path, models: int, seed: int) -> None:
    """Write a project for an embedded Spark, with the given number of models and with the views that they read."""
    random = Random(seed)  # noqa: S311  (no secret)
    sources = _sources()
    tables = [source.entry for source in sources]
    described = {"version": 2, "sources": [{"name": "raw", "schema": "raw", "tables": tables}]}
    files = {
        "dbt_project.yml": json.dumps({"name": "shop", "profile": "shop"}),
        "profiles.yml": profile("shop", "shop"),
        "models/sources.yml": json.dumps(described),
    }
    for source in sources:
        view = f"\nselect k, g, d, v, w\nfrom {_read(source)}\nwhere w is not null"
        files[f"models/view_{source.name}.sql"] = model(view, materialized="view")
    for number in range(models):
        # Every second model follows the best practices, so few rules should report violations in it.
        tidy = number % 2 == 1
        query = _query(random, _compatible_sources(sources) if tidy else sources, tidy=tidy)
        files[f"models/m{number:04}.sql"] = model(f"\n{query}", materialized="table")
    write_files(folder, files)


def _sources() -> list[Source]:
    made: list[Source] = []
    for by, counts in [(("k",), (8, 16, 24, 64)), (("g",), (8, 12)), (("k", "g"), (8, 16)), (("k", "d"), (16,))]:
        for buckets in counts:
            for bucket_hash in ("hive", "spark"):
                made.append(Source(f"t{len(made):02}", by, buckets, bucket_hash, "bigint"))
    made.append(Source("int_8", ("k",), 8, "hive", "int"))
    made += [Source(f"plain_{number}", (), 0, "hive", "bigint") for number in (1, 2)]
    return made


def _compatible_sources(sources: Sequence[Source]) -> list[Source]:
    """Return the tables whose bucket specs are compatible with each other."""
    return [
        one for one in sources if (one.by, one.bucket_hash, one.key) == (("k",), "hive", "bigint") and one.buckets != 24
    ]


def _read(source: Source) -> str:
    return f"{{{{ source('raw', '{source.name}') }}}}"


def _input(random: Random, sources: Sequence[Source], *, tidy: bool) -> str:
    """Return a table or subquery for a FROM clause, with the columns k, g, d, v and w."""
    first, second = random.choice(sources), random.choice(sources)
    star = f"select * from {_read(first)}"
    named = f"select k, g, d, v, w from {_read(first)}"
    choices = {
        _read(first): 12,
        f"{{{{ ref('view_{first.name}') }}}}": 2,
        f"({star} where v > {random.randint(1, 9)})": 3,
        f"({named} where g = 'x')": 2,
        f"(select k, g, d, max(v) as v, max(w) as w from {_read(first)} group by k, g, d)": 1,
        f"({star} limit 1000)": 1,
        f"(select /*+ repartition(7) */ * from {_read(first)})": 1,
        f"({named} distribute by v)": 1,
        f"({named} union all select k, g, d, v, w from {_read(second)})": 2,
        f"(select k, lower(g) as g, d, v, w from {_read(first)})": 1,
    }
    if tidy:
        choices = {text: weight for text, weight in choices.items() if not any(word in text for word in _SHUFFLING)}
    return random.choices(list(choices), list(choices.values()))[0]


def _condition(random: Random, left: str, right: str) -> str:
    """Return the ON clause of a join."""
    key = f"{left}.k = {right}.k"
    text = f"{left}.g = {right}.g"
    choices = {
        f"on {key}": 10,
        f"on {right}.k = {left}.k": 2,
        f"on {key} and {text}": 6,
        f"on {text}": 4,
        f"on {key} and {left}.d = {right}.d": 2,
        f"on {key} and {left}.v > {right}.w": 2,
        f"on cast({left}.k as string) = {right}.g": 2,
        f"on cast({left}.k as bigint) = cast({right}.k as bigint)": 1,
        f"on lower({left}.g) = {right}.g": 3,
        f"on {key} and lower({left}.g) = lower({right}.g)": 2,
        f"on {left}.v = {right}.v": 2,
        f"on {key} and ({left}.v = 1 or {right}.v = 2)": 1,
    }
    return random.choices(list(choices), list(choices.values()))[0]


def _query(random: Random, sources: Sequence[Source], *, tidy: bool) -> str:
    """Return a query over up to three inputs: a join, an aggregate, a window or a projection, with or without CTEs.

    With `tidy`, the keys of all joins and groupings include k, and the query contains no other shuffle.
    """
    inputs = [_input(random, sources, tidy=tidy) for _ in range(random.choice((1, 2, 2, 2, 2, 3)))]
    with_: list[str] = []
    for number, one in enumerate(inputs):
        if one.startswith("(") and random.random() < 0.5:
            with_.append(f"c{number} as {one}")
            inputs[number] = f"c{number}"
    body = f"from {inputs[0]} as a"
    for number, one in enumerate(inputs[1:], start=1):
        kind = random.choices(("inner join", "left join", "right join", "full join"), (10, 5, 1, 1))[0]
        left = random.choice("abc"[:number])
        condition = _condition(random, left, "abc"[number])
        while tidy and f"{left}.k = " not in condition and f" = {left}.k" not in condition:
            condition = _condition(random, left, "abc"[number])
        body += f"\n{kind} {one} as {'abc'[number]} {condition}"
    if random.random() < 0.2:
        body += f"\nwhere a.v > {random.randint(1, 9)}"
    keys = random.choice(
        ("a.k", "a.k, a.g", "a.k, a.d, a.v") if tidy else ("a.k", "a.g", "a.k, a.g", "a.g, a.v", "a.d")
    )
    ends = {
        f"select a.k, a.g, a.v, a.w\n{body}": 6 if len(inputs) > 1 else 1,
        f"select {keys}, count(*) as n, max(a.w) as w\n{body}\ngroup by {keys}": 3,
        f"select a.k, a.v, row_number() over (partition by {keys} order by a.w) as n\n{body}": 2,
    }
    select = random.choices(list(ends), list(ends.values()))[0]
    return ("with " + ",\n\n".join(with_) + "\n\n" if with_ else "") + select
