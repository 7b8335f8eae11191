"""Write docs/rules.md from the docstrings of sqlfluff's rules."""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path

from sqlfluff.core.plugin.host import get_plugin_manager
from sqlfluff.core.rules import BaseRule

TARGET = Path(__file__).parents[1] / "docs" / "rules.md"
HEAD = """# Rules in the editor

What can be known of a model from its text, its config and the project's manifest,
[sqlfluff](https://docs.sqlfluff.com) says while it is written: no warehouse, no planner. What the rules cannot know,
they leave alone; [`spark-bucketing check`](check.md) asks Spark. This page is written by `scripts/write_rules.py`
from the code; change it there.

## Use

```sh
pip install './python_plugin[sqlfluff]'    # and sqlfluff-templater-dbt, for the dbt templater
dbt parse                                  # writes target/manifest.json
sqlfluff lint models
sqlfluff fix models --rules spark_bucketing
```

```ini
# .sqlfluff, in the project's folder
[sqlfluff]
dialect = sparksql
templater = jinja

[sqlfluff:rules:spark_bucketing]
# The default; a relative path begins in the folder of dbt_project.yml.
manifest = target/manifest.json
```

- All rules are on. A rule is chosen and left out by its code, its name, or the group `spark_bucketing`, as in `rules
  = spark_bucketing`, or `-- noqa: SparkBucketing_SB10` behind a line.
- A table's buckets are those of its model's config, and a source's those of its `meta`, as for [the check](check.md).
  Types count where the YAML has them: for fixes only those of sources and of models whose contract is enforced. `dbt
  parse` brings the manifest up to date. Without one, or with one that cannot be read, sqlfluff warns once, and the
  rules know the config of the file itself; `manifest = none` is for projects that do without.
- Of `config()` literals are known. What stands in a block such as `{% if %}`, or may come from YAML that the manifest
  does not have yet, is not.
- Both templaters work. `jinja` starts in a second and knows `ref` and `source` by their names. `dbt` needs `templater
  = dbt` and `pip install sqlfluff-templater-dbt` of sqlfluff's own version; it compiles the project first, which with
  a `session` target starts Spark (20 seconds for four models).

pre-commit, with versions of your own:

```yaml
repos:
  - repo: https://github.com/sqlfluff/sqlfluff
    rev: 4.4.0
    hooks:
      - id: sqlfluff-lint
        additional_dependencies:
          - "spark-bucketing[sqlfluff] @ git+https://<address of this repository>@main#subdirectory=python_plugin"
```

or a local hook, `entry: sqlfluff lint`, `language: system`, `types: [sql]`, where sqlfluff is installed already.

VS Code: the extension *sqlfluff* (`dorzey.vscode-sqlfluff`) runs the sqlfluff that it is told to, so that this one
has to be the one with the plugin:

```json
{"sqlfluff.executablePath": "${workspaceFolder}/.venv/bin/sqlfluff", "sqlfluff.linter.run": "onSave"}
```

## What they find, and what they do not

`make bench-lint` has 500 random models over bucketed tables judged twice: by `spark-bucketing check --offline`, which
has Spark plan them with the session extension, and by the rules. **Of the 155 alarms none was in one of the 114
models in which the check finds nothing.** By reasons of the same name, of which the check gives one for each shuffle,
so that one hides another:

| rule | models with the reason | alarms | the same reason | precision | recall |
| --- | --- | --- | --- | --- | --- |
| bucket-columns-differ | 8 | 4 | 3 | 0.75 | 0.38 |
| bucket-count-mismatch | 2 | 3 | 1 | 0.33 | 0.50 |
| expression-over-key | 14 | 12 | 4 | 0.33 | 0.29 |
| hash-mismatch | 8 | 13 | 7 | 0.54 | 0.88 |
| key-types-differ | 32 | 6 | 6 | 1.00 | 0.19 |
| keys-do-not-cover-buckets | 169 | 66 | 64 | 0.97 | 0.38 |
| repartition | 33 | 18 | 18 | 1.00 | 0.55 |
| union | 35 | 33 | 33 | 1.00 | 0.94 |
| all of these | 301 | 155 | 136 | 0.88 | 0.45 |

- dbt does not enforce `data_type` without a contract, so that a wrong type in YAML makes a wrong alarm of
  `key-types-differ`: it is an alarm, and never a fix.
- Where precision is low the check names another reason for the same shuffle: `superset-keys` or `layout-destroyed`
  where tables differ in their hash, too, or `key-types-differ` where a key is cast by hand.
- Recall is low on purpose. A join by columns that have nothing to do with the buckets is `keys-do-not-cover-buckets`
  for the check, and fine for the rules, as long as none of the bucket columns is among them; types of expressions are
  Spark's to know; and what was joined otherwise, limited or sorted has no buckets any more that could be lost.
- Equalities of `WHERE`, and of later inner joins, count as keys of a join, as they do for Spark. Nothing is said of
  joins with a seed, with `VALUES`, with an aggregate of one row or with a `LIMIT` of up to 1,000, which Spark sends
  to all tasks. `IN (select ...)` and `EXISTS` are not looked at as the joins that they become.
- Nothing is said of the 22 queries of TPC-H in four layouts, of the showcase, or of `select *` into a table with
  other buckets.

A model of 200 lines takes half a second with these rules, most of it sqlfluff's parser, and one second with all of
sqlfluff's. `sqlfluff lint --rules spark_bucketing` of 1,022 models in one process took 67 seconds of CPU and 75 MB,
which is sqlfluff's time to render and parse them (on a machine that other work used, 208 seconds by the clock); the
rules alone take 2 to 3. pre-commit's local hook was run; VS Code was not, but for the command that it calls.

## Before a run, without sqlfluff

`dbt parse`, and so `dbt compile`, `dbt ls` and every other command, stops at a config that is wrong, with the words
of a run, if the project's dbt_project.yml lets this package name tables:

```yaml
dispatch:
  - macro_namespace: dbt
    search_order: [my_project, spark_bucketing, dbt]
```

dbt asks a macro for the name of each model's table when it knows the model's config; this package's names it as dbt
does. It is asked only with these lines, and not where the project has a `generate_alias_name` of its own. A
materialization itself is not looked at before a run, and a package's `on-run-start` hook, which `dbt compile` runs as
well, would stop a run for models that it does not build. Without these lines a wrong config is said by sqlfluff, and
by the run of the model before it writes anything. What a query returns, such as the types of bucket columns, only
sqlfluff and the run look at.

## Rules
"""


def page() -> str:
    """The text of the page."""
    # sqlfluff wants all plugins loaded before it sees a rule.
    get_plugin_manager()
    from spark_bucketing.sqlfluff_plugin.rules import RULES

    return "\n".join([HEAD, *map(_line, RULES), "", *map(_section, RULES)])


def _slug(rule: type[BaseRule]) -> str:
    return rule.name.rpartition(".")[2]


def _line(rule: type[BaseRule]) -> str:
    summary = _markdown((rule.__doc__ or "").partition("\n")[0].rstrip("."))
    fixed = "; `sqlfluff fix` mends it" if rule.is_fix_compatible else ""
    return f"- [`{rule.code}`](#{_slug(rule)}) `{rule.name}`: {summary}{fixed}"


def _section(rule: type[BaseRule]) -> str:
    # What sqlfluff has put into the docstring is in the list above.
    text = re.sub(r"\n+ *This rule is ``sqlfluff fix`` compatible\.\n", "\n", rule.__doc__ or "")
    text = re.sub(r"\n+ *\*\*(Name|Aliases|Groups)\*\*: .*\n", "\n", text)
    text = re.sub(r"\n+ *\*\*Configuration\*\*\n+(?: *\* .*\n)+", "\n", text)
    text = _markdown(inspect.cleandoc(text) + "\n")
    blocks = re.sub(r"\.\. code-block:: sql\n\n((?:    .*\n|\n)+)", _fenced, text)
    return f"### {_slug(rule)}\n\n" + re.sub(r"\n{3,}", "\n\n", blocks).strip() + "\n"


def _fenced(block: re.Match[str]) -> str:
    return f"```sql\n{textwrap.dedent(block[1]).strip()}\n```\n\n"


def _markdown(text: str) -> str:
    return text.replace("``", "`")


if __name__ == "__main__":
    TARGET.write_text(page())
