"""Files in another order."""

from __future__ import annotations

from dataclasses import replace

from spark_bucketing.eligibility.changes import Change, bucket
from spark_bucketing.eligibility.movements import Explanation, Movement, Reason
from spark_bucketing.eligibility.words import series


class SortColumnsMismatch(Reason):
    """The files are sorted by other columns than the operator wants, or not at all.

    **Anti-pattern**

    ```sql
    -- clicks: clustered_by=['user_id'], sorted_by=['event_at']
    select * from clicks join users using (user_id)
    ```

    A descending order is never that of a file:

    ```sql
    select *, row_number() over (partition by user_id order by event_at desc) as n from clicks
    ```

    **Best practice**

    Sort by the bucket columns first, then by what windows over them are ordered by: `sorted_by=['user_id',
    'event_at']`.
    """

    slug = "sort-columns-mismatch"
    summary = "the files are sorted otherwise than the operator wants"
    about = ("Sort",)

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies to a Sort by other columns than the table's sort columns."""
        if not movement.readable or movement.spec is None:
            return None
        wanted = movement.order_columns()
        have = tuple(name.lower() for name in movement.spec.sort_columns)
        if wanted is not None and self._serves(movement, wanted, have):
            return None
        order = f"sorted by {series(have)}" if have else "not sorted"
        words = movement.node.details.get("Arguments", "").partition("]")[0].strip("[")
        return Explanation(
            f"The files of {movement.table} are {order}, and the rows are wanted in the order of {_plain(words)}.",
            (movement.table,),
            self._changes(movement, wanted),
        )

    def _serves(self, movement: Movement, wanted: tuple[str, ...], have: tuple[str, ...]) -> bool:
        # The keys of a join are compared in the order of the buckets' columns.
        if (
            movement.op.kind == "join"
            and movement.spec
            and sorted(wanted) == sorted(map(str.lower, movement.spec.bucket_columns))
        ):
            return sorted(have[: len(wanted)]) == sorted(wanted)
        return have[: len(wanted)] == wanted

    def _changes(self, movement: Movement, wanted: tuple[str, ...] | None) -> tuple[Change, ...]:
        if wanted is None or movement.spec is None or movement.facts is None:
            return ()
        first = [name.lower() for name in movement.spec.bucket_columns if name.lower() in wanted]
        rest = [name for name in wanted if name not in first]
        orders = dict.fromkeys([wanted, (*first, *rest)])
        specs = (replace(movement.spec, sort_columns=order) for order in orders)
        return tuple(change for spec in specs for change in bucket(movement.facts, spec))


def _plain(order: str) -> str:
    import re

    return re.sub(r"#\d+L?", "", order).replace(" ASC NULLS FIRST", "").replace(" NULLS LAST", "")
