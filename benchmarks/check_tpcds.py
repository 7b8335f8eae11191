"""Check the 103 queries of TPC-DS in Spark's tests over bucketed tables: `make bench-check`.

Each fact table is bucketed by its item, and so are the tables of items and customers by their keys. The tables have no
rows, but the metastore states sizes of scale factor 10, with which Spark plans. The queries come from the jar of
Spark's tests, and the columns and numbers of rows from Trino's generator.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

from local_spark import session

import spark_bucketing

KEYS = {
    "item": "i_item_sk",
    "customer": "c_customer_sk",
    "store_sales": "ss_item_sk",
    "store_returns": "sr_item_sk",
    "catalog_sales": "cs_item_sk",
    "catalog_returns": "cr_item_sk",
    "web_sales": "ws_item_sk",
    "web_returns": "wr_item_sk",
    "inventory": "inv_item_sk",
}
TYPES = {"INTEGER": "int", "IDENTIFIER": "bigint", "DATE": "date", "TIME": "string", "VARCHAR": "string"}
NOT_A_TABLE = "dbgen_version"
# Bytes of a value in a Parquet file, on average.
WIDTH = 5


def queries(jar: Path) -> dict[str, str]:
    """Return the queries in the jar of Spark's tests, by name."""
    with zipfile.ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if name.startswith("tpcds/q") and name.endswith(".sql")]
        return {Path(name).stem: archive.read(name).decode() for name in sorted(names)}


def statements(jvm: Any, buckets: int) -> list[str]:
    """Return the statements that create the tables."""
    generator = jvm.io.trino.tpcds
    scaling = generator.Session.getDefaultSession().withScale(10.0).getScaling()
    made = []
    for table in generator.Table.getBaseTables():
        name = table.getName()
        if name == NOT_A_TABLE:
            continue
        columns = [f"{_name(column.getName())} {type_of(column.getType())}" for column in table.getColumns()]
        rows = scaling.getRowCount(table)
        size = f"tblproperties ('totalSize' = '{rows * len(columns) * WIDTH}', 'numRows' = '{rows}')"
        key = KEYS.get(name)
        by = f"clustered by ({key}) sorted by ({key}) into {buckets} buckets" if key else ""
        made.append(f"create table {name} ({', '.join(columns)}) {by} stored as parquet {size}")
    return made


def _name(column: str) -> str:
    # Spark's queries have the name of an earlier version of TPC-DS.
    return "c_last_review_date" if column == "c_last_review_date_sk" else column


def type_of(of: Any) -> str:
    """Return the SQL type of a column."""
    base = of.getBase().toString()
    # Spark plans a comparison of CHAR columns in another way than one of strings.
    return TYPES.get(base) or (
        f"decimal({of.getPrecision().get()},{of.getScale().get()})" if base == "DECIMAL" else "string"
    )


def main() -> None:
    """Check the queries, and print how many operators read buckets, and which queries could not be judged."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jars", type=Path, required=True, help="folder of the two jars")
    parser.add_argument("--buckets", type=int, default=32, help="number of buckets of each table")
    options = parser.parse_args()
    (tests,) = options.jars.glob("spark-sql_*-tests.jar")
    (generator,) = options.jars.glob("tpcds-*.jar")
    with tempfile.TemporaryDirectory() as folder:
        spark = session(Path(folder), {"spark.master": "local[2]", "spark.driver.extraClassPath": str(generator)})
        for statement in statements(spark.sparkContext._jvm, options.buckets):
            spark.sql(statement)
        began, verdicts, reasons, unclear = time.perf_counter(), Counter[str](), Counter[str](), []
        for name, sql in queries(tests).items():
            report = spark_bucketing.check(sql=sql, spark=spark).to_dict()
            for model in report["models"]:
                findings = [*model["findings"], *(one for of in model["operators"] for one in of["findings"])]
                verdicts.update(operator["verdict"] for operator in model["operators"])
                reasons.update(finding["reason"] for finding in findings)
                missing = [one for one in findings if one["level"] == "unknown" or one["reason"] == "unexplained"]
                unclear += [f"{name}: {finding['message']}" for finding in missing]
        seconds = time.perf_counter() - began
        spark.stop()
    print(f"{len(queries(tests))} queries in {seconds:.0f} s: {verdicts.total()} operators")
    print(dict(verdicts.most_common()), dict(reasons.most_common()), sep="\n")
    if unclear:
        raise SystemExit("Not judged:\n" + "\n".join(unclear))


if __name__ == "__main__":
    main()
