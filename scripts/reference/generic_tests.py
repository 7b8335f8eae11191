"""Generate the page about the generic tests from the YAML file that documents their macros."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from reference.markdown import table

SOURCE = Path(__file__).parents[2] / "macros" / "generic_tests" / "generic_tests.yml"
HEAD = """# Tests

Use this page to choose dbt tests that check a table's buckets, files and query plans.

The tests work on every bucketed table, including tables that other tools wrote. `files_at_most` and
`file_sizes_between` work on any table.

- With the [session extension](settings.md), a test compares the seals with the files. It reads rows only from
  unsealed files. `bucket_skew_below` always counts the rows of all files.
- Without the extension, a test reads the files and their rows. No test collects these rows on the driver.
- With the extension, a test skips partitions that are not bucketed, and logs their number. Without the extension, the
  test fails for such a partition, because it cannot tell it from a partition that lost its buckets.
- If the table is not `CLUSTERED BY`, a test of its buckets fails with a message.

```yaml
models:
  - name: clicks
    data_tests:
      - spark_bucketing.one_file_per_bucket
      - spark_bucketing.rows_in_their_buckets
      - spark_bucketing.sorted_within_buckets
      - spark_bucketing.bucket_spec_matches_config
      - spark_bucketing.partition_bucket_specs_valid
      - spark_bucketing.bucket_skew_below:
          arguments: {ratio: 3}
      - spark_bucketing.shuffles_at_most:
          arguments: {n: 0}
      - spark_bucketing.files_at_most:
          arguments: {n: 64}
      - spark_bucketing.file_sizes_between:
          arguments: {at_least: 64MiB, at_most: 512MiB}
```
"""


def page() -> str:
    """Return the text of the page."""
    macros = yaml.safe_load(SOURCE.read_text())["macros"]
    return "\n".join([HEAD, *map(_section, macros)])


def _paragraphs(text: str) -> str:
    """Start a new paragraph for the rows that a failing test returns, for errors, and for the cost of the test."""
    starts = r" (?=Fails with|The test raises an error|Without the extension, the test raises|Cost:)"
    return re.sub(starts, "\n\n", text.strip())


def _section(macro: dict[str, Any]) -> str:
    # Every test is attached to a model, so the documentation omits this argument.
    rows = [
        (f"`{one['name']}`", one["type"], one["description"]) for one in macro["arguments"] if one["name"] != "model"
    ]
    arguments = "\n" + table(["argument", "type", "meaning"], rows) if rows else ""
    return f"## {macro['name'].removeprefix('test_')}\n\n{_paragraphs(macro['description'])}\n{arguments}"
