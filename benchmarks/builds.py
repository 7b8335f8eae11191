"""Compare building a small warehouse with and without buckets, from the first build to daily increments.

Orders and clicks are partitioned by day. Every day, both get the rows of one new day with `insert_overwrite`, and two
marts that join all orders with all clicks by user are built again. One project uses dbt-spark's materializations, and
the other one uses the materializations of this package with the same models. The projects run alternately in one warm
Spark session with the extension, after a warm-up with few rows.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_project import model, run_all, write_project
from local_spark import temporary_session
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAIN = {
    "fact": {"materialized": "incremental", "file_format": "parquet"},
    "mart": {"materialized": "table", "file_format": "parquet"},
}
BUCKETS = {"clustered_by": ["user_id"], "buckets": 4}
BUCKETED = {
    "fact": {"materialized": "bucketed_incremental", **BUCKETS},
    "mart": {"materialized": "bucketed_table", **BUCKETS},
}
DAILY = {"incremental_strategy": "insert_overwrite", "partition_by": ["day"]}
VARIANTS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {"plain": PLAIN, "bucketed": BUCKETED}
FACT = """
select
    id as {key},
    pmod(xxhash64(id, '{key}'), {users}) as user_id,
    cast(pmod(xxhash64(id), 10000) as decimal(10, 2)) / 100 as {measure},
    md5(cast(id as string)) as details,
    cast(id div {per_day} as int) as day
from range({rows})
where id div {per_day} {{% if is_incremental() %}}={{% else %}}<={{% endif %}} {{{{ var('day') }}}}
"""
MARTS = {
    "users": """
select orders.user_id, orders.orders, orders.amount, clicks.clicks, clicks.seconds
from (select user_id, count(*) as orders, sum(amount) as amount from {{ ref('orders') }} group by user_id) as orders
left join (
    select user_id, count(*) as clicks, sum(seconds) as seconds from {{ ref('clicks') }} group by user_id
) as clicks
    on orders.user_id = clicks.user_id
""",
    "order_clicks": """
select orders.user_id, orders.order_id, any_value(orders.details) as details, count(clicks.click_id) as clicks
from {{ ref('orders') }} as orders
left join {{ ref('clicks') }} as clicks on orders.user_id = clicks.user_id and orders.day = clicks.day
group by orders.user_id, orders.order_id
""",
}
TOTALS = """
select *
from (select count(*), sum(amount), sum(xxhash64(user_id, day, details) % 1000) from {schema}.orders)
cross join (select count(*), sum(seconds), sum(xxhash64(user_id, day, details) % 1000) from {schema}.clicks)
cross join (select count(*), sum(orders), sum(amount), sum(clicks), sum(seconds) from {schema}.users)
cross join (select count(*), sum(clicks), sum(xxhash64(details) % 1000) from {schema}.order_clicks)
"""


def main() -> None:
    """Run both projects, compare their rows, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=2_000_000, help="number of orders")
    parser.add_argument("--clicks", type=int, default=5_000_000, help="number of clicks")
    parser.add_argument("--users", type=int, default=100_000, help="number of users")
    parser.add_argument("--days", type=int, default=30, help="number of days, including the increments")
    parser.add_argument("--increments", type=int, default=5, help="number of days that get their own run")
    parser.add_argument("--runs", type=int, default=3, help="number of repetitions")
    options = parser.parse_args()
    with temporary_session("4g", {"spark.sql.shuffle.partitions": "8"}) as (spark, folder):
        small = argparse.Namespace(**{**vars(options), "orders": 3000, "clicks": 3000, "days": 3, "increments": 1})
        _measure(spark, folder / "small", small)
        Console(width=120).print(_table([_measure(spark, folder / str(n), options) for n in range(options.runs)]))


def _measure(spark: SparkSession, folder: Path, options: argparse.Namespace) -> dict[str, list[dict[str, float]]]:
    """Return the seconds of each model, per variant and per run of dbt: the first build, then the increments."""
    projects = {variant: _project(folder, variant, options) for variant in VARIANTS}
    seconds: dict[str, list[dict[str, float]]] = {variant: [] for variant in VARIANTS}
    for day in range(options.days - options.increments - 1, options.days):
        # Each variant is first on every other day.
        for variant, project in sorted(projects.items(), reverse=day % 2 == 1):
            seconds[variant].append(run_all(project, {"day": day}))
    totals = {variant: spark.sql(TOTALS.format(schema=projects[variant].name)).collect() for variant in VARIANTS}
    if totals["plain"] != totals["bucketed"]:
        raise SystemExit(f"The tables differ: {totals}")
    for project in projects.values():
        spark.sql(f"drop database {project.name} cascade")
    return seconds


def _project(folder: Path, variant: str, options: argparse.Namespace) -> Path:
    config = VARIANTS[variant]
    facts = {"orders": ("order_id", "amount", options.orders), "clicks": ("click_id", "seconds", options.clicks)}
    models = {mart: model(query, **config["mart"]) for mart, query in MARTS.items()}
    for name, (key, measure, rows) in facts.items():
        query = FACT.format(
            key=key, measure=measure, rows=rows, users=options.users, per_day=math.ceil(rows / options.days)
        )
        models[name] = model(query, **config["fact"], **DAILY)
    return write_project(folder / variant, models, schema=variant)


def _table(runs: list[dict[str, list[dict[str, float]]]]) -> Table:
    table = Table("", "plain, seconds", "bucketed, seconds", "bucketed / plain", title="Medians of the total times")
    names = ("orders", "clicks", *MARTS)
    for title, builds in {"first build": slice(0, 1), "increments": slice(1, None), "total": slice(None)}.items():
        for label, models in [*((f"{title}: {name}", (name,)) for name in names), (title, names)]:
            plain, bucketed = (
                statistics.median(sum(build[name] for build in run[variant][builds] for name in models) for run in runs)
                for variant in VARIANTS
            )
            table.add_row(label, f"{plain:.1f}", f"{bucketed:.1f}", f"{bucketed / plain:.2f}")
    return table


if __name__ == "__main__":
    main()
