"""Decide records of replacements in a separate process, which races another one.

For each line of its input with the directory of a record, and whether to commit it, the program decides it, and prints the decision that it finds.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def records_of(spark: Any, location: str) -> tuple[Any, Any, Any]:
    """Return the object that decides records, the directory of a table, and its file system."""
    jvm = spark.sparkContext._jvm
    folder = jvm.org.apache.hadoop.fs.Path(location)
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    return jvm.org.apache.spark.sql.bucketing.metadata.Replacement, folder, folder.getFileSystem(conf)


def _main(settings: Path, location: str) -> None:
    from spark_bucketing.session import open_session

    spark = open_session(json.loads(settings.read_text()))
    records, folder, fs = records_of(spark, location)
    print('{"ready": true}', flush=True)
    for line in sys.stdin:
        name, commits = line.split()
        found = records.records(folder, spark.sparkContext._jsc.hadoopConfiguration())
        record = next(one for one in map(found.apply, range(found.size())) if one.folder().getName() == name)
        print(json.dumps({"record": name}), flush=True)
        # Both processes have read the record before one of them decides.
        sys.stdin.readline()
        print(json.dumps({"decision": str(records.decide(record, commits == "commit", False, fs))}), flush=True)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), sys.argv[2])
