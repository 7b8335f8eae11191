"""Merge a week of late corrections into the showcase's flights, and show which files change.

The script adds a model to a copy of the showcase. Each of the model's files contains a range of departure times. A
second run corrects the delays of one week, deletes flights that never took place, and adds a missing flight. Finally,
the script compares the table with a full recomputation.

Exit codes: 0 all rows are correct, 1 some rows are incorrect, 2 the script could not run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from showcase import ROOT, copy_showcase, open_spark, run_dbt

from spark_bucketing.errors import BucketingError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = ROOT / os.environ.get("SPARK_BUCKETING_DEMO", ".demo") / "corrections"
TABLE = "nycflights13.flights_in_time"
MODEL = """
{{ config(
  materialized='organized_incremental',
  partition_by=['flight_month'],
  range_by='hour_at',
  rows_per_file=4000,
  incremental_strategy='merge',
  unique_key=['flight_month', 'hour_at', 'flight_id'],
  delete_when="operation = 'D'",
  update_when="operation = 'U'",
  insert_when="operation = 'I'",
) }}

{% if is_incremental() %}
select * from corrections
{% else %}
select flight_id, hour_at, carrier, origin, dest, departure_delay, flight_month from {{ ref('stg_flights') }}
{% endif %}
"""
# Corrections: delays of Delta's flights in one week, a day on which Southwest did not fly, and a missing flight.
CORRECTIONS = """
    select flight_id, hour_at, carrier, origin, dest, departure_delay + 15 as departure_delay, flight_month,
        'U' as operation
    from {table} where carrier = 'DL' and hour_at >= '2013-06-10' and hour_at < '2013-06-17'
    union all
    select *, 'D' from {table} where carrier = 'WN' and to_date(hour_at) = '2013-06-12'
    union all
    select 'XX-1-JFK-2013-06-13T00', timestamp'2013-06-13 00:00:00', 'XX', 'JFK', 'BOS', 0, '2013-06', 'I'
"""
EXPECTED = """
    select flight_id, hour_at, carrier, origin, dest,
        departure_delay + if(carrier = 'DL' and hour_at >= '2013-06-10' and hour_at < '2013-06-17', 15, 0), flight_month
    from nycflights13.stg_flights where not (carrier = 'WN' and to_date(hour_at) = '2013-06-12')
    union all
    select 'XX-1-JFK-2013-06-13T00', timestamp'2013-06-13 00:00:00', 'XX', 'JFK', 'BOS', 0, '2013-06'
"""


def run() -> None:
    """Run `dbt run`."""
    print("dbt run --select +flights_in_time\n")
    run_dbt(FOLDER, "run", "--select", "+flights_in_time")


def files(spark: SparkSession) -> dict[str, tuple[str, str, int, int]]:
    """Return the first and last hour, the number of rows and the bytes of each file, from the file statistics."""
    rows = spark.sql(
        f"select file, lower.hour_at, upper.hour_at, rows, bytes from file_statistics('{TABLE}') order by 1"
    ).collect()
    return {row[0]: (str(row[1]), str(row[2]), row[3], row[4]) for row in rows}


def show(before: dict[str, tuple[str, str, int, int]], after: dict[str, tuple[str, str, int, int]]) -> None:
    """Print the files of June, and mark which files were added or deleted."""
    table = Table("", "first hour", "last hour", "rows", "bytes", "file", title=f"{TABLE}, flight_month=2013-06")
    june = {name: of for name, of in {**before, **after}.items() if "2013-06" in name}
    for name, (first, last, rows, size) in sorted(june.items(), key=lambda item: (item[1][0], item[0] in after)):
        mark = "" if name in before and name in after else "+" if name in after else "-"
        table.add_row(mark, first, last, f"{rows:,}", f"{size:,}", f"{name.split('/')[-1][:19]}...")
    console = Console(width=120)
    console.print(table)
    if before == after:
        return
    new = [of for name, of in after.items() if name not in before]
    gone = [of for name, of in before.items() if name not in after]
    console.print(
        f"The merge replaced {len(gone)} of {len(before)} files with {len(new)} new files, "
        f"which have {sum(of[3] for of in new):,} of the table's {sum(of[3] for of in after.values()):,} bytes. "
        "All other files are unchanged.\n"
    )


def main() -> int:
    """Build the table, merge the corrections, and compare the rows; return the exit code."""
    try:
        project = copy_showcase(FOLDER)
        (project / "models" / "marts" / "flights_in_time.sql").write_text(MODEL)
        spark = open_spark(project)
        run()
        before = files(spark)
        show(before, before)
        spark.sql(f"create table corrections using parquet as {CORRECTIONS.format(table=TABLE)}")
        print(
            *(
                f"{row[0]}: {row[1]:,} rows"
                for row in spark.sql("select operation, count(*) from corrections group by 1 order by 1").collect()
            ),
            sep=", ",
        )
        run()
        show(before, files(spark))
        wrong = spark.sql(
            f"(select * from {TABLE} except all ({EXPECTED})) union all (({EXPECTED}) except all select * from {TABLE})"
        ).count()
        spark.stop()
    except (BucketingError, OSError, subprocess.CalledProcessError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 2
    print("All rows match a full recomputation." if not wrong else f"{wrong:,} rows are incorrect.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
