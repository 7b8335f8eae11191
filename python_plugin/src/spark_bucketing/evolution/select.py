"""The partitions that a predicate selects."""

from __future__ import annotations

import re

from spark_bucketing.errors import SparkError, TableError
from spark_bucketing.evolution import sql
from spark_bucketing.evolution.model import Partition, Table
from spark_bucketing.evolution.warehouse import Warehouse


def select_partitions(warehouse: Warehouse, table: Table, where: str | None) -> tuple[Partition, ...]:
    """Partitions for whose values a predicate of SQL holds; all of them without one.

    Spark evaluates it, over a table of the values alone, so that it can be anything that Spark knows.

    Raises:
        TableError: the predicate uses other columns, or is none.
    """
    if where is None:
        return table.partitions
    names = [column.name for column in table.columns]
    typed = ", ".join(
        f"try_cast(v{i} as {column.type}) as {sql.name(column.name)}" for i, column in enumerate(table.columns)
    )
    schema = ", ".join(["place int", *(f"v{i} string" for i in range(len(names)))])
    rows = [(place, *partition.values) for place, partition in enumerate(table.partitions)]
    values = warehouse.session.createDataFrame(rows, schema)
    values.createOrReplaceTempView("spark_bucketing_values")
    # The values' own columns must not be found by the predicate.
    query = (
        f"select spark_bucketing_place from (select place as spark_bucketing_place, {typed} "  # noqa: S608
        f"from spark_bucketing_values) as {sql.name(sql.parts(table.name)[-1])} where ("
    )
    try:
        # A comment at the predicate's end must not hide the bracket.
        found = warehouse.rows(f"{query}{where}\n)")
    except SparkError as error:
        # What Spark suggests is of the values' own table.
        why = re.split(r" Did you mean| SQLSTATE", str(error))[0]
        raise TableError(
            f"The predicate of --where cannot be used for {table.name}: {why} Expected a condition on the partition "
            f'columns only, which are {", ".join(names)}, as in --where "{_example(table)}".'
        ) from error
    finally:
        warehouse.session.catalog.dropTempView("spark_bucketing_values")
    chosen = {row["spark_bucketing_place"] for row in found}
    return tuple(partition for place, partition in enumerate(table.partitions) if place in chosen)


def _example(table: Table) -> str:
    column = table.columns[0]
    values = [partition.values[0] for partition in table.partitions if partition.values[0] is not None]
    return f"{column.name} < {sql.literal(values[-1], column)}" if values else f"{column.name} is not null"
