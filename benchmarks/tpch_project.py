"""Write TPC-H as a dbt project.

Eight table models read Parquet files, and 22 query models read these tables.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import yaml
from bench_project import ROOT, profile, use_package, write_files
from sqlglot import exp, parse_one

from spark_bucketing.extension.build import build_jar
from spark_bucketing.extension.settings import extension_settings

CASES = ROOT / "tests" / "cases" / "tpch"
# Schemas of the tables before and after the advice.
VARIANTS = {"before": "tpch", "after": "tpch_advised"}
# The macro creates views in an existing database, because the metastore does not accept a file as a table location.
_RAW = """\
{% macro raw_tables() %}
{% for name in TABLES %}
{% do run_query("create or replace view default." ~ name ~ " as select * from parquet.`FOLDER/" ~ name ~ ".parquet`") %}
{% endfor %}
{% endmacro %}
"""


def table_names() -> list[str]:
    """Return the names of the TPC-H tables."""
    return list(yaml.safe_load((CASES / "tables.yml").read_text())["tables"])


def queries() -> dict[str, str]:
    """Return the SQL text of each query by name."""
    return {path.stem: path.read_text() for path in sorted(CASES.glob("q*.sql"))}


def layouts() -> dict[str, dict[str, dict[str, object]]]:
    """Return the model configs of each layout in the test cases, by layout and then by table."""
    return {
        name: {
            table: {
                "materialized": "bucketed_table",
                "clustered_by": [column],
                "buckets": buckets,
                "bucket_hash": layout["hash"],
            }
            for table, (column, buckets) in layout["buckets"].items()
        }
        for name, layout in yaml.safe_load((CASES / "tables.yml").read_text())["layouts"].items()
    }


def make_project(folder: Path, data: Path, more: Mapping[str, str], comment: str = "") -> None:
    """Write the project without buckets to before/, and write its profiles next to that directory.

    Args:
        folder: absolute path of the directory for the tables and the metastore; the function deletes its contents.
        data: directory with a Parquet file for each table.
        more: Spark settings that override the default settings. `{variant}` stands for the name of the variant.
        comment: the project's query comment, or an empty text for dbt's own comment.
    """
    shutil.rmtree(folder, ignore_errors=True)
    names = table_names()
    project = {
        "name": "tpch",
        "profile": "tpch",
        "on-run-start": "{{ raw_tables() }}",
        "models": {"tpch": {"+materialized": "table", "+file_format": "parquet"}},
        **({"query-comment": comment} if comment else {}),
    }
    files = {
        "dbt_project.yml": json.dumps(project),
        "macros/raw_tables.sql": _RAW.replace("TABLES", repr(names)).replace("FOLDER", str(data)),
        "models/sources.yml": json.dumps(
            {"sources": [{"name": "raw", "schema": "default", "tables": [{"name": name} for name in names]}]}
        ),
    }
    files |= {f"models/tables/{name}.sql": f"select * from {{{{ source('raw', '{name}') }}}}\n" for name in names}
    files |= {f"models/queries/{name}.sql": _with_refs(text, names) for name, text in queries().items()}
    write_files(folder / "before", files)
    use_package(folder / "before")
    for variant, schema in VARIANTS.items():
        settings = _settings(folder) | {key: value.replace("{variant}", variant) for key, value in more.items()}
        write_files(folder / f"profile-{variant}", {"profiles.yml": profile("tpch", schema, settings)})
    (folder / "local").mkdir()


def _settings(folder: Path) -> dict[str, str]:
    return {
        **extension_settings(build_jar()),
        "spark.master": "local[2]",
        "spark.driver.memory": "4g",
        "spark.driver.host": "localhost",
        "spark.sql.shuffle.partitions": "16",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.local.dir": f"{folder}/local",
        "spark.hadoop.hive.downloaded.resources.dir": f"{folder}/local/resources",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder} -Djava.io.tmpdir={folder}/local"
        f" -Dlog4j2.configurationFile={ROOT}/scripts/log4j2.properties",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # The benchmark reads the shuffle bytes of every stage from Spark's status store.
        "spark.ui.retainedJobs": "100000",
        "spark.ui.retainedStages": "100000",
    }


def _with_refs(sql: str, names: list[str]) -> str:
    """Replace table names in a query with ref() calls, and leave all other text unchanged."""
    tables = [table for table in parse_one(sql, read="spark").find_all(exp.Table) if table.name in names]
    for table in sorted(tables, key=lambda table: table.this.meta["start"], reverse=True):
        alias = "" if table.alias else f" as {table.name}"
        start, end = table.this.meta["start"], table.this.meta["end"] + 1
        sql = f"{sql[:start]}{{{{ ref('{table.name}') }}}}{alias}{sql[end:]}"
    return sql
