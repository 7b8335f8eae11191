"""Determine how a query uses buckets, from its text and the manifest.

The walk goes from the innermost query to the outermost one. For each part, it determines the columns and whether their
rows are still bucketed, and then judges joins, groupings and windows. A part that is uncertain has no layout, and the
rules report nothing about it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from sqlglot import exp, parse
from sqlglot.errors import SqlglotError

from spark_bucketing.spec import hash_name
from spark_bucketing.sqlfluff_plugin.grouping_keys import judge_filter, judge_keys
from spark_bucketing.sqlfluff_plugin.joins import judge_join
from spark_bucketing.sqlfluff_plugin.problems import Problem
from spark_bucketing.sqlfluff_plugin.project_files import THIS, Project, Table
from spark_bucketing.sqlfluff_plugin.redundant import MOVING_HINTS, needless_casts, redundant_moves
from spark_bucketing.sqlfluff_plugin.relation_layouts import (
    UNKNOWN_RELATION,
    Column,
    Layout,
    LostLayout,
    Place,
    Relation,
    relation_of_table,
)
from spark_bucketing.sqlfluff_plugin.scope import Scope, certain_type, offset_of
from spark_bucketing.sqlfluff_plugin.selects import (
    conditions_beside,
    hints_of,
    is_short,
    is_total,
    meant_key,
    own_nodes,
    own_queries,
    sent_by_hint,
    value_of,
)
from spark_bucketing.sqlfluff_plugin.violations import OutputColumns

Environment = Mapping[str, Relation]
"""The relations that names refer to in a query, such as its CTEs; names are in lower case."""

# The largest depth of views over views to follow.
_DEPTH = 3


class Query:
    """One rendered file, which is one query."""

    def __init__(self, sql: str, project: Project, own: Table | None = None, *, bucketed: bool = False) -> None:
        """Walk the query; the result is empty if the text cannot be parsed.

        Args:
            sql: the query.
            project: the project with the tables that the query may read.
            own: the table that the model builds, which is `{{ this }}`.
            bucketed: whether a materialization of this package writes the query's result.
        """
        self.problems: list[Problem] = []
        self.columns: OutputColumns | None = None
        statement = _statement(sql)
        if statement is None:
            return
        try:
            relation = _Walk(project, own, self.problems, sql).relation(statement, {})
        except RecursionError:
            # A generated query with hundreds of inputs can exceed the recursion limit.
            self.problems.clear()
            return
        self.problems += redundant_moves(statement, sql) if bucketed else ()
        types = {name: column.type if column.certain else None for name, column in relation.columns.items()}
        self.columns = OutputColumns(types, relation.complete)


def _statement(sql: str) -> exp.Expr | None:
    try:
        statements = [one for one in parse(sql, read="spark") if one is not None]
    except (SqlglotError, RecursionError):
        return None
    return statements[0] if len(statements) == 1 else None


class _Walk:
    def __init__(self, project: Project, own: Table | None, problems: list[Problem], sql: str, depth: int = 0) -> None:
        self._project, self._own, self._problems, self._sql, self._depth = project, own, problems, sql, depth

    def relation(self, query: exp.Expr, environment: Environment) -> Relation:
        """Return the relation of a query and collect the problems on the way."""
        with_ = query.args.get("with_") or query.args.get("with")
        if with_:
            known = dict(environment)
            for cte in with_.expressions:
                found = self.relation(cte.this, known)
                known[cte.alias.lower()] = _renamed(found, cte.args.get("alias"))
            environment = known
        if isinstance(query, exp.Select):
            return self._select(query, environment)
        if isinstance(query, exp.SetOperation):
            return self._set_operation(query, environment)
        if isinstance(query, exp.Subquery):
            inner = self.relation(query.this, environment)
            return replace(inner, layout=None) if query.args.get("limit") or query.args.get("order") else inner
        return UNKNOWN_RELATION

    def _set_operation(self, query: exp.SetOperation, environment: Environment) -> Relation:
        left, right = self.relation(query.this, environment), self.relation(query.expression, environment)
        names, others = list(left.columns), list(right.columns)
        complete = left.complete and right.complete and len(names) == len(others)
        columns = {
            name: column if complete and column == right.columns[others[place]] else Column()
            for place, (name, column) in enumerate(left.columns.items())
        }
        moved = any(query.args.get(part) for part in ("order", "limit", "offset"))
        all_rows = isinstance(query, exp.Union) and not query.args.get("distinct")
        layout = _united(left, right, query) if all_rows and not moved else None
        return Relation(columns, complete, layout)

    def _select(self, select: exp.Select, environment: Environment) -> Relation:
        scope = Scope()
        from_ = select.args.get("from_") or select.args.get("from")
        if from_ is not None:
            alias, relation = self._input(from_.this, environment)
            scope.add(alias, relation)
            layout = relation.called(alias).layout
            for join in [*(from_.this.args.get("joins") or ()), *(select.args.get("joins") or ())]:
                layout = self._join(join, scope, layout, environment)
        else:
            layout = None
        self._inner_queries(select, environment)
        where = select.args.get("where")
        if where is not None:
            self._problems += judge_filter(where.this, scope)
        for part in (
            where,
            select.args.get("group"),
            *(join.args.get("on") for join in select.args.get("joins") or ()),
        ):
            self._problems += needless_casts(part, scope, self._sql)
        layout = self._grouped(select, scope, layout)
        for window in [*own_nodes(select, exp.Window), *(select.args.get("windows") or ())]:
            keys = window.args.get("partition_by") or []
            if keys and not window.args.get("alias"):
                self._problems += judge_keys(keys, scope, layout, "window", offset_of(window))
        if select.args.get("distinct"):
            layout = self._distinct(select, scope, layout)
        relation = self._projected(select, scope, self._moved(select, layout))
        inputs_are_small = bool(scope.relations) and all(one.small for one in scope.relations.values())
        return replace(relation, small=inputs_are_small or is_short(select))

    def _input(self, source: exp.Expr, environment: Environment) -> tuple[str, Relation]:
        alias = source.alias_or_name.lower()
        if isinstance(source, exp.Table):
            parts = tuple(part.name for part in source.parts) if isinstance(source.this, exp.Identifier) else ()
            found = self._table(parts, environment) if parts else UNKNOWN_RELATION
            if source.args.get("sample") or source.args.get("pivots"):
                found = UNKNOWN_RELATION
            return alias, _renamed(found, source.args.get("alias"))
        if isinstance(source, exp.Values):
            names = [column.name.lower() for column in source.args["alias"].columns] if source.args.get("alias") else []
            return alias, Relation({name: Column() for name in names}, bool(names), small=True)
        if isinstance(source, exp.Subquery) and not source.args.get("pivots"):
            return alias, _renamed(self.relation(source, environment), source.args.get("alias"))
        return alias, UNKNOWN_RELATION

    def _table(self, parts: tuple[str, ...], environment: Environment) -> Relation:
        if len(parts) == 1 and parts[0].lower() in environment:
            return environment[parts[0].lower()]
        table = self._own if parts == (THIS,) else self._project.table(parts)
        if table is None:
            return UNKNOWN_RELATION
        if table.query is None:
            return relation_of_table(table)
        statement = _statement(table.query) if self._depth < _DEPTH else None
        if statement is None:
            return UNKNOWN_RELATION
        # Problems inside a view are reported in the view's own file.
        inside = _Walk(self._project, None, [], table.query, self._depth + 1).relation(statement, {})
        layout = inside.layout
        return replace(inside, layout=None if layout and layout.spoiled else layout)

    def _join(self, join: exp.Join, scope: Scope, layout: Layout | None, environment: Environment) -> Layout | None:
        alias, relation = self._input(join.this, environment)
        right = relation.called(alias).layout
        select = join.parent_select
        sent = sent_by_hint(select) if select else set()
        is_sent = (alias in sent or relation.small) and join.side not in ("RIGHT", "FULL")
        # With the small side broadcast to every task, no single task could return its unmatched rows.
        keeps_left = join.side in ("LEFT", "FULL") or join.kind in ("SEMI", "ANTI")
        is_left_sent = not keeps_left and all(one.small for one in scope.relations.values())
        judged = judge_join(join, conditions_beside(join, select), scope, alias, relation, layout, right)
        scope.add(alias, relation)
        # The side that is not broadcast keeps its layout.
        if is_sent or is_left_sent:
            return layout if is_sent else right
        if sent & {alias, *scope.relations} or join.args.get("pivots"):
            return None
        self._problems += judged.problems
        return judged.layout

    def _inner_queries(self, select: exp.Select, environment: Environment) -> None:
        """Walk the queries within expressions; the queries in FROM are walked as inputs."""
        from_ = select.args.get("from_") or select.args.get("from")
        inputs = [from_, *(select.args.get("joins") or ()), select.args.get("with_") or select.args.get("with")]
        beside = {id(node) for part in inputs if part is not None for node in part.find_all(exp.Query)}
        for join in select.args.get("joins") or ():
            condition = join.args.get("on")
            beside -= {id(node) for node in condition.find_all(exp.Query)} if condition is not None else set()
        for query in own_queries(select):
            if id(query) not in beside:
                self.relation(query, environment)

    def _grouped(self, select: exp.Select, scope: Scope, layout: Layout | None) -> Layout | None:
        group = select.args.get("group")
        if group is not None:
            if any(group.args.get(part) for part in ("rollup", "cube", "grouping_sets", "all")):
                return None
            keys = [meant_key(key, select, scope) for key in group.expressions]
            self._problems += judge_keys(keys, scope, layout, "grouping", offset_of(group))
            return layout if layout and scope.covers(keys, layout) else None
        return None if is_total(select) else layout

    def _distinct(self, select: exp.Select, scope: Scope, layout: Layout | None) -> Layout | None:
        """Judge DISTINCT as a grouping by all returned columns."""
        keys = [value_of(item) for item in select.expressions if not item.is_star]
        if len(keys) == len(select.expressions):
            self._problems += judge_keys(keys, scope, layout, "DISTINCT", offset_of(select))
            return layout if layout and scope.covers(keys, layout) else None
        return layout

    def _moved(self, select: exp.Select, layout: Layout | None) -> Layout | None:
        """Return the layout after LIMIT, ORDER BY, DISTRIBUTE BY and hints."""
        if layout is None or any(select.args.get(part) for part in ("order", "limit", "offset")):
            return None
        by = "DISTRIBUTE BY" if select.args.get("distribute") else "CLUSTER BY" if select.args.get("cluster") else None
        hints = [hint for hint in hints_of(select) if hint in (*MOVING_HINTS, "coalesce")]
        what = by or (f"The hint {hints[0]}" if hints else None)
        if what is None:
            return layout
        text = f"{what} shuffles the rows of {layout.table}, which is already bucketed by {layout.called()}. Remove it."
        return layout.lose_layout(LostLayout("repartition", text, offset_of(select)))

    def _projected(self, select: exp.Select, scope: Scope, layout: Layout | None) -> Relation:
        columns: dict[str, Column] = {}
        places: dict[tuple[str, str], str] = {}
        complete, everything = True, False
        for item in select.expressions:
            if item.is_star:
                aliases = [item.table.lower()] if isinstance(item, exp.Column) else list(scope.relations)
                plain = isinstance(item, (exp.Star, exp.Column)) and not any(
                    star.args.get(part) for star in item.find_all(exp.Star) for part in ("except_", "except", "replace")
                )
                for alias in aliases:
                    relation = scope.relations.get(alias, UNKNOWN_RELATION)
                    complete = complete and relation.complete and plain
                    for name, column in relation.columns.items() if plain else ():
                        columns.setdefault(name, column)
                        places.setdefault((alias, name), name)
                everything = everything or plain
                continue
            name = item.alias_or_name.lower()
            value = value_of(item)
            place = scope.place(scope.bare(value))
            if not name:
                complete = False
                continue
            columns[name] = Column(certain_type(value, scope), certain=True)
            if columns[name].type is None:
                columns[name] = scope.column(value)
            if place:
                places.setdefault(place, name)
        computed = {scope.wrapped(value_of(item)) for item in select.expressions if not item.is_star}
        return Relation(columns, complete, _delivered(layout, places, computed), None)


def _delivered(
    layout: Layout | None, places: Mapping[tuple[str, str], str], computed: Collection[Place | None] = ()
) -> Layout | None:
    """Translate a layout to the column names of a SELECT; None if it loses its bucket columns."""
    if layout is None or any(one.intersection(computed) and not one & places.keys() for one in layout.columns):
        return None
    found = [frozenset({("", places[place]) for place in one if place in places}) for one in layout.columns]
    return replace(layout, columns=tuple(found)) if any(found) else None


def _renamed(relation: Relation, alias: exp.Expr | None) -> Relation:
    """Apply an alias to a relation; the alias may rename columns, as in t(a, b)."""
    names = [column.name.lower() for column in (alias.args.get("columns") or ())] if alias is not None else []
    if not names:
        return relation
    if not relation.complete or len(names) != len(relation.columns):
        return UNKNOWN_RELATION
    new = dict(zip(relation.columns, names, strict=True))
    layout = _delivered(relation.layout, {("", old): name for old, name in new.items()})
    return Relation({new[old]: column for old, column in relation.columns.items()}, True, layout, small=relation.small)


def _united(left: Relation, right: Relation, query: exp.SetOperation) -> Layout | None:
    """Return the layout of a UNION ALL, which combines the buckets of both sides if their specs match."""
    one, other = left.layout, right.layout
    if one is None or other is None or not left.columns or not right.columns:
        return None
    here, there = _positions(one, left), _positions(other, right)
    if here is None or there is None:
        return None
    if spoiled := one.spoiled or other.spoiled:
        return one.lose_layout(spoiled)
    alike = (one.num_buckets, one.bucket_hash, here) == (other.num_buckets, other.bucket_hash, there)
    if alike:
        return one
    same = (one.num_buckets, one.bucket_hash) == (other.num_buckets, other.bucket_hash)
    if same and not (left.complete and right.complete):
        # The order of columns in YAML may differ from the order in the files.
        return None
    inputs = f"{one.table} ({described(one)}) and {other.table} ({described(other)})"
    how = "as different columns of the union" if same else "with different specs"
    text = f"UNION ALL loses the buckets of {inputs}, which are bucketed {how}. Give them the same spec."
    return one.lose_layout(LostLayout("union", text, offset_of(query.expression)))


def described(layout: Layout) -> str:
    """Describe a layout in a few words."""
    return f"{layout.num_buckets} buckets by {layout.called()}, {hash_name(layout.bucket_hash)}"


def _positions(layout: Layout, relation: Relation) -> tuple[int, ...] | None:
    if not relation.complete and len(relation.columns) == 0:
        return None
    names = list(relation.columns)
    places = [next((names.index(name) for _, name in sorted(one) if name in names), None) for one in layout.columns]
    return None if None in places else tuple(place for place in places if place is not None)
