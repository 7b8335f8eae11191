"""Sorts of rows that an operator below has moved, or that come from no file."""

from __future__ import annotations

from spark_bucketing.eligibility.movements import Explanation, Movement, Reason
from spark_bucketing.eligibility.words import purpose


class RowsJustMoved(Reason):
    """The rows were moved, grouped or joined by an operator below, so that they come in no order.

    **Anti-pattern**

    None: a sort is due after rows were moved. What moved them has a reason of its own.

    **Best practice**

    See to the shuffle below; the sort goes with it.
    """

    slug = "rows-just-moved"
    summary = "the rows come from an operator that moved them, in no order"
    about = ("Sort",)

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies to a Sort whose input is not a scan's buckets."""
        if movement.readable and any(arrival.table for arrival in movement.arrivals):
            return None
        tables = tuple(dict.fromkeys(scan.table for scan in movement.side.scans if scan.table))
        return Explanation(f"The rows {purpose(movement)} come from operators that leave them in no order.", tables)
