"""Determine how a query uses buckets, from its text and the manifest.

sqlglot qualifies the names, expands stars, determines types and builds the scopes. The analysis proceeds from the
innermost scope to the outermost one. For each scope, it determines whether the rows are still bucketed, and then judges
joins, aggregations and window functions. Parts of the query that the analysis does not understand have no layout, and
the rules report nothing about them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlglot import exp, parse
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, build_scope, traverse_scope
from sqlglot.schema import MappingSchema

from spark_bucketing.sqlfluff_plugin.grouping_keys import judge_filter, judge_keys
from spark_bucketing.sqlfluff_plugin.inputs import Inputs, offset_of
from spark_bucketing.sqlfluff_plugin.joins import JudgedJoin
from spark_bucketing.sqlfluff_plugin.problems import Problem
from spark_bucketing.sqlfluff_plugin.project_files import THIS, Project
from spark_bucketing.sqlfluff_plugin.redundant import MOVING_HINTS, needless_casts, redundant_moves
from spark_bucketing.sqlfluff_plugin.relation_layouts import (
    UNKNOWN_RELATION,
    Column,
    Layout,
    Place,
    Relation,
    delivered,
)
from spark_bucketing.sqlfluff_plugin.selects import (
    conditions_beside,
    hints_of,
    is_short,
    is_total,
    own_nodes,
    sent_by_hint,
)  # fmt: skip
from spark_bucketing.sqlfluff_plugin.violations import OutputColumns

# The maximum depth of nested views that the analysis follows.
_DEPTH = 3


class Query:
    """The analyzed query of a rendered file."""

    def __init__(
        self, sql: str, project: Project, own: Relation | None = None, *, bucketed: bool = False, depth: int = 0
    ) -> None:
        """Analyze the query; the result is empty if sqlglot cannot parse the text or resolve its names.

        Args:
            sql: the query.
            project: the project with the tables that the query may read.
            own: the table that the model builds, that is, `{{ this }}`.
            bucketed: whether a materialization of this package writes the query's result.
            depth: number of views between the linted query and this one.
        """
        self.problems: list[Problem] = []
        self.relation = UNKNOWN_RELATION
        self._project, self._own, self._sql, self._depth = project, own, sql, depth
        try:
            statements = [one for one in parse(sql, read="spark") if one is not None]
            if len(statements) == 1 and isinstance(statements[0], exp.Query):
                redundant = list(redundant_moves(statements[0], sql)) if bucketed else []
                self.relation = self._walk(statements[0])
                self.problems += redundant
        # A generated query with hundreds of inputs can exceed the recursion limit.
        except (SqlglotError, RecursionError):
            self.problems.clear()

    @property
    def columns(self) -> OutputColumns | None:
        """Return the columns that the query returns, or None if they are unknown."""
        found = self.relation.columns
        types = {name: column.type if column.certain else None for name, column in found.items()}
        return OutputColumns(types, self.relation.complete) if found else None

    def _walk(self, statement: exp.Query) -> Relation:
        tables = self._named_tables(statement)
        using = {one.name.lower() for join in statement.find_all(exp.Join) for one in join.args.get("using") or ()}
        for select in statement.find_all(exp.Select):
            select.meta["star"] = any(item.is_star for item in select.expressions)
        schema = MappingSchema(dialect="spark")
        for name, relation in tables.items():
            if relation.columns:
                unlisted = set() if relation.complete else using - relation.columns.keys()
                kinds = {column: one.type for column, one in relation.columns.items()} | dict.fromkeys(unlisted)
                schema.add_table(name, {column: kind or "unknown" for column, kind in kinds.items()})
        qualified = qualify(
            statement,
            "spark",
            schema=schema,
            allow_partial_qualification=True,
            validate_qualify_columns=False,
            quote_identifiers=False,
        )
        for column in qualified.find_all(exp.Column):
            table = column.args.get("table")
            # sqlglot gives an added name the position of the alias.
            if table and not 0 < column.this.meta.get("start", 0) - table.meta.get("end", 0) < 3:
                table.meta.clear()
        root = build_scope(annotate_types(qualified, schema, dialect="spark"))
        relations: dict[int, Relation] = {}
        for scope in root.traverse() if root else ():
            relations[id(scope)] = self._relation(scope, tables, relations)
        return relations.get(id(root), UNKNOWN_RELATION)

    def _named_tables(self, statement: exp.Query) -> dict[str, Relation]:
        """Give each table in a query a unique name, and return the tables by these names."""
        tables: dict[str, Relation] = {}
        for scope in traverse_scope(statement):
            for alias, node in scope.references:
                if not isinstance(node, exp.Table) or not isinstance(scope.sources.get(alias), exp.Table):
                    continue
                named = isinstance(node.this, exp.Identifier)
                relation = self._table(tuple(part.name for part in node.parts)) if named else UNKNOWN_RELATION
                renamed = node.args.get("alias") and node.args["alias"].columns
                if renamed or any(node.args.get(part) for part in ("sample", "pivots")):
                    relation = UNKNOWN_RELATION
                if named:
                    name = f"__{len(tables)}"
                    tables[name] = relation
                    if not node.alias:
                        node.set("alias", exp.TableAlias(this=node.this))
                    for part, value in (("this", exp.to_identifier(name)), ("db", None), ("catalog", None)):
                        node.set(part, value)
        return tables

    def _table(self, parts: tuple[str, ...]) -> Relation:
        table = self._own if parts == (THIS,) else self._project.table(parts)
        if table is None or (table.query is not None and self._depth == _DEPTH):
            return UNKNOWN_RELATION
        if table.query is None:
            return table
        # The rules report problems inside a view when sqlfluff lints the view's file.
        inside = Query(table.query, self._project, depth=self._depth + 1).relation
        return replace(inside, layout=None if inside.layout and inside.layout.spoiled else inside.layout)

    def _relation(self, scope: Scope, tables: Mapping[str, Relation], relations: Mapping[int, Relation]) -> Relation:
        query = scope.expression
        if isinstance(query, exp.SetOperation) and scope.set_operation_scopes:
            left, right = (relations[id(one)] for one in scope.set_operation_scopes)
            found = _set_operation(query, left, right)
        elif isinstance(query, exp.Select):
            found = self._select(query, lambda node: _input(node, scope, tables, relations))
        else:
            return replace(UNKNOWN_RELATION, small=isinstance(query, exp.Values))
        outer = query.parent
        moved = isinstance(outer, exp.Subquery) and (outer.args.get("limit") or outer.args.get("order"))
        return replace(found, layout=None) if moved else found

    def _select(self, select: exp.Select, read: Callable[[exp.Expr], Relation]) -> Relation:
        inputs, layout = Inputs(), None
        from_ = select.args.get("from_")
        joins = [*(from_.this.args.get("joins") or ()), *(select.args.get("joins") or ())] if from_ else []
        if from_ is not None:
            inputs[from_.this.alias_or_name] = read(from_.this)
            layout = inputs[from_.this.alias_or_name].called(from_.this.alias_or_name).layout
        for join in joins:
            layout = self._join(join, select, inputs, layout, read(join.this))
        where = select.args.get("where")
        if where is not None:
            self.problems += judge_filter(where.this, inputs)
        for part in (where, select.args.get("group"), *(join.args.get("on") for join in joins)):
            self.problems += needless_casts(part, inputs, self._sql)
        layout = self._grouped(select, inputs, layout)
        for window in [*own_nodes(select, exp.Window), *(select.args.get("windows") or ())]:
            keys = window.args.get("partition_by") or []
            if keys and not window.args.get("alias"):
                self.problems += judge_keys(keys, inputs, layout, "window", offset_of(window))
        return _projected(select, inputs, _moved(select, layout))

    def _join(
        self, join: exp.Join, select: exp.Select, inputs: Inputs, layout: Layout | None, relation: Relation
    ) -> Layout | None:
        alias = join.alias_or_name
        sent = sent_by_hint(select)
        is_sent = (alias in sent or relation.small) and join.side not in ("RIGHT", "FULL")
        # Spark cannot broadcast a side whose unmatched rows the join returns, because no task sees all matches.
        keeps_left = join.side in ("LEFT", "FULL") or join.kind in ("SEMI", "ANTI")
        is_left_sent = not keeps_left and all(one.small for one in inputs.values())
        is_hinted = bool(sent & {alias, *inputs}) or bool(join.args.get("pivots"))
        inputs[alias] = relation
        right = relation.called(alias).layout
        judged = JudgedJoin(join, conditions_beside(join, select), inputs, layout, right)
        # The side that is not broadcast keeps its layout.
        if is_sent or is_left_sent:
            return layout if is_sent else right
        if is_hinted:
            return None
        self.problems += judged.problems
        return judged.layout

    def _grouped(self, select: exp.Select, inputs: Inputs, layout: Layout | None) -> Layout | None:
        """Check GROUP BY, and check DISTINCT as a grouping by all returned columns; return the resulting layout."""
        group = select.args.get("group")
        if group is not None:
            if any(group.args.get(part) for part in ("rollup", "cube", "grouping_sets", "all")):
                return None
            layout = self._keys(group.expressions, inputs, layout, "grouping", offset_of(group))
        elif is_total(select):
            return None
        if select.args.get("distinct") and not any(item.is_star for item in select.expressions):
            keys = [item.unalias() for item in select.expressions]
            layout = self._keys(keys, inputs, layout, "DISTINCT", offset_of(select))
        return layout

    def _keys(
        self, keys: list[exp.Expr], inputs: Inputs, layout: Layout | None, what: str, offset: int
    ) -> Layout | None:
        self.problems += judge_keys(keys, inputs, layout, what, offset)
        return layout if layout and inputs.covers(keys, layout) else None


def _input(
    source: exp.Expr, scope: Scope, tables: Mapping[str, Relation], relations: Mapping[int, Relation]
) -> Relation:
    found = scope.sources.get(source.alias_or_name)
    if source.args.get("pivots"):
        return UNKNOWN_RELATION
    return tables.get(found.name, UNKNOWN_RELATION) if isinstance(found, exp.Table) else relations[id(found)]


def _set_operation(query: exp.SetOperation, left: Relation, right: Relation) -> Relation:
    others = list(right.columns.values())
    complete = left.complete and right.complete and len(left.columns) == len(others)
    columns = {
        name: column if complete and column == others[place] else Column()
        for place, (name, column) in enumerate(left.columns.items())
    }
    moved = any(query.args.get(part) for part in ("order", "limit", "offset"))
    all_rows = isinstance(query, exp.Union) and not query.args.get("distinct")
    return Relation(columns, complete, _united(left, right, query) if all_rows and not moved else None)


def _united(left: Relation, right: Relation, query: exp.SetOperation) -> Layout | None:
    """Return the layout of a UNION ALL, which combines the buckets of both sides if their specs match."""
    one, other = left.layout, right.layout
    if one is None or other is None:
        return None
    here, there = _positions(one, left), _positions(other, right)
    if here is None or there is None:
        return None
    if spoiled := one.spoiled or other.spoiled:
        return one.lose_layout(spoiled)
    same = (one.num_buckets, one.bucket_hash) == (other.num_buckets, other.bucket_hash)
    if same and here == there:
        return one
    if same and not (left.complete and right.complete):
        # The YAML may list columns in a different order from the files.
        return None
    inputs = f"{one.table} ({one.described()}) and {other.table} ({other.described()})"
    how = "as different columns of the union" if same else "with different specs"
    text = f"UNION ALL loses the buckets of {inputs}, which are bucketed {how}. Give them the same spec."
    return one.lose_layout(Problem("union", text, offset_of(query.expression)))


def _positions(layout: Layout, relation: Relation) -> tuple[int, ...] | None:
    names = list(relation.columns)
    places = [next((names.index(name) for _, name in sorted(one) if name in names), None) for one in layout.columns]
    return None if None in places else tuple(place for place in places if place is not None)


def _moved(select: exp.Select, layout: Layout | None) -> Layout | None:
    """Return the layout of the rows after LIMIT, ORDER BY, DISTRIBUTE BY and hints."""
    if layout is None or any(select.args.get(part) for part in ("order", "limit", "offset")):
        return None
    by = "DISTRIBUTE BY" if select.args.get("distribute") else "CLUSTER BY" if select.args.get("cluster") else None
    hints = [name for name, _ in hints_of(select) if name in (*MOVING_HINTS, "coalesce")]
    cause = by or (f"The hint {hints[0]}" if hints else None)
    if cause is None:
        return layout
    text = f"{cause} shuffles the rows of {layout.table}, which is already bucketed by {layout.called()}. Remove it."
    return layout.lose_layout(Problem("repartition", text, offset_of(select)))


def _projected(select: exp.Select, inputs: Inputs, layout: Layout | None) -> Relation:
    """Return the relation that a SELECT list produces, with unknown columns if sqlglot did not expand a star."""
    columns: dict[str, Column] = {}
    places: dict[Place, str] = {}
    values = {item.alias_or_name: item.unalias() for item in select.expressions if not item.is_star}
    for name, value in values.items():
        columns[name] = inputs.result(value)
        if place := inputs.place(inputs.bare(value)):
            places.setdefault(place, name)
    if layout and len(values) < len(select.expressions):
        places |= {place: place[1] for one in layout.columns for place in one if place[0] in inputs} | places
    complete = not select.meta.get("star") or all(one.complete for one in inputs.values())
    small = is_short(select) or (bool(inputs) and all(one.small for one in inputs.values()))
    return Relation(
        columns, complete, delivered(layout, places, {inputs.wrapped(one) for one in values.values()}), small
    )
