"""Compare this package with plain Parquet, stock buckets, Iceberg, Delta and Comet in Spark 4.1: `make bench-peers`.

Each engine has its own JVM with 2 GiB of heap, and two cores by default. The engines of a part run each of its steps in
turns, and another engine begins in each round. All engines must return the same rows. The first round of all parts but
joins, and of the first join, warms up and does not count. Each part prints Markdown tables of medians.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from peer_engines import (
    COMET_PLAIN,
    DELTA,
    DELTA_VECTORS,
    HASHING,
    HIVE,
    HIVE_COMET,
    HIVE_SHUFFLED,
    HIVE_WHOLE,
    ICEBERG,
    ICEBERG_COPY,
    ICEBERG_PARTIAL,
    ICEBERG_READ,
    ORGANIZED,
    PLAIN,
    SHARED,
    SPARK,
    SPARK_COMET,
    STOCK,
    STOCK_COMET,
    Engine,
    Process,
    Run,
    Table,
    create,
    fill,
    home_of,
    running,
)
from tables import generate

from spark_bucketing.extension.build import build_jar

ON = "on l_orderkey = o_orderkey"
# `fine` is lineitem in 64 buckets instead of 16, or a view of lineitem in a format without buckets.
QUERIES = {
    "join, group by key": (
        "select count(*), sum(total) from "
        f"(select o_orderkey, sum(l_extendedprice) as total from lineitem join orders {ON} group by o_orderkey)"
    ),
    "three tables, group by key": (
        "select count(*), sum(total), sum(paid) from (select o_orderkey, sum(l_extendedprice) as total, "
        f"max(p_totalprice) as paid from lineitem join orders {ON} join payments on o_orderkey = p_orderkey "
        "group by o_orderkey)"
    ),
    "window over key": (
        "select count(*), sum(total), max(total) from "
        "(select sum(l_extendedprice) over (partition by l_orderkey) as total from lineitem)"
    ),
    "semi join": (
        "select count(*), sum(o_totalprice) from orders where exists "
        "(select 1 from lineitem where l_orderkey = o_orderkey and l_quantity > 40)"
    ),
    "anti join": (
        "select count(*), sum(o_totalprice) from orders where not exists "
        "(select 1 from lineitem where l_orderkey = o_orderkey and l_quantity > 40)"
    ),
    "full outer join": (
        "select count(*), count(o_orderkey), sum(l_extendedprice), sum(o_totalprice) from lineitem "
        f"full join (select * from orders where o_orderdate >= '1994-01-01') {ON}"
    ),
    "64 with 16 buckets": f"select count(*), sum(l_extendedprice), max(o_orderdate) from fine join orders {ON}",
    "45 % of the rows in one key": (
        "select count(*), sum(e_price), max(o_orderdate) from events join orders on e_orderkey = o_orderkey"
    ),
    "group by key": (
        "select count(*), sum(total), max(total) from "
        "(select l_orderkey, sum(l_extendedprice) as total from lineitem group by l_orderkey)"
    ),
    "scan only": (
        "select * from (select count(l_orderkey), sum(l_extendedprice) from lineitem) "
        "cross join (select count(o_orderkey), max(o_orderdate) from orders)"
    ),
}
LINEITEM = (
    "l_orderkey bigint, l_linenumber int, l_partkey bigint, l_quantity decimal(15, 2), l_extendedprice decimal(15, 2), "
    "l_shipdate date, l_shipmode string",
    "l_orderkey",
    "select l_orderkey, l_linenumber, l_partkey, l_quantity, l_extendedprice, l_shipdate, l_shipmode "
    "from lineitem_source",
)
JOINED = [
    Table(
        "payments", "p_orderkey bigint, p_totalprice decimal(15, 2)", "p_orderkey",
        "select o_orderkey as p_orderkey, o_totalprice as p_totalprice from orders_source where o_orderkey % 3 = 0", 16,
    ),
    Table(
        "events", "e_orderkey bigint, e_price decimal(15, 2)", "e_orderkey",
        "select if(pmod(hash(l_orderkey, l_linenumber), 100) < 45, 7L, l_orderkey) as e_orderkey, "
        "l_extendedprice as e_price from lineitem_source", 16,
    ),
    Table(
        "orders", "o_orderkey bigint, o_totalprice decimal(15, 2), o_orderdate date, o_orderpriority string",
        "o_orderkey",
        "select o_orderkey, o_totalprice, o_orderdate, o_orderpriority from orders_source", 16,
    ),
    Table("lineitem", *LINEITEM, 16),
    Table("fine", *LINEITEM, 64),
]  # fmt: skip
READERS = [PLAIN, HASHING, STOCK, ICEBERG, DELTA, COMET_PLAIN, STOCK_COMET, HIVE, SPARK, HIVE_COMET, SPARK_COMET]
WRITERS = [PLAIN, STOCK, ICEBERG, DELTA, HIVE, SPARK]
CHANGERS = [PLAIN, ICEBERG_COPY, ICEBERG_READ, DELTA, DELTA_VECTORS, HIVE, ORGANIZED]
DAYS = 20
CHECKSUM = "select count(*), sum(cast(hash(k, v, w, day) as bigint)) from t"
CROWDED = [PLAIN, ICEBERG_PARTIAL, HIVE_WHOLE, HIVE]
SEEKERS = [PLAIN, COMET_PLAIN, ICEBERG, DELTA, ORGANIZED]


TIMES = "Each cell shows seconds, and CPU seconds of the JVM in parentheses:"
WRITTEN = "Jobs, new files, and their size in MiB:"


class Cost(NamedTuple):
    """What a step cost an engine in one round."""

    run: Run
    files: int = 0
    bytes: int = 0


# The cost of a step that an engine does not run.
SKIPPED = Cost(Run([], 0, 0, 0, 0, 0))


class Results:
    """The costs of the steps of a part, by step and engine."""

    def __init__(self, engines: Sequence[Engine], wrong: list[str]) -> None:
        self.engines, self.wrong = [engine.name for engine in engines], wrong
        self.costs: dict[str, dict[str, list[Cost]]] = {}

    def add(self, step: str, costs: Mapping[str, Cost], counts: bool, compare: bool = True) -> None:
        """Add the costs of a step in one round, and compare the rows of all engines with those of the first one."""
        expected = costs[self.engines[0]].run.rows
        for engine in self.engines:
            found = costs[engine].run.rows
            if compare and costs[engine] is not SKIPPED and found != expected:
                self.wrong.append(f"{step}, {engine}: found {found[:5]}, expected {expected[:5]}")
            if counts:
                self.costs.setdefault(step, {}).setdefault(engine, []).append(costs[engine])
        seconds = ", ".join(f"{costs[engine].run.seconds:.2f}" for engine in self.engines)
        print(f"{time.strftime('%H:%M:%S')} {step}: {seconds}", file=sys.stderr, flush=True)

    def print_table(self, title: str, steps: Sequence[str], cell: Callable[[list[Cost]], str]) -> None:
        """Print a row of cells for each of these steps, with a column for each engine."""
        print(f"\n{title}\n\n| | {' | '.join(self.engines)} |\n| --- |{' --- |' * len(self.engines)}")
        for step in steps:
            print(f"| {step} | {' | '.join(cell(self.costs[step][engine]) for engine in self.engines)} |")
        sys.stdout.flush()


def median(costs: Sequence[Cost], figure: Callable[[Cost], float]) -> float:
    """Return the median of a figure."""
    return statistics.median(map(figure, costs))


def times(costs: list[Cost]) -> str:
    """Return the median seconds, and the median CPU seconds."""
    if costs[0] is SKIPPED:
        return "-"
    return f"{median(costs, lambda cost: cost.run.seconds):.2f} ({median(costs, lambda cost: cost.run.cpu):.1f})"


def modelled(costs: list[Cost]) -> str:
    """Return the median of the modelled seconds."""
    return f"{median(costs, lambda cost: cost.run.model):.2f}"


def shape_of(costs: list[Cost]) -> str:
    """Return the last numbers of exchanges, sorts and jobs."""
    run = costs[-1].run
    if costs[-1] is SKIPPED:
        return "-"
    return f"{run.exchanges}, {run.sorts}, {run.jobs}"


def written(costs: list[Cost]) -> str:
    """Return the median numbers of jobs and of new files, and the median size of these files."""
    if costs[0] is SKIPPED:
        return "-"
    jobs, files, size = (
        median(costs, figure) for figure in (lambda c: c.run.jobs, lambda c: c.files, lambda c: c.bytes)
    )
    return f"{jobs:.0f}, {files:.0f}, {size / 2**20:.1f}"


def measured(process: Process, table: str, *statements: str) -> Cost:
    """Run statements that change a table, and count its new files and their bytes."""
    before = process.files(table)
    run = process.run(*statements)
    new = [size for path, size in process.files(table).items() if path not in before]
    return Cost(run, len(new), sum(new))


def queried(process: Process, text: str) -> Cost:
    """Run a query, except windows that use the order of stock buckets, where Comet 1.2.0 fails."""
    if process.engine is STOCK_COMET and " over (" in text:
        return SKIPPED
    return Cost(process.run(text))


def filled(process: Process, table: Table) -> Cost:
    """Write the rows of a table that is empty."""
    return measured(process, table.name, *fill(process.engine, table))


def in_turns(processes: Sequence[Process], turn: int, step: Callable[..., Cost], *arguments: object) -> dict[str, Cost]:
    """Run a step on each engine; another engine begins in each turn."""
    first = turn % len(processes)
    return {process.engine.name: step(process, *arguments) for process in [*processes[first:], *processes[:first]]}


def joins(options: argparse.Namespace, folder: Path, wrong: list[str]) -> None:
    """Write the tables in each format, and run the queries."""
    source = options.folder.absolute() / f"scale-{options.scale:g}"
    generate(source, options.scale)
    writes = Results(WRITERS, wrong)
    with running(WRITERS, folder / "write") as processes:
        for process in processes:
            for name in ("orders", "lineitem"):
                path = source / f"{name}.parquet"
                process.run(f"create temporary view {name}_source using parquet options (path '{path}')")
        for table in JOINED:
            for turn in range(options.slow_rounds if table.name in ("orders", "lineitem") else 1):
                costs = in_turns(processes, turn, _write, table)
                writes.add(f"write {table.name}", costs, True, compare=False)
    reads = Results(READERS, wrong)
    homes = {engine.format: home_of(engine, folder / "write") for engine in WRITERS}
    with running(READERS, folder / "read", homes) as processes:
        for query, text in QUERIES.items():
            # Only the first query has a warm-up, because a median of several runs is not the first one.
            for turn in range(-1 if query == next(iter(QUERIES)) else 0, options.rounds):
                reads.add(query, in_turns(processes, turn, queried, text), turn >= 0)
    title = f"### Joins and aggregates\n\nTPC-H scale {options.scale:g}, medians of {options.rounds} runs. {TIMES}"
    reads.print_table(title, list(QUERIES), times)
    reads.print_table("Exchanges, sorts and jobs:", list(QUERIES), shape_of)
    rounds = f"Medians of {options.slow_rounds} runs for orders and lineitem, and one run of the other tables."
    writes.print_table(f"### Writing\n\n{rounds} {TIMES}", list(writes.costs), times)
    writes.print_table(WRITTEN, list(writes.costs), written)


def _write(process: Process, table: Table) -> Cost:
    if table.name == "fine" and process.engine.format in ("plain", "delta"):
        process.run("create view fine as select * from lineitem")
        return SKIPPED
    process.run(f"drop table if exists {table.name}", *create(process.engine, table))
    return filled(process, table)


class Delta(NamedTuple):
    """New versions of a share of the rows, and a tenth of new rows, over all days or over the last days."""

    share: float
    spread: bool

    @property
    def name(self) -> str:
        """Return a title for the merge."""
        return f"MERGE of {self.share:.2%} of the rows, {'spread' if self.spread else 'recent'}".replace(".00", "")

    def rows(self, rows: int, turn: int) -> tuple[str, int]:
        """Return a query for the rows in a round, and the first day that they change."""
        number, of_day = max(1, int(rows * self.share)), rows // DAYS
        region = rows if self.spread else max(of_day, 2 * number)
        step = region // number
        first = rows - region
        return (
            f"select 2 * i + if(j % 10 = 0, 1, 0) as k, j + {turn}000 as v, concat('changed {turn} ', i) as w, "
            f"cast(i div {of_day} as int) as day from "
            f"(select id as j, {first} + id * {step} + {turn % step} as i from range({number}))",
            first // of_day,
        )


DELTAS = [Delta(share, spread) for share in (0.0001, 0.01, 0.1) for spread in (False, True)]
QUERIES_AFTER = {
    "scan": "select count(*), sum(v), max(w) from t",
    "join": "select count(*), sum(t.v + u.v) from t join u on t.k = u.k",
    "point lookup": "select * from t where k = {key}",
}


def merges(options: argparse.Namespace, folder: Path, wrong: list[str]) -> None:
    """Change rows of the same table in each format, and query it."""
    rows, of_day = options.rows, options.rows // DAYS
    numbers = "select 2 * id as k, id as v, md5(string(id)) as w"
    query = f"{numbers}, cast(id div {of_day} as int) as day from range(0, {rows}, 1, 8)"
    other = f"select 8 * id as k, id as v from range({rows // 4})"
    tables = [
        Table("t", "k bigint, v bigint, w string", "k", query, 8, True, 8 * DAYS, max(1, of_day // 8)),
        Table("u", "k bigint, v bigint", "k", other, 8, False, 8, max(1, rows // 32)),
    ]
    results = Results(CHANGERS, wrong)
    with running(CHANGERS, folder) as processes:
        for table in tables:
            for process in processes:
                process.run(*create(process.engine, table))
            results.add(f"write {table.name}", in_turns(processes, 0, filled, table), True, compare=False)
        for turn in range(options.slow_rounds + 1):
            _change(processes, results, options.rows, turn, folder / "deltas")
    runs = f"medians of {options.slow_rounds} runs after the write"
    title = f"### Changing rows\n\n{rows:,} rows in {DAYS} days, {runs}. {TIMES}"
    steps = [step for step in results.costs if step != "write u"]
    results.print_table(title, steps, times)
    results.print_table(WRITTEN, steps, written)


def _change(processes: Sequence[Process], results: Results, rows: int, turn: int, folder: Path) -> None:
    """Run all statements and queries once on each engine, and compare the tables."""
    counts = turn > 0
    for delta in DELTAS:
        query, first = delta.rows(rows, turn)
        path = folder / f"{turn}-{DELTAS.index(delta)}"
        processes[0].run(f"insert overwrite directory '{path}' using parquet {query}")
        for process in processes:
            process.run(f"create or replace temporary view delta using parquet options (path '{path}')")
        results.add(delta.name, in_turns(processes, turn, _merge, first), counts, compare=False)
    day, key = DAYS // 2, rows + 2 * turn
    plain = f"select k, if(k = {key}, v + 1, v) as v, w, day from t where day = {day}"
    statements = {
        "UPDATE of one row": (
            f"update t set v = v + 1 where day = {day} and k = {key}",
            f"insert overwrite t select /*+ rebalance(day) */ * from ({plain})",
        ),
        "DELETE of a day": (
            f"delete from t where day = {turn}",
            f"alter table t drop if exists partition (day = {turn})",
        ),
    }
    for step, pair in statements.items():
        results.add(step, in_turns(processes, turn, _changed, *pair), counts, compare=False)
    for step, text in QUERIES_AFTER.items():
        results.add(step, in_turns(processes, turn, queried, text.format(key=key)), counts)
    results.add("checksum", in_turns(processes, turn, queried, CHECKSUM), False)


def _merge(process: Process, first: int) -> Cost:
    """Merge the view `delta`, which changes this day and all later days."""
    equal = "t.day = s.day and t.k = s.k"
    merge = f"merge into t using delta s on {equal} when matched then update set * when not matched then insert *"
    kept = f"select * from t where day >= {first} and not exists (select 1 from delta s where {equal})"
    overwrite = f"insert overwrite t select /*+ rebalance(day) */ * from ({kept} union all select * from delta)"
    return _changed(process, merge, overwrite)


def _changed(process: Process, statement: str, of_plain: str) -> Cost:
    """Run a statement, or the one that has its effect on a plain table, which Spark cannot change row by row."""
    return measured(process, "t", of_plain if process.engine.format == "plain" else statement)


def lookups(options: argparse.Namespace, folder: Path, wrong: list[str]) -> None:
    """Look up keys and ranges of keys in a table of many files, before and after an INSERT."""
    rows, files = options.rows, options.files
    query = f"select 2 * id as k, id as v, md5(string(id)) as w from range(0, {rows}, 1, 8)"
    table = Table("t", "k bigint, v bigint, w string", "k", query, 0, False, files, rows // files)
    results = Results(SEEKERS, wrong)
    with running(SEEKERS, folder) as processes:
        for process in processes:
            process.run(*create(process.engine, table))
        results.add("write", in_turns(processes, 0, filled, table), True, compare=False)
        for turn in range(options.rounds + 1):
            _seek(processes, results, rows, turn)
    runs = f"medians of {options.rounds} runs after the write"
    title = f"### Lookups\n\n{rows:,} rows in {files:,} files, {runs}. {TIMES}"
    results.print_table(title, list(results.costs), times)
    results.print_table(WRITTEN, ["write", "INSERT of a row"], written)


def _seek(processes: Sequence[Process], results: Results, rows: int, turn: int) -> None:
    """Run all lookups once on each engine. A cold query is the first one after the engine has forgotten the files."""
    keys = [2 * ((rows // 7 * number + 7919 * turn) % (rows - rows // 1000)) for number in range(1, 6)]
    point = "select * from t where k = {}"
    between = f"select count(*), sum(v), max(w) from t where k between {{0}} and {{0}} + {rows // 500}"
    # The optimizer does not know the keys, because they are the rows of another table.
    chosen = f"(select {{}} + 2 * id as k from range({rows}) where hash(id) % {rows // 10} = 0)"
    few = f"select /*+ broadcast(chosen) */ count(*), sum(v), max(w) from t join {chosen} as chosen on t.k = chosen.k"
    steps = {
        "point, cold": point.format(keys[0]),
        "point, warm": point.format(keys[1]),
        "range, cold": between.format(keys[2]),
        "range, warm": between.format(keys[3]),
        "INSERT of a row": f"insert into t values ({2 * turn + 1}, {turn}, 'new')",
        "point, after the INSERT": point.format(2 * turn + 1),
        "join with few keys": few.format(keys[4]),
        "scan": QUERIES_AFTER["scan"],
    }
    for step, text in steps.items():
        if step.endswith("cold"):
            for process in processes:
                process.cool("t")
        costs = in_turns(processes, turn, measured, "t", text)
        results.add(step, costs, turn > 0, compare=not text.startswith("insert"))


SHAPES = {"1 bucket": (1, 0.0), "2 buckets, 20 % in one key": (2, 0.2), "2 buckets, 50 % in one key": (2, 0.5)}
QUERIES_OF_BUCKETS = {
    "join": "select count(*), sum(a.v + b.v) from facts a join others b on a.k = b.k",
    "full outer join": "select count(*), sum(a.v + b.v) from facts a full join others b on a.k = b.k",
    "group by key": "select count(*), sum(n) from (select k, sum(v) as n, max(w) from facts group by k)",
    "window over key": "select sum(n) from (select rank() over (partition by k order by v) as n from facts)",
}


def buckets(options: argparse.Namespace, folder: Path, wrong: list[str]) -> None:
    """Query tables that have fewer large buckets than there are cores, or many rows in one key."""
    rows = 2 * options.rows
    engines = CROWDED + [HIVE_SHUFFLED] * (options.cores > 4)
    results = Results(engines, wrong)
    with running(engines, folder) as processes:
        for shape, (number, skew) in list(SHAPES.items())[: options.shapes]:
            key = f"if(id < {int(rows * skew)}L, 7L, xxhash64(id) % {rows // 4})"
            for name, sql, size in (("facts", key, rows), ("others", "id", rows // 4)):
                query = f"select {sql} as k, id as v, md5(string(id)) as w from range(0, {size}, 1, 8)"
                table = Table(name, "k bigint, v bigint, w string", "k", query, number)
                in_turns(processes, 0, _write, table)
            for title, text in QUERIES_OF_BUCKETS.items():
                for turn in range(options.rounds + 1):
                    results.add(f"{shape}: {title}", in_turns(processes, turn, queried, text), turn > 0)
    title = f"### Few buckets\n\n{rows:,} and {rows // 4:,} rows, medians of {options.rounds} runs. {TIMES}"
    results.print_table(title, list(results.costs), times)
    model = (
        f"Modelled seconds on {options.cores} cores: for each stage, the CPU seconds of the longest task, or of all "
        f"tasks divided by {options.cores}, whichever is more."
    )
    results.print_table(model, list(results.costs), modelled)
    results.print_table("Exchanges, sorts and jobs:", list(results.costs), shape_of)


PARTS = {"joins": joins, "merges": merges, "lookups": lookups, "buckets": buckets}


def main() -> None:
    """Run the parts, and fail if an engine returned other rows than plain Parquet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="parts to run")
    parser.add_argument("--scale", type=float, default=1, help="TPC-H scale factor of the joins")
    parser.add_argument(
        "--rows",
        type=int,
        default=2_000_000,
        help="number of rows of merges and lookups; buckets have twice as many",
    )
    parser.add_argument("--files", type=int, default=1000, help="number of files of the lookups")
    parser.add_argument(
        "--rounds", type=int, default=5, help="number of rounds that count; writes and merges have half"
    )
    parser.add_argument("--folder", type=Path, default=Path(".demo/peers"), help="folder for data and tables")
    parser.add_argument("--shapes", type=int, default=len(SHAPES), help="number of shapes of few buckets")
    parser.add_argument("--cores", type=int, default=2, help="number of cores that each engine assumes")
    options = parser.parse_args()
    SHARED["spark.master"] = f"local[{options.cores}]"
    options.slow_rounds = (options.rounds + 1) // 2
    wrong: list[str] = []
    build_jar()  # before several engines need it
    for part in options.parts:
        folder = options.folder.absolute() / part
        shutil.rmtree(folder, ignore_errors=True)
        began = time.monotonic()
        PARTS[part](options, folder, wrong)
        # Processes that are still ending may delete their own temporary files.
        shutil.rmtree(folder, ignore_errors=True)
        print(f"\n{part} took {time.monotonic() - began:.0f} s.", flush=True)
    if wrong:
        raise SystemExit("Wrong rows:\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
