"""Create an empty stub of every table to which a project refers, to plan queries without a warehouse.

    sources, seeds       columns from the catalog, the YAML files or the seed's file
    views                CREATE VIEW with the compiled SQL, so that Spark expands them as in the warehouse
    other models         columns from an enforced contract, or from planning the compiled SQL, which reflects changes
                         that the catalog does not have yet; then the catalog, then the YAML files
    ephemeral models     no stub, because the compiled SQL of their readers contains their SQL

Bucket specs, partition columns and file formats come from the models' configs.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from spark_bucketing import sql
from spark_bucketing.checks.checked_query import Setting
from spark_bucketing.checks.sql_text import one_statement, renamed
from spark_bucketing.config.schema import BUCKETED
from spark_bucketing.config.validation import validated, value_of
from spark_bucketing.errors import BucketingError, ProjectError, SparkError, reason_of
from spark_bucketing.extension.build import build_jar
from spark_bucketing.extension.settings import extension_settings
from spark_bucketing.plan.document import PLANNED_FORMATS, TableFacts
from spark_bucketing.plan.planner import Planner
from spark_bucketing.project.manifest import CatalogTable, Manifest, Node, relation_parts, seed_columns, table_name
from spark_bucketing.session import is_open, open_session, quiet_errors, rows_of
from spark_bucketing.spec import BucketSpec

_CREATE = re.compile(
    r"\s*create\s+(?:or\s+replace\s+)?temporary\s+function\s+(?:if\s+not\s+exists\s+)?(?P<name>`[^`]+`|\w+)",
    re.IGNORECASE,
)


def temporary_functions(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the pre-hooks, as far as they have no Jinja, that create a temporary function."""
    hooks = config.get("pre-hook") or ()
    hooks = hooks if isinstance(hooks, (list, tuple)) else (hooks,)
    texts = (str(hook.get("sql") if isinstance(hook, Mapping) else hook) for hook in hooks)
    return tuple(one_statement(text) for text in texts if _CREATE.match(text) and "{{" not in text and "{%" not in text)


@contextmanager
def created(planner: Planner, statements: Sequence[str]) -> Iterator[None]:
    """Create temporary functions in the planner's session, and drop them at the end of the block."""
    names = []
    for statement in statements:
        # If Spark rejects the statement, the error of the query names the missing function.
        with suppress(SparkError):
            planner.rows(statement)
            names += [found["name"]] if (found := _CREATE.match(statement)) else []
    try:
        yield
    finally:
        for name in names:
            planner.rows(f"drop temporary function if exists {name}")


def configured_layout(config: Mapping[str, Any], materialized: str, name: str) -> TableFacts:
    """Return a table, without columns, with the layout in the config of this package or dbt-spark."""
    if materialized in BUCKETED:
        given = validated({**config, "materialized": materialized}, name)
    else:
        # dbt-spark's tables have the Spark layout. dbt-spark accepts the number of buckets as a string.
        buckets = str(config.get("buckets"))
        given = {**config, "buckets": int(buckets) if buckets.isdecimal() else config.get("buckets")}
        keys = ("partition_by", "clustered_by", "sorted_by", "buckets", "bucket_hash")
        given |= {"bucket_hash": "spark"} if config.get("bucket_hash") is None else {}
        given |= {key: value_of(key, given.get(key), name) for key in keys}
    partition_by = tuple(given["partition_by"])
    file_format = str(given.get("file_format") or "parquet").lower()
    if file_format not in PLANNED_FORMATS:
        # Tables in other formats, such as Delta, are not bucketed, and need jars that are missing here.
        return TableFacts(name, {}, None, partition_by)
    plain = TableFacts(name, {}, None, partition_by, file_format=file_format)
    if not given["clustered_by"] or given["buckets"] is None:
        return plain
    sort_columns = tuple(given["sorted_by"] or ())
    spec = BucketSpec(given["buckets"], tuple(given["clustered_by"]), sort_columns, given["bucket_hash"])
    return replace(plain, spec=spec)


_WITHOUT_TABLE = ("ephemeral", "analysis", "test")
_KNOWN = "the table in `catalog.json`, or columns with a `data_type` in its YAML"
#: The error of a query over nodes without known columns.
UNDESCRIBED = "Spark cannot plan it, because the columns of its sources are unknown; see the finding unknown-columns."
_DESCRIBE = "run `dbt docs generate`, or add the `data_type` of each column"
_SNAPSHOT_COLUMNS = {
    "dbt_scd_id": "string",
    "dbt_updated_at": "timestamp",
    "dbt_valid_from": "timestamp",
    "dbt_valid_to": "timestamp",
}


class StubTables:
    """The stub tables of one project."""

    def __init__(
        self, planner: Planner, manifest: Manifest, catalog: Mapping[str, CatalogTable], project_dir: Path
    ) -> None:
        self._planner, self._manifest, self._catalog = planner, manifest, catalog
        self._project_dir = project_dir
        #: Reasons why stub tables could not be created, by table name.
        self.missing: dict[str, str] = {}
        #: Nodes without known columns, by table name.
        self.undescribed: dict[str, str] = {}

    def rewritten(self, sql: str) -> str:
        """Return the SQL in which stub names replace relations that this Spark cannot resolve."""
        return renamed(sql, self._renamed)

    def relation(self, node: Node) -> str | None:
        """Return the name of a node's stub table in SQL."""
        return None if node.relation is None else self._renamed.get(node.relation, node.relation)

    def create(self, node: Node) -> None:
        """Create the stub table of a node after its parents; if this fails, add the reason to `missing`."""
        relation = self.relation(node)
        if relation is None or node.resource_type in _WITHOUT_TABLE or node.materialized in _WITHOUT_TABLE:
            return
        try:
            name = table_name(relation)
            if node.materialized == "view":
                self._planner.define_view(name, self.rewritten(node.sql or ""))
                return
            meta = node.meta.get("bucketing")
            config = meta if node.resource_type == "source" and isinstance(meta, Mapping) else node.config
            layout = configured_layout(config, node.materialized, node.name)
            self._planner.define(replace(layout, name=name, columns=self._columns(node), size_bytes=self._size(node)))
        # An unexpected error must prevent planning only for the readers of this table.
        except Exception as error:
            self.missing[table_name(relation)] = f"{node.resource_type} `{node.name}`: {reason_of(error)}"

    def why(self, error: str) -> str:
        """Return a planner error with the reasons for missing stub tables; one text if columns are unknown."""
        names = self._missing_in(error)
        if names and all(map(self._is_undescribed, names)):
            return UNDESCRIBED
        return "\n".join([error, *(f"Cannot create a stub table for {self.missing[name]}" for name in names)])

    def _missing_in(self, error: str) -> list[str]:
        plain = error.replace("`", "").lower()
        return [name for name in self.missing if re.search(rf"\b{re.escape(name)}\b", plain)]

    def _is_undescribed(self, name: str) -> bool:
        """Return whether a stub table is missing because columns of its node, or of an ancestor, are unknown."""
        causes = [other for other in self._missing_in(self.missing[name]) if other != name]
        return name in self.undescribed or any(map(self._is_undescribed, causes))

    def _columns(self, node: Node) -> Mapping[str, str]:
        typed = {name: kind for name, kind in node.columns.items() if kind}
        in_yaml = typed if len(typed) == len(node.columns) else {}
        known = self._catalog.get(node.unique_id)
        in_catalog = known.columns if known else {}
        if node.resource_type in ("source", "seed"):
            if columns := in_catalog or in_yaml:
                return columns
            if node.resource_type == "seed":
                return seed_columns(self._project_dir / node.path, node.config)
            self.undescribed[table_name(node.relation or "")] = f"{node.resource_type} `{node.name}`"
            raise ProjectError("its columns are unknown.", expected=_KNOWN, instead=_DESCRIBE)
        if node.contracted and in_yaml:
            return in_yaml
        try:
            return self._planned(node)
        except BucketingError:
            if columns := in_catalog or in_yaml:
                return columns
            raise

    def _size(self, node: Node) -> int | None:
        known = self._catalog.get(node.unique_id)
        size = known.size_bytes if known else None
        file = self._project_dir / node.path
        return file.stat().st_size if size is None and node.resource_type == "seed" and file.is_file() else size

    def _planned(self, node: Node) -> Mapping[str, str]:
        if node.sql is None:
            raise ProjectError(
                "its columns are unknown, because it has no compiled SQL.", expected=_KNOWN, instead=_DESCRIBE
            )
        with created(self._planner, temporary_functions(node.config)):
            columns = self._planner.plan(self.rewritten(node.sql)).columns
        if node.resource_type != "snapshot":
            return columns
        called = node.config.get("snapshot_meta_column_names") or {}
        extra = {called.get(name) or name: kind for name, kind in _SNAPSHOT_COLUMNS.items()}
        return {**columns, **extra}

    @cached_property
    def _renamed(self) -> Mapping[str, str]:
        """Map relations that this Spark cannot resolve to stub names: paths, and tables in other catalogs."""
        wanted = {
            node.relation: (_identifier(f"{node.source_name or node.resource_type}__offline"), _identifier(node.name))
            for node in self._manifest.nodes.values()
            if node.relation and not _plain(node.relation)
        }
        taken = Counter(wanted.values())
        names = {}
        for relation, (schema, name) in wanted.items():
            # Versions of a model, and models of several packages, may have the same name.
            unique = f"{name}_{sha256(relation.encode()).hexdigest()[:12]}" if taken[schema, name] > 1 else name
            names[relation] = f"`{schema}`.`{unique}`"
        return names


def _identifier(name: str) -> str:
    # The Hive metastore allows no other characters and no upper case.
    return re.sub(r"\W", "_", name, flags=re.ASCII).lower()


def _plain(relation: str) -> bool:
    parts = relation_parts(relation) or ()
    ours = len(parts) == 2 or (len(parts) == 3 and parts[0].lower() == "spark_catalog")
    return ours and all(part.replace("_", "a").isalnum() for part in parts)


# Prefixes of a target's settings that refer to its warehouse or require jars that are missing here.
_LEFT_OUT = (
    "spark.sql.warehouse.dir", "spark.sql.extensions", "spark.sql.catalog.", "spark.sql.catalogImplementation",
    "spark.sql.defaultCatalog", "spark.sql.hive.metastore.", "spark.sql.queryExecutionListeners",
    "spark.sql.streaming.", "spark.sql.ui.",
)  # fmt: skip
_PLANNER = ("spark.sql.", "spark.bucketing.")
_PARALLELISM = "spark.default.parallelism"


def planner_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return those settings of the target that affect plans, adapted to a Spark without data."""
    return {key: value for key, value in settings.items() if key.startswith(_PLANNER) and not key.startswith(_LEFT_OUT)}


def parallelism(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Return a setting with the number of cores of the target's Spark, if the target's settings determine it."""
    local = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?", settings.get("spark.master", "").strip())
    given = settings.get(_PARALLELISM)
    if given is None and local:
        given = str(os.cpu_count() or 1) if local[1] == "*" else local[1] or "1"
    return {} if given is None else {_PARALLELISM: given}


@contextmanager
def embedded_planner(settings: Mapping[str, str], extension: bool, schema: str) -> Iterator[Planner]:
    """Start a Spark that has no connection to any warehouse, and stop it at the end of the block.

    The session always loads the extension, which plans over stub tables. The extension's reads are disabled unless
    requested.
    """
    if is_open():
        raise SparkError(
            "Planning without a warehouse requires a separate Spark session.",
            found="a Spark session in this process",
            expected="a process without a session",
            instead="run `spark-bucketing check` in a separate process",
        )
    own = {} if extension else {Setting.ENABLED: "false"}
    with tempfile.TemporaryDirectory(prefix="spark-bucketing-", ignore_cleanup_errors=True) as name:
        session = open_session(_session_settings(Path(name), settings, build_jar()) | own, hive=False)
        try:
            with quiet_errors():
                planner = Planner("offline", partial(rows_of, session))
                if schema:
                    planner.rows(f"create schema if not exists {sql.name(schema)}")
                    planner.rows(f"use {sql.name(schema)}")
                yield planner
        finally:
            session.stop()


def _session_settings(folder: Path, settings: Mapping[str, str], jar: Path) -> dict[str, str]:
    return {
        **planner_settings(settings),
        **extension_settings(jar),
        # Nothing is executed, so one thread suffices; the number of cores that models run on affects some joins.
        "spark.master": "local[1]",
        **parallelism(settings),
        "spark.driver.memory": "2g",
        "spark.driver.host": "localhost",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        # Each query is planned only once, so the optimizing compiler does not pay off.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
    }
