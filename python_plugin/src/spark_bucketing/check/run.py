"""The check itself: one query after the other is planned and judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from spark_bucketing.check.facts import Facts
from spark_bucketing.check.lines import source_line
from spark_bucketing.check.planner import Planner
from spark_bucketing.check.shadow import Shadow
from spark_bucketing.eligibility import judge, tables_of
from spark_bucketing.eligibility.model import Input, ModelResult, OperatorResult, Verdict
from spark_bucketing.errors import BucketingError
from spark_bucketing.plan import parse_plan, parse_statistics
from spark_bucketing.project.manifest import Manifest, Node, table_name

# Of several operators that read a table, the one that a graph shows for it.
_WORST = (
    Verdict.SHUFFLED,
    Verdict.ONE_SIDED,
    Verdict.UNKNOWN,
    Verdict.SHUFFLE_FREE,
    Verdict.SORT_FREE,
    Verdict.BROADCAST,
    Verdict.NOT_BUCKETED,
)

_UNCOMPILED = (
    "It has no compiled SQL in this manifest: write the manifest with `dbt compile`, `run` or `build`, or leave out "
    "--manifest."
)


@dataclass(frozen=True)
class Subject:
    """A query to be checked.

    Args:
        name: the model's, or the file's.
        path: its file, relative to the project's folder.
        sql: compiled; None when there is none.
        raw: the text of the file.
        unique_id: dbt's; None for a file of SQL.
        depends_on: unique ids of its parents.
        error: why there is no SQL.
    """

    name: str
    path: str
    sql: str | None
    raw: str = ""
    unique_id: str | None = None
    depends_on: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class Step:
    """What is done next: a query is checked, or the shadow of a node is created, or both in this order."""

    subject: Subject | None = None
    shadow_of: Node | None = None


@dataclass
class Progress:
    """What a run has come to, so far; it is whole even when the run was interrupted."""

    results: list[ModelResult] = field(default_factory=list)
    unfinished: tuple[str, ...] = ()


def run(
    planner: Planner,
    steps: Sequence[Step],
    settings: Mapping[str, str],
    facts: Facts,
    shadow: Shadow | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Progress:
    """Go through the steps, until they are done or somebody presses Ctrl-C.

    Args:
        planner: what answers.
        steps: in an order in which every shadow comes before what reads it.
        settings: of the session, for the rules.
        facts: of its tables.
        shadow: of the project, offline.
        tell: is told what is at work before each step.
    """
    progress = Progress()
    try:
        for step in steps:
            tell(step.subject.name if step.subject else step.shadow_of.name if step.shadow_of else "")
            if step.subject:
                progress.results.append(check(planner, step.subject, settings, facts, shadow))
            if step.shadow_of and shadow:
                shadow.create(step.shadow_of)
                facts.unsized |= shadow.unsized
    except KeyboardInterrupt:
        done = {(result.unique_id, result.path) for result in progress.results}
        waiting = (step.subject for step in steps if step.subject)
        progress.unfinished = tuple(
            subject.name for subject in waiting if (subject.unique_id, subject.path) not in done
        )
    return progress


def check(
    planner: Planner, subject: Subject, settings: Mapping[str, str], facts: Facts, shadow: Shadow | None = None
) -> ModelResult:
    """Plan and judge one query; what cannot be planned or judged has an error in its result."""
    result = ModelResult(
        name=subject.name, path=subject.path, unique_id=subject.unique_id, depends_on=subject.depends_on
    )
    if subject.sql is None:
        return replace(result, error=subject.error or _UNCOMPILED)
    try:
        sql = shadow.rewritten(subject.sql) if shadow else subject.sql
        explained = planner.explain(sql)
        plan = parse_plan(explained.formatted)
        tables = facts.of(tables_of(plan))
        sizes = parse_statistics(explained.cost).of(lambda table: _sized(table, facts))
        operators = judge(plan, tables, settings, sql, sizes)
    except BucketingError as error:
        return replace(result, error=shadow.why(str(error)) if shadow else _hinted(str(error), subject))
    # A plan of a shape that nobody has thought of is no reason to leave the other models unchecked.
    except Exception as error:
        said = f"Its plan cannot be judged, which is a mistake of this program: {type(error).__name__}: {error}"
        return replace(result, error=said)
    return replace(result, operators=tuple(_mapped_back(operator, sql, subject.raw) for operator in operators))


def with_inputs(
    results: Iterable[ModelResult], manifest: Manifest, relation: Callable[[Node], str | None]
) -> tuple[ModelResult, ...]:
    """Results with the verdict on the way from each of their parents in the project's graph.

    Args:
        results: of a run.
        manifest: the project's.
        relation: what a node's table is called in the plans.
    """
    tables = _tables_behind(manifest, relation)
    return tuple(
        replace(
            result,
            inputs=tuple(
                Input(parent, _worst(result, tables.get(parent, frozenset()))) for parent in result.depends_on
            ),
        )
        for result in results
    )


def _hinted(error: str, subject: Subject) -> str:
    missing = "TABLE_OR_VIEW_NOT_FOUND" in error and subject.unique_id
    return f"{error}\nBuild what it reads first (dbt run), or check it with --offline." if missing else error


def _sized(name: str, facts: Facts) -> bool:
    return name.lower().removeprefix("spark_catalog.") not in facts.unsized


def _mapped_back(operator: OperatorResult, sql: str, raw: str) -> OperatorResult:
    findings = tuple(
        replace(finding, line=source_line(sql, finding.line, raw) if finding.line and raw else None)
        for finding in operator.findings
    )
    return replace(operator, findings=findings)


def _worst(result: ModelResult, tables: frozenset[str]) -> Verdict | None:
    verdicts = {operator.verdict for operator in result.operators if tables & set(_names(operator.tables))}
    return min(verdicts, key=_WORST.index, default=None)


def _names(tables: Iterable[str]) -> Iterator[str]:
    for table in tables:
        yield table.lower()
        # The session's own catalog need not be Spark's, and dbt does not write it.
        yield ".".join(table.lower().split(".")[-2:])


def _tables_behind(manifest: Manifest, relation: Callable[[Node], str | None]) -> Mapping[str, frozenset[str]]:
    """The tables that a plan shows for each node: its own, or for a view or an ephemeral model those below it."""
    tables: dict[str, frozenset[str]] = {}
    for unique_id in manifest.order:
        node = manifest.nodes[unique_id]
        if node.materialized in ("view", "ephemeral"):
            tables[unique_id] = frozenset().union(*(tables.get(parent, ()) for parent in node.depends_on))
        else:
            named = relation(node)
            tables[unique_id] = frozenset([table_name(named)]) if named else frozenset()
    return tables
