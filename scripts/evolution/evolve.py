"""Changes the buckets of the showcase's flights_by_month while the months of 2013 go by, and looks at the plans.

The showcase is copied into a folder of its own. There the model's config is edited as its author would do it, from a
plain incremental table to buckets by another column, and each `dbt run` writes some months. After every run come the
specs of the months, and what Spark does for a join and a grouping, with the session extension and without it. The rows
of every query are compared with those of the same query of stg_flights, a view of the CSV files.

Exit codes: 0 all rows are right, 1 some are not, 2 it could not run.
"""

from __future__ import annotations

import os
import subprocess
import sys

from answers import drawn
from showcase import ROOT, Showcase, WrongRowsError
from steps import OTHERS, QUERIES, STEPS, Step, month_name

from spark_bucketing.errors import BucketingError

FOLDER = ROOT / os.environ.get("SPARK_BUCKETING_DEMO", ".demo") / "evolution"


def look(showcase: Showcase, step: Step) -> None:
    """Print what the queries do after a step.

    Raises:
        WrongRowsError: a query has other rows than it has of the CSV files.
    """
    for first, last in (None, None), *step.looked_at:
        months, selected = "all months", "true"
        if first and last:
            names = month_name(first), month_name(last)
            months = " to ".join(dict.fromkeys(names))
            selected = "f.flight_month between '{}' and '{}'".format(*names)
        for name, query in QUERIES.items():
            answer, stock = showcase.compare(f"{name}, {months}", query, selected)
            print(f"\n{name}, {months}: {answer.moves} (stock Spark: {stock.moves})")
            print(*(f"    {line}" for line in drawn(answer.plan.root)), sep="\n")
    others = OTHERS if step.others else {}
    for name, query in others.items():
        showcase.compare(name, query, "true")
    more = f" and {len(others)} others" if others else ""
    print(f"\nThese {len(QUERIES) * (1 + len(step.looked_at))} queries{more} have the rows of the CSV files.")


def main() -> int:
    """Go through the steps; returns the exit code."""
    try:
        showcase = Showcase(FOLDER)
        for number, step in enumerate(STEPS, 1):
            print(f"\n== {number}. {step.title} ==\n")
            showcase.run(step)
            print()
            showcase.show_specs()
            look(showcase, step)
        showcase.spark.stop()
    except WrongRowsError as error:
        print(f"\nWrong rows. {error}", file=sys.stderr)
        return 1
    except (BucketingError, OSError, subprocess.CalledProcessError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
