"""Build a report with every kind of content to test the report formats."""

from __future__ import annotations

from dataclasses import replace

from spark_bucketing.checks.acceptance import fingerprint
from spark_bucketing.checks.results import (
    Finding,
    Fix,
    Found,
    ModelResult,
    OperatorResult,
    Parent,
    Report,
    Verdict,
    map_all_findings,
)
from spark_bucketing.spec import BucketSpec

USERS_BY_ID = BucketSpec(64, ("user_id",), ("user_id",), "hive")
MISMATCH = Finding(
    "bucket-count-mismatch",
    "shop.clicks has 64 buckets and shop.users has 24: neither is a multiple of the other.",
    tables=("shop.clicks", "shop.users"),
    fixes=(
        Fix("bucket_spec", "Give model users buckets=64 and rebuild it.", table="shop.users", spec=USERS_BY_ID),
        Fix("setting", "set spark.x=true", {"spark.x": "true"}, verdict=Verdict.SHUFFLE_FREE),
    ),
    line=12,
    source="join {{ ref('users') }} as u using (user_id) -- <all>",
    bytes_shuffled=3 * 1024**4,
)
CAST = Finding("expression-over-key", "cast(user_id as string) hides the buckets <of> 'clicks', 100%", level="note")
WIDE = Finding(
    "side-not-bucketed", "shop.raw has no buckets.", tables=("shop.raw",), bytes_shuffled=5 * 1024**4, line=3
)
ALLOWED = Finding("union", "A union loses the buckets.", accepted="allow")
KNOWN = Finding("scan-ordering-disabled", "A setting is off.", level="error", accepted="baseline", line=7)
TOO_OLD = Finding("unsupported-spark-version", "Spark 3.4 is too old.", level="error")

USERS = ModelResult(
    "users", "models/users.sql", unique_id="model.shop.users", inputs=(Parent("source.shop.raw.people"),)
)
JOINED = ModelResult(
    "joined",
    "models/marts/joined.sql",
    (
        OperatorResult(
            "join", "inner join on user_id = user_id", Verdict.SHUFFLED, ("shop.clicks",), 2, 2, (MISMATCH,)
        ),
        OperatorResult("aggregate", "GROUP BY user_id", Verdict.SORT_FREE, ("shop.clicks",), 0, 0, (ALLOWED, KNOWN)),
        OperatorResult("window", "PARTITION BY cast(user_id)", Verdict.ONE_SIDED, ("shop.clicks",), 1, 1, (CAST,)),
    ),
    unique_id="model.shop.joined",
    inputs=(Parent("model.shop.users", Verdict.SHUFFLED), Parent("source.shop.raw.clicks", Verdict.ONE_SIDED)),
)
LATER = ModelResult(
    "later",
    "models/later.sql",
    (OperatorResult("join", "left join on a = b", Verdict.ONE_SIDED, ("shop.raw",), 1, 1, (WIDE,)),),
    unique_id="model.shop.later",
    inputs=(Parent("model.shop.joined", Verdict.SORT_FREE), Parent("source.shop.raw.clicks", Verdict.BROADCAST)),
)
BROKEN = ModelResult(
    "broken", "models/broken.sql", unique_id="model.shop.broken", inputs=(Parent("model.shop.later"),)
).failed("[TABLE_OR_VIEW_NOT_FOUND] The table `shop`.`gone` cannot be found.\nThere is <none>.")
NOT_RECOGNIZED = Finding("unknown", "Operator not recognized: distinct: DISTINCT a", level="unknown")
ODD = ModelResult(
    "odd.sql",
    "queries/odd.sql",
    (OperatorResult("distinct", "DISTINCT a", Verdict.UNKNOWN, findings=(NOT_RECOGNIZED,)),),
)


def identified(found: Found) -> Finding:
    """Return a finding with its fingerprint."""
    return replace(found.finding, fingerprint=fingerprint(found))


WITHOUT_IDS = Report((USERS, JOINED, LATER, BROKEN, ODD), (TOO_OLD,), "offline, Spark 4.3.0", ("last",))
REPORT = map_all_findings(WITHOUT_IDS, identified)
CLEAN = Report((USERS,), (), "live (session), Spark 4.3.0")


def joined(*findings: Finding, verdict: Verdict = Verdict.SHUFFLED, **changes: str) -> Report:
    """Return a report of one model whose join has these findings."""
    operator = replace(JOINED.operators[0], verdict=verdict, findings=findings, **changes)  # type: ignore[arg-type]
    return map_all_findings(Report((replace(JOINED, operators=(operator,)),)), identified)
