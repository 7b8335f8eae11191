"""Time `spark-bucketing check --offline` on a large project: `python benchmarks/check_scale.py --models 1000`.

A tenth of the models are bucketed tables, with different bucket columns and compatible or incompatible numbers of
buckets. The other models are joins, aggregates, unions and rankings. These models read bucketed tables, unbucketed
tables and other models. The time covers the whole command: building the extension if necessary, starting Spark,
compiling and planning.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

from bench_project import COMMAND, model, profile, project_options, write_files

COLUMNS = {"k": "bigint", "j": "bigint", "ds": "date", "v": "string"}
SHAPES = (
    "select a.k, a.j, a.ds, b.v from {a} as a join {b} as b on a.k = b.k",
    "select a.k, a.j, a.ds, b.v from {a} as a left join {b} as b on a.k = b.k and a.j = b.j",
    "select a.k, b.j, a.ds, a.v from {a} as a join {b} as b on a.j = b.k",
    "select k, max(j) as j, max(ds) as ds, max(v) as v from {a} group by k",
    "select max(k) as k, j, max(ds) as ds, max(v) as v from {a} group by j",
    "select k, j, ds, v from {a} union all select k, j, ds, v from {b}",
    "select k, j, ds, v from (select *, row_number() over (partition by k order by ds) as n from {a}) where n = 1",
    "select a.k, a.j, a.ds, b.v from (select distinct k, j, ds from {a}) as a join {b} as b on a.k = b.k",
)


def main() -> None:
    """Generate the project, check it, and print the time and the number of findings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1000, help="number of models")
    parser.add_argument("--seed", type=int, default=1, help="seed for generating the project")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make_project(Path(folder), options.models, random.Random(options.seed))  # noqa: S311
        report = Path(folder) / "report.json"
        command = [COMMAND, "check", "--offline", "--extension", *project_options(Path(folder))]
        begin = time.perf_counter()
        done = subprocess.run([*command, "--format", "json", "--output", str(report)], check=False)
        seconds = time.perf_counter() - begin
        if not report.exists():
            raise SystemExit(done.returncode)
        models = json.loads(report.read_text())["models"]
    operators = [operator for model in models for operator in model["operators"]]
    findings = [finding for operator in operators for finding in operator["findings"]]
    print(f"{len(models):,} models in {seconds:.0f} s: {len(operators):,} operators, {len(findings):,} findings")
    print(dict(Counter(operator["verdict"] for operator in operators).most_common()))
    print(
        {"unknown": sum(bool(model["findings"]) for model in models), "fixes": sum(len(f["fixes"]) for f in findings)}
    )


def make_project(folder: Path, models: int, chance: random.Random, is_bucketed: bool = True) -> None:
    """Write a dbt project.

    Args:
        folder: an existing folder for the project.
        models: number of models.
        chance: random number generator that chooses the queries.
        is_bucketed: whether the first tenth of the models are bucketed tables.
    """
    columns = [{"name": name, "data_type": kind} for name, kind in COLUMNS.items()]
    sources = [f"s{number}" for number in range(10)]
    files = {
        "dbt_project.yml": json.dumps({"name": "many", "profile": "many"}),
        "profiles.yml": profile("many", "shop"),
        "models/sources.yml": json.dumps(
            {"sources": [{"name": "raw", "tables": [{"name": name, "columns": columns} for name in sources]}]}
        ),
    }
    relations = [f"{{{{ source('raw', '{name}') }}}}" for name in sources]
    bucketed = max(models // 10, 1)
    for number in range(models):
        if number < bucketed:
            keys = chance.choice([["k"], ["k"], ["k"], ["j"], ["k", "j"]])
            config: dict[str, object] = {"materialized": "bucketed_table", "clustered_by": keys}
            config |= {"buckets": chance.choice([8, 16, 16, 32, 24])}
            config = config if is_bucketed else {"materialized": "table"}
            sql = f"select k, j, ds, v from {chance.choice(relations[:10])}"
        else:
            config = {"materialized": chance.choice(["table", "view"])}
            # Most inputs are bucketed tables. Some inputs are models that read bucketed tables.
            known = relations[:10] + relations[10 : 10 + bucketed] * 3 + relations[10 + bucketed :][-20:]
            sql = chance.choice(SHAPES).format(a=chance.choice(known), b=chance.choice(known))
        files[f"models/m{number}.sql"] = model(sql, **config)
        relations.append(f"{{{{ ref('m{number}') }}}}")
    write_files(folder, files)


if __name__ == "__main__":
    main()
