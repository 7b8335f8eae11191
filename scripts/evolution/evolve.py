"""Change the buckets of the showcase's flights_by_month step by step, and show the plans after each run.

The script copies the showcase, and edits the model's config step by step, as a user would. At first, the model is an
unbucketed incremental table. In the last step, it gets buckets by another column. Each `dbt run` writes some months of
2013. After every run, the script prints the bucket specs of the months. The script also prints the plans of a join and
an aggregate, with the extension and on stock Spark. For every query, the script compares the result with the result of
the same query over stg_flights, a view of the CSV files.

Exit codes: 0 all rows are correct, 1 some rows are incorrect, 2 the script could not run.
"""

from __future__ import annotations

import os
import subprocess
import sys

from showcase import ROOT, Showcase, WrongRowsError, plan_lines
from steps import OTHERS, QUERIES, STEPS, Step, month_name

from spark_bucketing.errors import BucketingError

FOLDER = ROOT / os.environ.get("SPARK_BUCKETING_DEMO", ".demo") / "evolution"


def show_plans(showcase: Showcase, step: Step) -> None:
    """Print the plans of the queries after a step.

    Raises:
        WrongRowsError: a query does not return the same rows as the same query over the CSV files.
    """
    for first, last in (None, None), *step.looked_at:
        months, selected = "all months", "true"
        if first and last:
            names = month_name(first), month_name(last)
            months = " to ".join(dict.fromkeys(names))
            selected = "f.flight_month between '{}' and '{}'".format(*names)
        for name, query in QUERIES.items():
            answer, stock = showcase.compare(f"{name}, {months}", query, selected)
            print(f"\n{name}, {months}: {answer.shuffles_and_sorts} (stock Spark: {stock.shuffles_and_sorts})")
            print(*(f"    {line}" for line in plan_lines(answer.plan.roots[0])), sep="\n")
    others = OTHERS if step.others else {}
    for name, query in others.items():
        showcase.compare(name, query, "true")
    more = f" and {len(others)} others" if others else ""
    print(
        f"\nThese {len(QUERIES) * (1 + len(step.looked_at))} queries{more} return the same rows as over the CSV files."
    )


def main() -> int:
    """Run all steps; return the exit code."""
    try:
        showcase = Showcase(FOLDER)
        for number, step in enumerate(STEPS, 1):
            print(f"\n== {number}. {step.title} ==\n")
            showcase.run(step)
            print()
            showcase.show_specs()
            show_plans(showcase, step)
        showcase.spark.stop()
    except WrongRowsError as error:
        print(f"\nSome rows are incorrect. {error}", file=sys.stderr)
        return 1
    except (BucketingError, OSError, subprocess.CalledProcessError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
