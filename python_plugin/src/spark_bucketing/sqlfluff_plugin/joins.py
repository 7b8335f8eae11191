"""Compare joins with the bucket specs of their inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from spark_bucketing.spec import hash_name
from spark_bucketing.sqlfluff_plugin.problems import Problem
from spark_bucketing.sqlfluff_plugin.relation_layouts import Layout, Place, Relation
from spark_bucketing.sqlfluff_plugin.scope import Scope, offset_of, plain_type
from spark_bucketing.sqlfluff_plugin.violations import base_type

# Types whose hashes differ. Any other type is converted to one of these or is not certain enough to compare.
_HASHED = ("boolean", "tinyint", "smallint", "int", "bigint", "decimal", "string", "date", "timestamp")


@dataclass(frozen=True)
class Judged:
    """The problems of a join, and the layout of its rows."""

    problems: Sequence[Problem]
    layout: Layout | None


@dataclass(frozen=True)
class _Key:
    """One equality of a join, with the left side first."""

    left: exp.Expr
    right: exp.Expr


@dataclass(frozen=True)
class _Side:
    """The bucket columns of one side, matched with the keys of a join."""

    layout: Layout
    plain: tuple[int | None, ...]  # the index of the key on each bucket column
    wrapped: tuple[int | None, ...]  # the index of the key with an expression over each bucket column

    @property
    def covered(self) -> bool:
        return None not in self.plain


def judge_join(
    join: exp.Join,
    others: Sequence[exp.Expr],
    scope: Scope,
    alias: str,
    relation: Relation,
    left: Layout | None,
    right: Layout | None,
) -> Judged:
    """Judge one join.

    Args:
        join: the join, with its ON or USING clause.
        others: conditions of WHERE and of other joins; Spark adds those on these two inputs to this join.
        scope: the inputs before the join.
        alias: the alias of the input that the join adds.
        relation: the relation of that input.
        left: the layout of the rows before the join.
        right: the layout of that input's rows.
    """
    both = Scope()
    both.relations = {**scope.relations}
    both.merged = scope.merged
    both.add(alias, relation)
    keys, certain = _keys(join, others, scope, both, alias)
    _merge(join, keys, scope, alias)
    sides = (_side(left, [key.left for key in keys], both), _side(right, [key.right for key in keys], both))
    problems = list(_lost_layout(sides))
    for side, texts in zip(sides, ([key.left for key in keys], [key.right for key in keys]), strict=True):
        if side and not side.layout.spoiled and not side.covered and certain:
            problems += _uncovered(side, texts, join)
    if sides[0] and sides[1] and not problems:
        problems += _unlike(sides[0], sides[1], keys, both)
    return Judged(problems, _layout_after(join, sides, keys, both, fits=not problems))


def _keys(join: exp.Join, others: Sequence[exp.Expr], scope: Scope, both: Scope, alias: str) -> tuple[list[_Key], bool]:
    """Return the equalities of a join, its own first, and whether all of its conditions were understood."""
    if join.args.get("method"):
        return [], False
    keys = [_using(name, scope, alias) for name in join.args.get("using") or ()]
    parts, elsewhere = conjuncts(join.args.get("on")), [part for other in others for part in conjuncts(other)]
    certain = bool(keys or parts or elsewhere)
    for part in [*parts, *elsewhere]:
        test = part.unnest()
        if not isinstance(test, exp.EQ):
            joining = any(len(_aliases(one, both)) > 1 for one in test.find_all(exp.EQ, exp.NullSafeEQ))
            certain = certain and not (joining and isinstance(test, (exp.NullSafeEQ, exp.Or)))
            continue
        here, there = _aliases(test.this, both), _aliases(test.expression, both)
        if not here or not there:
            continue
        if None in here | there:
            # A condition of another join may refer to inputs that come later.
            certain = certain and any(one is part for one in elsewhere) and _is_of_others(test, both)
        elif alias not in here and there == {alias} and here:
            keys.append(_Key(test.this, test.expression))
        elif alias not in there and here == {alias} and there:
            keys.append(_Key(test.expression, test.this))
    return keys, certain


def _merge(join: exp.Join, keys: Sequence[_Key], scope: Scope, alias: str) -> None:
    """Note the input that the columns of USING come from: the side whose rows are all kept."""
    for name, key in zip(join.args.get("using") or (), keys, strict=False):
        left = key.left.args["table"].name if isinstance(key.left, exp.Column) else None
        scope.merged[name.name.lower()] = {"RIGHT": alias, "FULL": None}.get(_kind(join), left)


def _kind(join: exp.Join) -> str:
    return join.side.upper() if isinstance(join.side, str) else ""


def _using(name: exp.Expr, scope: Scope, alias: str) -> _Key:
    holding = [one for one, relation in scope.relations.items() if name.name.lower() in relation.columns]
    first = scope.merged.get(name.name.lower()) or (holding[0] if holding else next(iter(scope.relations), ""))
    left, right = exp.column(name.copy(), table=first), exp.column(name.copy(), table=alias)
    for column in (left, right):
        column.this.meta.update(name.meta)
    return _Key(left, right)


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """Split a condition into its conjuncts."""
    if condition is None:
        return []
    inner = condition.unnest()
    return [one for part in inner.flatten() for one in conjuncts(part)] if isinstance(inner, exp.And) else [inner]


def _is_of_others(test: exp.Expr, both: Scope) -> bool:
    return any(column.table and column.table.lower() not in both.relations for column in test.find_all(exp.Column))


def _aliases(expression: exp.Expr, both: Scope) -> set[str | None]:
    """Return the inputs that an expression reads; None stands for an unknown one."""
    places = [both.place(column) for column in expression.find_all(exp.Column)]
    return {place[0] if place else None for place in places}


def _side(layout: Layout | None, keys: Sequence[exp.Expr], both: Scope) -> _Side | None:
    if layout is None:
        return None
    plain = [both.place(both.bare(key)) for key in keys]
    wrapped = [both.wrapped(key) for key in keys]
    return _Side(layout, _among(layout, plain), _among(layout, wrapped))


def _among(layout: Layout, places: Sequence[Place | None]) -> tuple[int | None, ...]:
    return tuple(next((n for n, place in enumerate(places) if place in one), None) for one in layout.columns)


def _lost_layout(sides: Sequence[_Side | None]) -> Iterator[Problem]:
    for side in sides:
        if side and side.covered and side.layout.spoiled:
            yield Problem(side.layout.spoiled.rule, side.layout.spoiled.text, side.layout.spoiled.offset)


def _uncovered(side: _Side, keys: Sequence[exp.Expr], join: exp.Join) -> Iterator[Problem]:
    layout = side.layout
    missing = [n for n, key in enumerate(side.plain) if key is None]
    hidden = [side.wrapped[n] for n in missing]
    if None not in hidden:
        key = keys[hidden[0] or 0]
        yield Problem(
            "expression-over-key",
            f"{layout.table} is bucketed by {layout.called()}, but this join compares {key.sql(dialect='spark')}, so "
            "Spark shuffles the table. Compute the expression in the model that builds the table, or give the keys "
            "one type.",
            offset_of(key),
        )
    elif len(missing) < len(side.plain) or any(key is not None for key in hidden):
        names = ", ".join(layout.name(n) for n in missing)
        yield Problem(
            "keys-miss-bucket-column",
            f"{layout.table} is bucketed by {layout.called()}, but this join leaves out {names}, so Spark shuffles "
            "the table. The keys must include all bucket columns.",
            offset_of(keys[0]) if keys else offset_of(join),
        )


def _unlike(left: _Side, right: _Side, keys: Sequence[_Key], both: Scope) -> Iterator[Problem]:
    """Find the first reason why the two sides cannot be joined bucket by bucket."""
    if not left.covered or not right.covered or left.layout.spoiled or right.layout.spoiled:
        return
    here, there = left.layout, right.layout
    for number in left.plain:
        key = keys[number or 0]
        types = [both.column(both.bare(side)).type for side in (key.left, key.right)]
        known = [plain_type(kind) for kind in types if kind and base_type(plain_type(kind)) in _HASHED]
        if len(known) == 2 and known[0] != known[1]:
            text = f"{key.left.sql(dialect='spark')} is {known[0]} and {key.right.sql(dialect='spark')} is {known[1]}"
            yield Problem(
                "key-types-differ",
                f"{text}, so Spark casts one of them, which changes its hash. Give the keys one type.",
                offset_of(key.left),
            )
            return
    if here.bucket_hash != there.bucket_hash:
        rule, instead = "hash-mismatch", "Choose one bucket_hash"
        one, other = sorted((here, there), key=lambda layout: layout.bucket_hash)
        text = f"{one.table} has {hash_name(one.bucket_hash)} and {other.table} has {hash_name(other.bucket_hash)}"
    elif max(here.num_buckets, there.num_buckets) % min(here.num_buckets, there.num_buckets):
        rule, instead = "bucket-count-mismatch", "Use powers of two"
        counts = f"{here.table} has {here.num_buckets} buckets and {there.table} has {there.num_buckets}"
        text = f"{counts}, and neither number is a multiple of the other"
    elif left.plain != right.plain:
        rule, instead = "bucket-columns-differ", "Bucket both by the same keys, in the same order"
        columns = f"{here.table} is bucketed by {here.called()} and {there.table} by {there.called()}"
        text = f"{columns}, which are different keys of this join"
    else:
        return
    yield Problem(rule, f"{text}: {instead}.", offset_of(keys[0].left))


def _layout_after(
    join: exp.Join, sides: tuple[_Side | None, _Side | None], keys: Sequence[_Key], both: Scope, *, fits: bool
) -> Layout | None:
    """Return the layout of a join's rows, which is the layout of the side that Spark does not shuffle."""
    left, right = sides
    kind = _kind(join)
    if not fits or kind == "FULL" or join.args.get("method"):
        return None
    if left and left.covered and kind != "RIGHT":
        layout = left.layout
    elif right and right.covered and kind != "LEFT" and join.kind not in ("SEMI", "ANTI"):
        layout = right.layout
    else:
        return None
    if left and right and left.covered and right.covered and left.layout.num_buckets != right.layout.num_buckets:
        return None
    if kind:
        return layout
    equal = [(both.place(both.bare(key.left)), both.place(both.bare(key.right))) for key in keys]
    columns = tuple(
        one | {b for a, b in equal if a in one and b} | {a for a, b in equal if b in one and a}
        for one in layout.columns
    )
    return replace(layout, columns=columns)
