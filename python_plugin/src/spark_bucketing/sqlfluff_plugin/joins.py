"""Compare joins with the bucket specs of their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from spark_bucketing.config.schema import HIVE_TYPES, base_type
from spark_bucketing.spec import are_compatible, hash_name
from spark_bucketing.sqlfluff_plugin.grouping_keys import keys_miss_columns
from spark_bucketing.sqlfluff_plugin.inputs import Inputs, conjuncts, offset_of, type_of
from spark_bucketing.sqlfluff_plugin.problems import Problem
from spark_bucketing.sqlfluff_plugin.relation_layouts import Layout, Place

# Types whose hashes differ. The rules convert any other type to one of these, or do not compare it.
_HASHED = (*HIVE_TYPES, "timestamp")


@dataclass(frozen=True)
class _Key:
    """An equality in a join condition.

    The expression for the left side comes first.
    """

    left: exp.Expr
    right: exp.Expr


@dataclass(frozen=True)
class _Side:
    """The bucket columns of one side of a join, and the join keys that correspond to them."""

    layout: Layout
    keys: Sequence[exp.Expr]
    others: Sequence[exp.Expr]  # the other sides of these equalities
    plain: tuple[int | None, ...]  # for each bucket column, the index of the key that is this column
    wrapped: tuple[int | None, ...]  # for each bucket column, the index of the key that is an expression over it

    @property
    def covered(self) -> bool:
        return None not in self.plain


class JudgedJoin:
    """The problems of one join, and the bucket layout of its result.

    Args:
        join: the join with its ON clause.
        others: conditions in WHERE and in other joins. Spark moves conditions that concern both inputs of this join
            into it.
        inputs: the inputs before the join, and the input that the join adds.
        left: the layout of the rows before the join.
        right: the layout of the rows of the added input.
    """

    def __init__(
        self, join: exp.Join, others: Sequence[exp.Expr], inputs: Inputs, left: Layout | None, right: Layout | None
    ) -> None:
        self._join, self._inputs = join, inputs
        self._keys, certain = self._equalities(others)
        here, there = [key.left for key in self._keys], [key.right for key in self._keys]
        self._left, self._right = self._side(left, here, there), self._side(right, there, here)
        self.problems = self._problems(certain)
        self.layout = None if self.problems else self._layout_after()

    def _equalities(self, others: Sequence[exp.Expr]) -> tuple[list[_Key], bool]:
        """Return all equalities of the join, those in its ON clause first.

        Also return whether all conditions of the join are understood.
        """
        alias = self._join.alias_or_name
        keys: list[_Key] = []
        own, elsewhere = list(conjuncts(self._join.args.get("on"))), [part for one in others for part in conjuncts(one)]
        certain = bool(own or elsewhere) and not self._join.args.get("using")
        for number, test in enumerate([*own, *elsewhere]):
            if not isinstance(test, exp.EQ):
                joining = any(len(self._aliases(one)) > 1 for one in test.find_all(exp.EQ, exp.NullSafeEQ))
                certain = certain and not (joining and isinstance(test, (exp.NullSafeEQ, exp.Or)))
                continue
            here, there = self._aliases(test.this), self._aliases(test.expression)
            if here and there and None in here | there:
                # A condition of another join may refer to later inputs.
                later = {column.table for column in test.find_all(exp.Column)} - {"", *self._inputs}
                certain = certain and number >= len(own) and bool(later)
            elif here and there == {alias} and alias not in here:
                keys.append(_Key(test.this, test.expression))
            elif there and here == {alias} and alias not in there:
                keys.append(_Key(test.expression, test.this))
        return keys, certain

    def _aliases(self, expression: exp.Expr) -> set[str | None]:
        """Return the aliases of the inputs that an expression reads.

        None stands for an unknown input.
        """
        places = [self._inputs.place(column) for column in expression.find_all(exp.Column)]
        return {place[0] if place else None for place in places}

    def _side(self, layout: Layout | None, keys: Sequence[exp.Expr], others: Sequence[exp.Expr]) -> _Side | None:
        if layout is None:
            return None
        plain = [self._place(key) for key in keys]
        wrapped = [self._inputs.wrapped(key) for key in keys]
        return _Side(layout, keys, others, _among(layout, plain), _among(layout, wrapped))

    def _problems(self, certain: bool) -> list[Problem]:
        sides = [side for side in (self._left, self._right) if side]
        found = [side.layout.spoiled for side in sides if side.covered and side.layout.spoiled]
        uncovered = [side for side in sides if certain and not side.covered and not side.layout.spoiled]
        found += filter(None, map(self._uncovered, uncovered))
        if self._left and self._right and not found and all(one.covered and not one.layout.spoiled for one in sides):
            unlike = self._types_differ(self._left) or self._specs_differ(self._left, self._right)
            found += [unlike] if unlike else []
        return found

    def _uncovered(self, side: _Side) -> Problem | None:
        layout = side.layout
        missing = [number for number, key in enumerate(side.plain) if key is None]
        hidden = [side.wrapped[number] for number in missing]
        if None not in hidden:
            key, other = side.keys[hidden[0] or 0], side.others[hidden[0] or 0]
            one_cast = isinstance(key.unnest(), exp.Cast) and not isinstance(other.unnest(), exp.Cast)
            return Problem(
                "key-types-differ" if one_cast else "expression-over-key",
                f"{layout.table} is bucketed by {layout.called()}, but this join compares {key.sql(dialect='spark')}, "
                "so Spark shuffles the table. Compute the expression in the model that builds the table, or give the "
                "keys one type.",
                offset_of(key),
            )
        if len(missing) == len(side.plain) and not any(key is not None for key in hidden):
            return None
        return keys_miss_columns(layout, missing, "join", offset_of(side.keys[0] if side.keys else self._join))

    def _types_differ(self, left: _Side) -> Problem | None:
        for key in [self._keys[number or 0] for number in left.plain]:
            types = [type_of(self._inputs.bare(side)) for side in (key.left, key.right)]
            here, there = (kind if kind and base_type(kind) in _HASHED else None for kind in types)
            if here and there and here != there:
                text = f"{key.left.sql(dialect='spark')} is {here} and {key.right.sql(dialect='spark')} is {there}"
                return Problem(
                    "key-types-differ",
                    f"{text}, so Spark casts one of them, which changes its hash. Give both keys the same type.",
                    offset_of(key.left),
                )
        return None

    def _specs_differ(self, left: _Side, right: _Side) -> Problem | None:
        """Find the first reason why Spark cannot join the two sides bucket by bucket."""
        here, there = left.layout, right.layout
        number = len({key.left.sql() for key in self._keys})
        if any(one.bucket_hash == "spark" and len(one.columns) < number for one in (here, there)):
            # In the Spark layout, the bucket columns must include all join keys under Spark's default settings.
            return None
        if left.plain != right.plain:
            rule, instead = "bucket-columns-differ", "Bucket both by the same keys, in the same order"
            columns = f"{here.table} is bucketed by {here.called()} and {there.table} by {there.called()}"
            text = f"{columns}, which are different keys of this join"
        elif here.bucket_hash != there.bucket_hash:
            one, other = sorted((here, there), key=lambda layout: layout.bucket_hash)
            rule, instead = "hash-mismatch", "Choose one bucket_hash"
            text = f"{one.table} has {hash_name(one.bucket_hash)} and {other.table} has {hash_name(other.bucket_hash)}"
        elif not are_compatible(here.num_buckets, there.num_buckets):
            rule, instead = "bucket-count-mismatch", "Use powers of two"
            counts = f"{here.table} has {here.num_buckets} buckets and {there.table} has {there.num_buckets}"
            text = f"{counts}, and neither number is a multiple of the other"
        else:
            return None
        return Problem(rule, f"{text}: {instead}.", offset_of(self._keys[0].left))

    def _layout_after(self) -> Layout | None:
        """Return the bucket layout of the join's result.

        The result has the layout of the side that Spark does not shuffle.
        """
        left, right = (side if side and side.covered else None for side in (self._left, self._right))
        if self._join.side == "FULL" or self._join.method:
            return None
        if left and right and left.layout.num_buckets != right.layout.num_buckets:
            return None
        if left and self._join.side != "RIGHT":
            layout = left.layout
        elif right and self._join.side != "LEFT" and self._join.kind not in ("SEMI", "ANTI"):
            layout = right.layout
        else:
            return None
        equal = [(self._place(key.left), self._place(key.right)) for key in self._keys]
        # A USING column is a column of the side whose rows the join preserves.
        merged = [(place, ("", place[1])) for pair in equal for place in pair if place and pair[0] and pair[1]]
        pairs: list[tuple[Place | None, Place | None]] = [*merged] if self._join.side else [*equal, *merged]
        for here, there in pairs:
            new = [one | {here, there} if here in one or there in one else one for one in layout.columns]
            layout = replace(layout, columns=tuple(frozenset(filter(None, one)) for one in new))
        return layout

    def _place(self, key: exp.Expr) -> Place | None:
        return self._inputs.place(self._inputs.bare(key))


def _among(layout: Layout, places: Sequence[Place | None]) -> tuple[int | None, ...]:
    return tuple(next((n for n, place in enumerate(places) if place in one), None) for one in layout.columns)
