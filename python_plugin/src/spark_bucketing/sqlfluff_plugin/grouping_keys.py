"""Compare grouping keys, window keys and filters with the bucket columns of the inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from spark_bucketing.sqlfluff_plugin.inputs import Inputs, conjuncts, offset_of
from spark_bucketing.sqlfluff_plugin.problems import Problem
from spark_bucketing.sqlfluff_plugin.relation_layouts import Layout

# Expressions that a filter could apply to the other side of the comparison instead.
_REVERSIBLE = (exp.Cast, exp.Lower, exp.Upper, exp.Trim, exp.Coalesce)


def judge_keys(
    keys: Sequence[exp.Expr], inputs: Inputs, layout: Layout | None, what: str, offset: int
) -> Iterator[Problem]:
    """Find the problems of a grouping or window over bucketed rows.

    Args:
        keys: the grouping or PARTITION BY keys.
        inputs: the inputs of the SELECT.
        layout: the layout of the rows.
        what: "grouping" or "window", for the message.
        offset: the position of the keys in the query.
    """
    if layout is None:
        return
    places = {inputs.place(inputs.bare(key)) for key in keys}
    missing = [n for n, one in enumerate(layout.columns) if not any(place in one for place in places)]
    if not missing and layout.spoiled:
        yield layout.spoiled
    elif 0 < len(missing) < len(layout.columns) and not layout.spoiled and None not in places:
        yield keys_miss_columns(layout, missing, what, offset)


def keys_miss_columns(layout: Layout, missing: Sequence[int], what: str, offset: int) -> Problem:
    """Return the problem that the keys of a join, grouping or window do not include these bucket columns."""
    names = ", ".join(layout.name(number) for number in missing)
    text = (
        f"{layout.table} is bucketed by {layout.called()}, but this {what} leaves out {names}, so Spark shuffles "
        "the table. The keys must include all bucket columns."
    )
    return Problem("keys-miss-bucket-column", text, offset)


def judge_filter(condition: exp.Expr, inputs: Inputs) -> Iterator[Problem]:
    """Find filters for which Spark cannot skip buckets, because a cast or a function wraps the bucket column."""
    for test in conjuncts(condition):
        if isinstance(test, exp.EQ):
            sides = [(test.this, test.expression), (test.expression, test.this)]
            values = [wrapped for wrapped, value in sides if isinstance(value.unnest(), exp.Literal)]
        elif isinstance(test, exp.In) and test.expressions:
            values = [test.this] if all(isinstance(one, exp.Literal) for one in test.expressions) else []
        else:
            continue
        for value in values:
            inner = inputs.bare(value)
            place = inputs.wrapped(value) if isinstance(inner, _REVERSIBLE) else None
            spec = _single_bucket_column(inputs, place[0]) if place else None
            if place and spec == place[1]:
                yield Problem(
                    "expression-over-key",
                    f"{inner.sql(dialect='spark')} is an expression over the bucket column {place[1]}, so this filter "
                    f"cannot skip buckets. Compare {place[1]} itself.",
                    offset_of(value),
                )


def _single_bucket_column(inputs: Inputs, alias: str) -> str | None:
    layout = inputs[alias].layout
    if layout is None or layout.spoiled or len(layout.columns) != 1:
        return None
    return next(iter(layout.columns[0]))[1]
