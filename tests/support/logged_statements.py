"""Statements of two drivers on one table, each of which leaves a tag in the rows, so that the rows prove which of them had an effect.

If run as a program, it runs statements in a driver and prints a JSON object before and after each of them, until the file `stop` exists.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

# All drivers change the rows below this id, and none of them deletes these rows. `log` has the tags of a row.
BASE = 40
# An INSERT or MERGE of a step adds a row with the id of this driver and step.
FACTOR = 1_000_000
_BUCKETS = "clustered by (id) sorted by (id, o) into 4 buckets stored as parquet"
_ORGANIZED = """using parquet {} tblproperties ('bucketing.range_by'='["o"]', 'bucketing.rows_per_file'='20')"""
CREATE = {
    "bucketed-partitioned": f"create table t (id bigint, o int, log string) partitioned by (ds string) {_BUCKETS}",
    "bucketed-whole": f"create table t (id bigint, o int, log string, ds string) {_BUCKETS}",
    "organized-partitioned": f"create table t (id bigint, o int, log string, ds string) {_ORGANIZED.format('partitioned by (ds)')}",
    "organized-whole": f"create table t (id bigint, o int, log string, ds string) {_ORGANIZED.format('')}",
}
FILL = f"insert into t select id, cast(id as int), '', concat('p', id % 3) from range({BASE})"


def statement(kind: str, driver: int, step: int, deleted: int, is_partitioned: bool) -> str:
    """Return a statement, which adds the tag `<driver>.<step> ` to each base row in its scope."""
    tag, new, rest = f"{driver}.{step} ", driver * FACTOR + step, step % 3
    tagged = f"concat(log, '{tag}')"
    if kind == "overwrite":
        scope = f"where ds = 'p{rest}'" if is_partitioned else ""
        return f"insert overwrite t select id, o, {tagged}, ds from t {scope}"
    return {
        "insert": f"insert into t values ({new}, {step}, '', 'p{rest}')",
        "update": f"update t set log = {tagged}, o = o + 1 where id % 3 = {rest}",
        "all": f"update t set log = {tagged}",
        "delete": f"delete from t where id = {deleted}",
        "merge": f"merge into t using (select id, 'p{rest}' as ds from values ({rest}L), ({rest + 9}L), ({new}L) as (id)) as s on t.id = s.id"
        f" when matched then update set log = {tagged} when not matched then insert (id, o, log, ds) values (s.id, {step}, '', s.ds)",
    }[kind]


def scope(kind: str, step: int, is_partitioned: bool) -> set[int]:
    """Return the base rows that a statement tags."""
    rest = step % 3
    if kind == "merge":
        return {rest, rest + 9}
    if kind == "update" or (kind == "overwrite" and is_partitioned):
        return {key for key in range(BASE) if key % 3 == rest}
    return set(range(BASE)) if kind in ("all", "overwrite") else set()


@dataclass
class Outcomes:
    """What the drivers have said about their statements; compares it with the rows of the table."""

    is_partitioned: bool
    begun: dict[str, dict[str, Any]] = field(default_factory=dict)
    outcomes: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def read(self, driver: int, lines: Iterable[dict[str, Any]]) -> None:
        for line in lines:
            if "begins" in line:
                self.begun[f"{driver}.{line['step']}"] = line
            elif "outcome" in line:
                name = f"{driver}.{line['step']}"
                self.outcomes[name] = line["outcome"]
                if "error" in line:
                    self.errors[name] = line["error"]

    def faults(self, rows: list[tuple[int, str]]) -> list[str]:
        """Return what is wrong with the ids and the logs of the table's rows."""
        found = Counter(key for key, _ in rows)
        faults = [f"row {key} occurs {number} times" for key, number in found.items() if number != 1]
        faults += [f"row {key} is lost" for key in range(BASE) if key not in found]
        logs = {key: log.split() for key, log in rows if key < BASE}
        faults += [f"row {key} has a tag twice: {log}" for key, log in logs.items() if len(set(log)) < len(log)]
        for name, of in self.begun.items():
            outcome, kind = self.outcomes.get(name, "unknown"), of["begins"]
            driver, step = map(int, name.split("."))
            effects = {name in logs.get(key, ()) for key in scope(kind, step, self.is_partitioned)}
            if kind in ("insert", "merge"):
                new, deletions = driver * FACTOR + step, self._deletions(driver, step)
                if not (new not in found and "unknown" in deletions):
                    effects.add(new in found or "succeeds" in deletions)
            if kind == "delete" and outcome != "unknown":
                effects.add(of["deleted"] not in found)
            if len(effects) > 1:
                faults.append(f"{kind} {name} ({outcome}) has half of its effect")
            elif effects and outcome != "unknown" and effects != {outcome == "succeeds"}:
                faults.append(f"{kind} {name} {outcome}, but effect: {effects}: {self.errors.get(name, '')}")
        return faults

    def _deletions(self, driver: int, step: int) -> set[str]:
        """Return the outcomes of the statements that delete the row of a step."""
        key = driver * FACTOR + step
        return {
            self.outcomes.get(name, "unknown")
            for name, of in self.begun.items()
            if of["begins"] == "delete" and of["deleted"] == key
        }


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def _run(spark: Any, driver: int, first: int, is_partitioned: bool, stop: Path) -> None:
    chosen, inserted = random.Random(driver * 1000 + first), list[int]()
    kinds = {"insert": 3, "update": 2, "all": 1, "delete": 2, "merge": 3, "overwrite": 2}
    _say(ready=driver)
    for step in count(first):
        if stop.exists():
            break
        (kind,) = chosen.choices(list(kinds), list(kinds.values()))
        if kind == "delete" and not inserted:
            kind = "insert"
        deleted = inserted.pop(0) if kind == "delete" else -1
        _say(begins=kind, step=step, deleted=deleted)
        try:
            spark.sql(statement(kind, driver, step, deleted, is_partitioned)).collect()
        except Exception as error:
            _say(outcome="fails", step=step, error=str(error)[:2000])
        else:
            _say(outcome="succeeds", step=step)
            if kind in ("insert", "merge"):
                inserted.append(driver * FACTOR + step)


def _main(settings: Path, layout: str, mode: str, *arguments: str) -> None:
    from spark_bucketing.session import open_session

    spark = open_session(json.loads(settings.read_text()))
    if mode == "create":
        spark.sql(CREATE[layout])
        spark.sql(FILL).collect()
        return
    if mode == "run":
        driver, first, stop = arguments
        _run(spark, int(driver), int(first), layout.endswith("partitioned"), Path(stop))
        return
    recovered = [str(row[0]) for row in spark.sql("alter table t recover files").collect()]
    read = "select id, log from t"
    rows = [[tuple(row) for row in spark.sql(read).collect()]]
    spark.conf.set("spark.bucketing.enabled", "false")
    spark.sql("refresh table t")
    rows.append([tuple(row) for row in spark.sql(read).collect()])
    states = spark.sql("select status from bucket_specs('t')").collect() if layout.startswith("bucketed") else []
    _say(recovered=recovered, rows=rows, states=[row.status for row in states])


if __name__ == "__main__":
    _main(Path(sys.argv[1]), *sys.argv[2:])
