"""Run statements on an organized or bucketed table in a separate driver.

The program prints a JSON object before and after each statement. With `loop`, it runs the statements of a seed until
the process is killed, and also prints the rows of the table at the start and after the first statement. With `share`,
it runs statements whose order does not matter on a table that another driver changes at the same time.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

Rows = dict[int, tuple[int, int, str]]
# The DDL of a table of each layout, with more columns, a partition column and a location.
CREATE = {
    "organized": (
        "create table t (id bigint, o int, v int, ds string) using parquet partitioned by (ds) {location}"
        """ tblproperties ('bucketing.range_by'='["o"]', 'bucketing.rows_per_file'='20')"""
    ),
    "bucketed": (
        "create table t (id bigint, o int, v int) partitioned by (ds string)"
        " clustered by (id) sorted by (id, o) into 4 buckets stored as parquet {location}"
    ),
}
FILL = (
    "merge into t using (select id, cast(id as int) as o, 0 as v, concat('p', id % {parts}) as ds from range({rows})) as s"
    " on false when not matched then insert *"
)
START: Rows = {key: (key, 0, f"p{key % 3}") for key in range(200)}


class Statement(NamedTuple):
    """A statement, and its effect on the rows by id."""

    sql: str
    effect: Callable[[Rows], Rows]


def statement(layout: str, seed: int, number: int) -> Statement:
    """Return one of the statements of a seed. A killed INSERT INTO may leave rows in a bucketed table."""
    chosen = random.Random(seed * 100_000 + number)
    divisor = chosen.choice([3, 7, 50])
    rest = chosen.randrange(divisor)
    kinds = {_merge: 4, _overwrite: 3, _update: 1, _move: 1, _delete: 1, _append: 3 if layout == "organized" else 0}
    (kind,) = chosen.choices(list(kinds), list(kinds.values()))
    return kind(chosen.randrange(200), number) if kind in (_merge, _append) else kind(divisor, rest)


def _update(divisor: int, rest: int) -> Statement:
    return Statement(
        f"update t set o = o + 3, v = v + 1 where id % {divisor} = {rest}",
        lambda rows: rows | {key: (o + 3, v + 1, ds) for key, (o, v, ds) in rows.items() if key % divisor == rest},
    )


def _move(divisor: int, rest: int) -> Statement:
    return Statement(
        f"update t set ds = 'p{rest}' where id % {divisor} = {rest}",
        lambda rows: rows | {key: (o, v, f"p{rest}") for key, (o, v, _) in rows.items() if key % divisor == rest},
    )


def _delete(divisor: int, rest: int) -> Statement:
    return Statement(
        f"delete from t where id % {divisor} = {rest}",
        lambda rows: {key: row for key, row in rows.items() if key % divisor != rest},
    )


def _overwrite(divisor: int, rest: int) -> Statement:
    partitions = [f"p{rest}", f"p{(rest + 1) % 3}"]

    def effect(rows: Rows) -> Rows:
        read = {key: row for key, row in rows.items() if row[2] in partitions and key % 13 != divisor % 13}
        new = {key: (o, v + 10, ds) for key, (o, v, ds) in read.items()}
        # Spark replaces only partitions for which the query returns rows.
        replaced = {ds for _, _, ds in new.values()}
        return {key: row for key, row in rows.items() if row[2] not in replaced} | new

    listed = ", ".join(map(repr, partitions))
    rows = f"select id, o, v + 10, ds from t where ds in ({listed}) and id % 13 != {divisor % 13}"
    return Statement(f"insert overwrite t {rows}", effect)


def _append(low: int, number: int) -> Statement:
    return Statement(
        f"insert into t select id, cast(id as int), {number}, concat('p', id % 7) from range({low}, {low + 60})"
        " where id not in (select id from t)",
        lambda rows: rows | {key: (key, number, f"p{key % 7}") for key in range(low, low + 60) if key not in rows},
    )


def _merge(low: int, number: int) -> Statement:
    def effect(rows: Rows) -> Rows:
        after = dict(rows)
        for key in range(low, low + 60):
            if key not in after:
                after[key] = (key % 97, number, f"p{key % 5}")
            elif key % 5 == 0:
                del after[key]
            else:
                after[key] = (after[key][0], after[key][1] + 100, after[key][2])
        return after

    return Statement(
        f"merge into t using (select id, cast(id % 97 as int) as o, {number} as v, concat('p', id % 5) as ds"
        f" from range({low}, {low + 60})) as s on t.id = s.id when matched and s.id % 5 = 0 then delete"
        " when matched then update set v = t.v + 100 when not matched then insert *",
        effect,
    )


def decoded(rows: list[Any]) -> Rows:
    return {key: (o, v, ds) for key, o, v, ds in rows}


class Killed:
    """The outputs of killed processes, compared with the effects of their statements."""

    def __init__(self, layout: str, seed: int) -> None:
        self.layout, self.seed, self.number = layout, seed, 0
        # The rows that the table may have.
        self.possible: list[Rows] = [START]
        self.outcomes: Counter[str] = Counter()
        # The killed statements, by their first word, with the second word of INSERT.
        self.statements: Counter[str] = Counter()

    def read(self, lines: list[dict[str, Any]]) -> None:
        """Compare the output of a process with the possible rows, and determine the rows after its kill."""
        (first, *rest) = lines
        found = decoded(first["rows"])
        assert len(found) == len(first["rows"]), "a row occurs twice"
        assert found in self.possible, f"wrong rows before statement {self.number} of seed {self.seed}"
        if len(self.possible) > 1:
            verb, keyword = statement(self.layout, self.seed, self.number - 1).sql.split()[:2]
            self.statements[f"{verb} {keyword}" if verb == "insert" else verb] += 1
        self.outcomes[("before", "after")[self.possible.index(found)] if len(self.possible) > 1 else "between"] += 1
        rows, self.possible = found, [found]
        for line in rest:
            if "begins" in line:
                self.number = line["begins"] + 1
                after = statement(self.layout, self.seed, line["begins"]).effect(rows)
                self.possible = [rows, after]
            elif "ends" in line:
                rows, self.possible = after, [after]
            else:
                assert len(line["rows"]) == len(rows) and decoded(line["rows"]) == rows, (
                    f"after statement {self.number - 1}"
                )


def driver(*arguments: object) -> list[str]:
    return [sys.executable, __file__, *map(str, arguments)]


def output(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{") and line.endswith("}")]


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def _loop(spark: Any, layout: str, seed: int, number: int, most: int) -> None:
    def rows() -> list[list[Any]]:
        return [list(row) for row in spark.sql("select id, o, v, ds from t").collect()]

    if not spark.catalog.tableExists("t"):
        spark.sql(CREATE[layout].format(location=""))
        spark.sql(FILL.format(parts=3, rows=200)).collect()
    _say(rows=rows())
    for step in range(number, number + most) if most else count(number):
        _say(begins=step)
        spark.sql(statement(layout, seed, step).sql).collect()
        _say(ends=step)
        if step == number:
            _say(rows=rows())
            spark.conf.set("spark.bucketing.enabled", "false")
            spark.sql("refresh table t")
            _say(rows=rows())
            spark.conf.set("spark.bucketing.enabled", "true")


def _succeeds(spark: Any, sql: str) -> bool:
    """Run a statement; return False if its error tells the user that it has changed nothing and can run again."""
    try:
        spark.sql(sql).collect()
    except Exception as error:
        if not re.search("run it again|Run the query again", str(error)):
            raise
        return False
    return True


def _share(spark: Any, layout: str, location: str, driver: int, statements: int) -> None:
    """Add 1 or 1,000 to `v` with each update, and add a row with each merge."""
    spark.sql(CREATE[layout].format(location=f"location '{location}'"))
    # The drivers have separate metastores, so a driver does not know partitions that the other creates.
    spark.sql("alter table t add partition (ds='p0') partition (ds='p1')")
    if driver == 0:
        spark.sql(FILL.format(parts=2, rows=100)).collect()
    _say(ready=driver)
    for step in range(statements):
        new = f"select {1000 * driver + 1000 + step}L as id, 50 as o, 0 as v, 'p{step % 2}' as ds"
        for kind, sql in {
            "update": f"update t set v = v + {1000**driver} where id % 50 = 1",
            "merge": f"merge into t using ({new}) as s on t.id = s.id when not matched then insert *",
        }.items():
            _say(**{"ends" if _succeeds(spark, sql) else "fails": kind}, step=step)
    spark.sql("refresh table t")
    _say(rows=[list(row) for row in spark.sql("select id, v from t").collect()])


def _main(settings: Path, mode: str, *arguments: str) -> None:
    from spark_bucketing.session import open_session

    spark = open_session(json.loads(settings.read_text()))
    layout, *others = arguments
    if mode == "loop":
        _loop(spark, layout, *map(int, others))
    else:
        _share(spark, layout, others[0], *map(int, others[1:]))


if __name__ == "__main__":
    _main(Path(sys.argv[1]), *sys.argv[2:])
