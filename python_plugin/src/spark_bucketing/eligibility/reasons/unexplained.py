"""What no reason explains."""

from __future__ import annotations

from spark_bucketing.eligibility.movements import Explanation, Movement, Reason


class Unexplained(Reason):
    """None of the other reasons applies: the check does not understand the plan well enough.

    **Anti-pattern**

    None. It is a gap in the check.

    **Best practice**

    Look at the plan (`EXPLAIN FORMATTED`), and report it together with the query and the tables' DDL.
    """

    slug = "unexplained"
    summary = "the check found no reason; a gap in the check itself"
    about = ("Exchange", "Sort", "Join")

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies to everything."""
        tables = tuple(dict.fromkeys(scan.table for scan in movement.side.scans if scan.table))
        what = f"{'an' if movement.about == 'Exchange' else 'a'} {movement.about}"
        return Explanation(f"Spark puts {what} here, and no reason for it is known to this check.", tables)
