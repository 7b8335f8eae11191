"""Define the changes to the model's config, and the queries that run after each change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PLAIN: Mapping[str, object] = {"materialized": "incremental"}
EVOLVING: Mapping[str, object] = {"materialized": "bucketed_incremental", "on_bucket_change": "evolve"}
# Config keys that the steps change. All other keys keep the showcase's values.
KEYS = ("materialized", "on_bucket_change", "clustered_by", "buckets")


def by_plane(buckets: int) -> Mapping[str, object]:
    """Return the config for a model that is bucketed by plane, in the same way as the table of planes."""
    return {**EVOLVING, "clustered_by": ["tailnum"], "buckets": buckets}


@dataclass(frozen=True)
class Step:
    """A change to the model's config, followed by a run.

    Args:
        title: description of the step.
        config: the model's new config.
        months: the months of 2013 that the run writes.
        looked_at: the first and the last month for additional queries. These queries run after the queries over all
            months.
        others: whether to also compare the rows of the queries in OTHERS.
    """

    title: str
    config: Mapping[str, object]
    months: Sequence[int]
    looked_at: Sequence[tuple[int, int]]
    others: bool = False


STEPS = (
    Step("An unbucketed incremental table", PLAIN, (1, 2, 3), [(3, 3)]),
    Step("The table becomes bucketed: 8 buckets by plane for new months", by_plane(8), (4, 5, 6), [(5, 5)]),
    Step("8 buckets grow to 16", by_plane(16), (7, 8, 9), [(4, 9), (8, 8)]),
    Step(
        "Buckets by another column: the fourth spec, by carrier",
        {**EVOLVING, "clustered_by": ["carrier"], "buckets": 4},
        (10, 11, 12),
        [(4, 9), (11, 11)],
        others=True,
    ),
    Step(
        "By plane again: rewrite the months that are unbucketed or bucketed by carrier",
        by_plane(16),
        (1, 2, 3, 10, 11, 12),
        [(11, 11)],
    ),
)

# {flights} and {planes} stand for tables, and {selected} stands for a condition on f.flight_month.
QUERIES = {
    "join with planes": (
        "select f.flight_id, p.seats from {flights} as f join {planes} as p on f.tailnum = p.tailnum where {selected}"
    ),
    "grouping by plane": (
        "select f.tailnum, count(*), sum(f.arrival_delay) from {flights} as f where {selected} group by f.tailnum"
    ),
}
# For these queries over all months, the script compares only rows.
OTHERS = {
    "left join": """
        select f.origin, p.manufacturer, count(*)
        from {flights} as f left join {planes} as p on f.tailnum = p.tailnum group by 1, 2""",
    "full join": """
        select f.tailnum is null, p.tailnum is null, count(*)
        from {flights} as f full join {planes} as p on f.tailnum = p.tailnum and f.is_cancelled group by 1, 2""",
    "anti join": """
        select f.carrier, count(*), min(f.flight_id)
        from {flights} as f left anti join {planes} as p on f.tailnum = p.tailnum and p.seats > 100 group by 1""",
    "self join": """
        select count(*), max(f.flight_id) from {flights} as f
        join {flights} as g on f.tailnum = g.tailnum and f.flight_date = g.flight_date and f.flight_id < g.flight_id""",
    "grouping by plane and carrier": """
        select f.carrier, f.tailnum, count(*), max(f.departure_delay) from {flights} as f group by 1, 2""",
    "grouping by carrier": "select f.carrier, sum(f.arrival_delay) from {flights} as f group by 1",
    "planes of each month": """
        select f.flight_month, count(*), count(distinct f.tailnum) from {flights} as f group by 1""",
    "one plane": "select f.flight_id, f.dest, f.arrival_delay from {flights} as f where f.tailnum = 'N14228'",
    "two carriers": """
        select f.flight_id, f.tailnum from {flights} as f
        where f.carrier in ('OO', 'HA') and f.flight_month > '2013-02'""",
    "every 100th flight of each plane": """
        select flight_id from (
          select f.flight_id, row_number() over (partition by f.tailnum order by f.flight_id) as n from {flights} as f
        ) where n % 100 = 0""",
    "union": """
        select tailnum, count(*)
        from (select f.tailnum from {flights} as f union all select p.tailnum from {planes} as p) group by 1""",
}


def month_name(month: int) -> str:
    """Return a month in the form of the column flight_month."""
    return f"2013-{month:02}"
