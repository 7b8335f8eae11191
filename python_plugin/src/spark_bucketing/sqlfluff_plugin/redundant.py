"""Find redundant operations.

Redundant operations are casts of a column to its own type, and shuffles of rows that the write shuffles again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp
from sqlglot.dialects.spark import Spark

from spark_bucketing.sqlfluff_plugin.inputs import Inputs, offset_of
from spark_bucketing.sqlfluff_plugin.problems import Fix, Problem

MOVING_HINTS = ("repartition", "repartition_by_range", "rebalance")
_HINT = re.compile(r"/\*\+(.*?)\*/", re.DOTALL)
_CAST = re.compile(r"(?i)\bcast\s*\(\s*$")
# The pattern requires the closing parenthesis. Without it, the fix could join the column with the next word.
_REST = re.compile(r"(?i)\s+as\s+\w+\s*(?:\(\s*\d+\s*(?:,\s*\d+\s*)?\)\s*)?\)(?![\w`])")


def needless_casts(part: exp.Expr | None, inputs: Inputs, sql: str) -> Iterator[Problem]:
    """Find casts of a bucket column to its own type, in a condition or in keys."""
    for cast in part.walk(prune=lambda one: isinstance(one, exp.Query)) if part is not None else ():
        inner = cast.this.unnest() if isinstance(cast, exp.Cast) else None
        place = inputs.place(inner)
        layout = inputs[place[0]].layout if place else None
        if not isinstance(cast, exp.Cast) or inner is None or layout is None or not inputs.is_needless(cast):
            continue
        if any(("", inner.name.lower()) in one for one in layout.columns):
            column = inputs.column(inner)
            text = f"{inner.sql(dialect='spark')} is already {column.type}. Remove the cast."
            start = offset_of(inner)
            yield Problem("needless-cast", text, start, _fix(sql, start, inner) if column.certain else None)


def _fix(sql: str, start: int, column: exp.Expr) -> Fix | None:
    stop = max(part.meta.get("end", -1) for part in column.find_all(exp.Identifier)) + 1
    before, after = _CAST.search(sql, 0, start), _REST.match(sql, stop)
    return Fix(slice(before.start(), after.end()), slice(start, stop)) if before and after else None


def redundant_moves(statement: exp.Expr, sql: str) -> Iterator[Problem]:
    """Find shuffles and sorts in the outermost SELECT of a bucketed model.

    Such shuffles and sorts are redundant, because the write shuffles and sorts the rows again.
    """
    if not isinstance(statement, exp.Query) or any(statement.args.get(part) for part in ("limit", "offset")):
        return
    if statement.args.get("order"):
        text = "A table has no order, and the write sorts each bucket of this table. Remove ORDER BY."
        yield Problem("global-sort", text, offset_of(statement.args["order"]))
    if not isinstance(statement, exp.Select):
        return
    clause = next((part for part in ("distribute", "cluster", "sort") if statement.args.get(part)), None)
    if clause:
        whole = _clause(sql)
        name = "DISTRIBUTE BY" if clause == "distribute" else f"{clause.upper()} BY"
        does = "sorts" if clause == "sort" else "shuffles"
        text = f"{name} {does} rows that the write to the bucketed table shuffles and sorts again. Remove it."
        # Only the user can decide whether to keep comments inside the clause, so the rule does not remove them.
        fix = Fix(whole) if whole and not re.search(r"--|/\*", sql[whole]) else None
        yield Problem("redundant-repartition", text, offset_of(statement.args[clause]), fix)
    hint = statement.args.get("hint")
    names = [str(one.this).lower() for one in hint.expressions] if hint is not None else []
    if any(name in MOVING_HINTS for name in names):
        found = _outermost_hint(sql)
        alone = found is not None and all(name in MOVING_HINTS for name in names)
        text = "This hint shuffles rows that the write to the bucketed table shuffles again. Remove it."
        leave_out = Fix(slice(len(sql[: found.start()].rstrip()), found.end())) if found and alone else None
        yield Problem("redundant-repartition", text, found.start() if found else offset_of(statement), leave_out)


def _clause(sql: str) -> slice | None:
    """Find DISTRIBUTE BY, CLUSTER BY or SORT BY outside parentheses.

    The range starts with the space before the clause, and ends with the query.
    """
    tokens = Spark().tokenize(sql)
    depth, start, stop = 0, None, None
    for before, token in zip([None, *tokens], tokens, strict=False):
        kind = token.token_type.name
        depth += (kind == "L_PAREN") - (kind == "R_PAREN")
        if depth == 0 and kind in ("DISTRIBUTE_BY", "CLUSTER_BY", "SORT_BY") and start is None and before is not None:
            start = before.end + 1 if not sql[before.end + 1 : token.start].strip() else token.start
        elif depth == 0 and start is not None and kind in ("SEMICOLON", "LIMIT", "WINDOW", "ORDER_BY"):
            return None if kind != "SEMICOLON" else slice(start, stop)
        stop = token.end + 1
    return slice(start, stop) if start is not None and stop is not None else None


def _outermost_hint(sql: str) -> re.Match[str] | None:
    """Find the hint of the outermost SELECT, or return None if there are several hints outside parentheses."""
    found = [
        match for match in _HINT.finditer(sql) if sql.count("(", 0, match.start()) == sql.count(")", 0, match.start())
    ]
    return found[0] if len(found) == 1 else None
