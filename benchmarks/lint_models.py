"""Compare the sqlfluff rules with `check`, and measure their speed: `python benchmarks/lint_models.py`.

`spark-bucketing check --offline` lets Spark plan randomly generated models, whereas the rules only parse their SQL. A
violation of a rule is correct if `check` reports the reason of the same name for the model. `check` reports only the
first applicable reason for each Exchange, so one reason can hide another. A violation is groundless if `check` reports
nothing for the model.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from bench_project import COMMAND, project_options
from lint_project import write_project
from rich.console import Console
from rich.table import Table
from sqlfluff.core import FluffConfig, Linter, SQLLintError

from spark_bucketing.check.reasons import EVERY_REASON
from spark_bucketing.sqlfluff_plugin.project_files import project_of

REPORT = "report.json"
MANIFEST = "target/spark-bucketing/manifest.json"
SPARK: Any = {"dialect": "sparksql"}
Verdicts = Mapping[str, frozenset[str]]
"""The names of reasons or violated rules, by model name."""


def check_models(project: Path) -> Verdicts:
    """Run `check` with the session extension, and return the findings of each model that Spark can plan."""
    report = project / REPORT
    if report.is_file():
        return read(report)
    command = [COMMAND, "check", *project_options(project), "--offline", "--extension", "--compile"]
    command += ["--fail-on", "never", "--format", "json", "--output", str(report)]
    subprocess.run(command, check=True, cwd=project)
    return read(report)


def read(report: Path) -> Verdicts:
    """Read the reasons from a `check` report."""
    models = json.loads(report.read_text())["models"]
    return {
        model["name"]: frozenset(found["reason"] for operator in model["operators"] for found in operator["findings"])
        for model in models
        if model["name"].startswith("m") and all(operator["verdict"] != "unknown" for operator in model["operators"])
    }


@cache
def linter(project: Path, rules: str) -> Linter:
    """Return a linter that applies these rules to the project."""
    settings: Any = {
        "core": SPARK,
        "rules": {"spark_bucketing": {"manifest": f"{project}/{MANIFEST}"}},
    }
    return Linter(config=FluffConfig(configs=settings, overrides={"rules": rules}))


def run_rules(project: Path) -> Verdicts:
    """Run the rules, and return the names of the rules that each model violates."""
    own = linter(project, "spark_bucketing")
    found = {}
    for file in sorted((project / "models").glob("m*.sql")):
        violations = own.lint_string(file.read_text(), fname=str(file)).get_violations()
        slugs = (one.rule_name() for one in violations if isinstance(one, SQLLintError))
        found[file.stem] = frozenset(slug.rpartition(".")[2].replace("_", "-") for slug in slugs)
    return found


def compare(checked: Verdicts, said: Verdicts) -> Table:
    """Return a table with the precision and recall of each rule that has a reason of the same name in `check`."""
    table = Table("rule", "models with the reason", "violations", "correct", "precision", "recall", "groundless")
    slugs = sorted({reason.slug for reason in EVERY_REASON} & {slug for slugs in said.values() for slug in slugs})
    rows = {}
    for slug in slugs:
        there = {name for name, reasons in checked.items() if slug in reasons}
        alarms = {name for name in checked if slug in said[name]}
        rows[slug] = [len(there), len(alarms), len(there & alarms), sum(not checked[name] for name in alarms)]
    rows["all of these"] = [sum(row[place] for row in rows.values()) for place in range(4)]
    for slug, (reasons, violations, right, groundless) in rows.items():
        shares = [f"{right / number:.2f}" if number else "" for number in (violations, reasons)]
        table.add_row(slug, str(reasons), str(violations), str(right), *shares, str(groundless))
    return table


def time_rules(project: Path, console: Console) -> None:
    """Measure how long it takes to lint all models, and to lint one model of 200 lines."""
    files = sorted((project / "models").glob("m*.sql"))
    texts = [file.read_text() for file in files]
    rows = {"one sqlfluff rule": "LT15", "the rules of this package": "spark_bucketing", "all rules": ""}
    table = Table("rules", f"{len(texts)} models, one process", "one model of 200 lines")
    long = _long(texts[0])
    for name, rules in rows.items():
        one = linter(project, rules)
        one.lint_string(texts[0], fname=str(files[0]))
        begin = time.perf_counter()
        for file, text in zip(files, texts, strict=True):
            one.lint_string(text, fname=str(file))
        between = time.perf_counter()
        one.lint_string(long, fname=str(files[0]))
        table.add_row(name, f"{between - begin:.1f} s", f"{time.perf_counter() - between:.2f} s")
    alone = [
        _time_rules_alone(project, path, text) for path, text in [*zip(files, texts, strict=True), (files[0], long)]
    ]
    table.add_row("the rules of this package, without parsing", f"{sum(alone[:-1]):.1f} s", f"{alone[-1]:.2f} s")
    console.print(table)


def _time_rules_alone(project: Path, file: Path, text: str) -> float:
    """Return the seconds that the rules take, excluding the time that sqlfluff takes to render and parse the SQL."""
    # Rules must not be imported before sqlfluff has loaded its plugins.
    from spark_bucketing.sqlfluff_plugin.rules.rule import examine

    rendered = linter(project, "spark_bucketing").render_string(text, str(file), FluffConfig(overrides=SPARK), "utf-8")
    known = project_of(file, f"{project}/{MANIFEST}")
    begin = time.perf_counter()
    examine(known, file, text, rendered.templated_variants[0].templated_str)
    return time.perf_counter() - begin


def _long(text: str) -> str:
    """Return a query of 200 lines: a chain of CTEs, each of which joins the previous CTE with a table."""
    head = text[: text.index("\n")]
    parts = ["with c0 as (\n    select k, g, v\n    from {{ source('raw', 't00') }}\n)"]
    while sum(part.count("\n") + 2 for part in parts) < 190:
        n = len(parts)
        join = f"    left join {{{{ source('raw', 't{n % 8:02}') }}}} as t\n        on c.k = t.k and c.g = t.g"
        parts.append(
            f"c{n} as (\n    select\n        c.k,\n        c.g,\n        t.v\n    from c{n - 1} as c\n{join}\n)"
        )
    return head + "\n" + ",\n\n".join(parts) + f"\n\nselect k, max(v) as v\nfrom c{len(parts) - 1}\ngroup by k\n"


def main() -> None:
    """Generate a project, analyze it with `check` and with the rules, and print how well their results agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=500, help="number of models")
    parser.add_argument("--seed", type=int, default=1, help="seed for generating the project")
    parser.add_argument(
        "--folder",
        type=Path,
        help="keep the project and the report in this folder; reuse them if they exist",
    )
    parser.add_argument(
        "--disagreements", action="store_true", help="print the models on which the rules and `check` disagree"
    )
    options = parser.parse_args()
    console = Console(width=140)
    with tempfile.TemporaryDirectory() as scratch:
        project = options.folder or Path(scratch) / "shop"
        if not project.exists():
            write_project(project, options.models, options.seed)
        checked = check_models(project)
        said = run_rules(project)
        console.print(f"{len(checked)} of {options.models} models could be planned")
        console.print(compare(checked, said))
        if options.disagreements:
            for name, reasons in checked.items():
                if said[name] ^ reasons:
                    console.print(f"{name}: rules {sorted(said[name])}, check {sorted(reasons)}", markup=False)
        time_rules(project, console)


if __name__ == "__main__":
    main()
