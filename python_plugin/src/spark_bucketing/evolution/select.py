"""The partitions that a predicate selects."""

from __future__ import annotations

import json
import re
from collections import Counter

from spark_bucketing.errors import SparkError, TableError
from spark_bucketing.evolution import sql
from spark_bucketing.evolution.model import Partition, Table
from spark_bucketing.evolution.warehouse import Warehouse


def select_partitions(
    warehouse: Warehouse, table: Table, where: str | None
) -> tuple[tuple[Partition, ...], frozenset[str]]:
    """Partitions for whose values a predicate of SQL holds; all of them without one.

    Spark evaluates it, over the values alone, so that it can be anything that Spark knows.

    Returns:
        The partitions, and the names of those whose rows SQL cannot tell from those of others: an INSERT would spell
        their values otherwise, such as 0.10 of a double that another engine has written, or month=01 of an int.

    Raises:
        TableError: the predicate uses other columns, or is none.
    """
    places = range(len(table.columns))
    rows = (
        f"({place}, {', '.join('null' if value is None else sql.text(value) for value in partition.values)})"
        for place, partition in enumerate(table.partitions)
    )
    # The predicate of a table without partitions has to be one, too.
    nothing = f"(-1, {', '.join('null' for _ in places)})"
    values = ", ".join(f"v{i}" for i in places)
    typed = ", ".join(f"try_cast(v{i} as {table.columns[i].type}) as {sql.name(table.columns[i].name)}" for i in places)
    spelled = ", ".join(f"try_cast(try_cast(v{i} as {table.columns[i].type}) as string)" for i in places)
    # The values' own columns must not be found by the predicate, nor may a comment at its end hide the bracket.
    query = (
        f"with typed as (select place as spark_bucketing_place, array({spelled}) as spark_bucketing_spelled, {typed} "  # noqa: S608
        f"from values {', '.join((nothing, *rows))} as v(place, {values})), marked as ("
        "select spark_bucketing_place as place, spark_bucketing_spelled as spelled, 0 as chosen from typed union all "
        "select spark_bucketing_place, spark_bucketing_spelled, 1 from typed "
        f"as {sql.name(sql.parts(table.name)[-1])} where ({where or 'true'}\n)) "
        "select place, to_json(spelled) as spelled, max(chosen) as chosen from marked where place >= 0 "
        "group by place, spelled"
    )
    try:
        found = {row["place"]: row for row in warehouse.rows(query)}
    except SparkError as error:
        # What Spark suggests is of the values' own table.
        why = re.split(r" Did you mean| SQLSTATE", str(error))[0]
        raise TableError(
            f"The predicate of --where cannot be used for {table.name}: {why} Expected a condition on the partition "
            f"columns only, which are {', '.join(column.name for column in table.columns)}, as in --where "
            f'"{_example(table)}".'
        ) from error
    alike = Counter(row["spelled"] for row in found.values())
    chosen = tuple(part for place, part in enumerate(table.partitions) if found[place]["chosen"])
    unclear = frozenset(
        part.name
        for place, part in enumerate(table.partitions)
        if tuple(json.loads(found[place]["spelled"])) != part.values or alike[found[place]["spelled"]] > 1
    )
    return chosen, unclear


def _example(table: Table) -> str:
    column = table.columns[0]
    values = [partition.values[0] for partition in table.partitions if partition.values[0] is not None]
    return f"{column.name} < {sql.literal(values[-1], column)}" if values else f"{column.name} is not null"
