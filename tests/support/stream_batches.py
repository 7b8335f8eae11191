"""Write the batches of a stream into a table in a separate driver, which can be killed between the commit of a batch and its end.

The program reads one file of `source` per batch, and stops the first batch whose files are committed if its last argument is `stop`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

STATEMENTS = {
    "insert": "insert into t select id, v from batch",
    "merge": "merge into t using batch as s on t.id = s.id when matched then update set v = t.v + s.v when not matched then insert *",
    "update": "update t set v = v + 1 where id in (select id from batch)",
}
CREATE = {
    "bucketed": "create table t (id bigint, v bigint) clustered by (id) sorted by (id) into 2 buckets stored as parquet",
    "organized": """create table t (id bigint, v bigint) using parquet tblproperties ('bucketing.range_by'='["id"]')""",
}
# The last steps of a statement: the committed one seals its files, and finishes.
STOPPED = "create .*/_replaced/[^/]*/done"


def _main(settings: Path, layout: str, statement: str, stops: bool) -> None:
    from spark_bucketing.session import open_session

    spark = open_session(json.loads(settings.read_text()))
    source, checkpoint = settings.parent / "source", settings.parent / "checkpoint"
    if not spark.catalog.tableExists("t"):
        spark.sql(CREATE[layout])
        spark.sql("insert into t select id, 0 from range(4)")
        for batch in range(3):
            rows = spark.sql(f"select id + {batch} as id, 1L as v from range(3)")
            rows.coalesce(1).write.parquet(str(source), mode="append")
    if stops:
        jvm: Any = spark.sparkContext._jvm
        jvm.org.apache.spark.sql.bucketing.support.TestFileSystem.hold(STOPPED)
        print('{"holds"', flush=True)

    def write(batch: Any, number: int) -> None:
        session = batch.sparkSession
        session.conf.set("spark.bucketing.write.txnAppId", "stream")
        session.conf.set("spark.bucketing.write.txnVersion", str(number))
        batch.createOrReplaceTempView("batch")
        session.sql(STATEMENTS[statement]).collect()

    files = spark.readStream.schema("id bigint, v bigint").option("maxFilesPerTrigger", 1).parquet(str(source))
    stream = files.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    stream.trigger(availableNow=True).start().awaitTermination()
    found = sorted(list(row) for row in spark.sql("select id, v from t").collect())
    print(json.dumps({"rows": found, "read": spark.read.parquet(str(source)).count()}), flush=True)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], stops=sys.argv[4] == "stop")
