"""Files in another order."""

from __future__ import annotations

from dataclasses import replace

from spark_bucketing.eligibility.changes import bucket
from spark_bucketing.eligibility.steps import Change, Explanation, Reason, Step
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

    def explain(self, step: Step) -> Explanation | None:
        """Applies to a Sort by other columns than the table's sort columns."""
        if not step.readable or step.spec is None:
            return None
        wanted = step.order_columns()
        have = tuple(name.lower() for name in step.spec.sort_columns)
        if wanted is not None and self._serves(step, wanted, have):
            return None
        order = f"sorted by {series(have)}" if have else "not sorted"
        words = step.node.details.get("Arguments", "").partition("]")[0].strip("[")
        return Explanation(
            f"The files of {step.table} are {order}, and the rows are wanted in the order of {_plain(words)}.",
            (step.table,),
            self._changes(step, wanted),
        )

    def _serves(self, step: Step, wanted: tuple[str, ...], have: tuple[str, ...]) -> bool:
        # The keys of a join are compared in the order of the buckets' columns.
        if step.op.kind == "join" and step.spec and sorted(wanted) == sorted(map(str.lower, step.spec.bucket_columns)):
            return sorted(have[: len(wanted)]) == sorted(wanted)
        return have[: len(wanted)] == wanted

    def _changes(self, step: Step, wanted: tuple[str, ...] | None) -> tuple[Change, ...]:
        if wanted is None or step.spec is None:
            return ()
        first = [name.lower() for name in step.spec.bucket_columns if name.lower() in wanted]
        rest = [name for name in wanted if name not in first]
        orders = dict.fromkeys([wanted, (*first, *rest)])
        return tuple(bucket(step.world, step.table, replace(step.spec, sort_columns=order)) for order in orders)


def _plain(order: str) -> str:
    import re

    return re.sub(r"#\d+L?", "", order).replace(" ASC NULLS FIRST", "").replace(" NULLS LAST", "")
