"""Write the results of verifying tables as text or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from spark_bucketing.report.file_statistics import print_file_statistics
from spark_bucketing.report.output import console_on, write_json
from spark_bucketing.report.table_specs import print_sealed, sealed_data
from spark_bucketing.table.verification import Verification

_STYLES = {"ok": "green", "wrong": "red", "unknown": "yellow"}


def write_verifications(
    schema: str, found: Sequence[Verification], form: str, file: TextIO, details: bool = False
) -> None:
    """Write the findings about tables.

    With `details`, text reports also list partitions and files.
    """
    if form == "json":
        write_json({"schema": schema, "tables": list(map(_data, found))}, file)
        return
    console = console_on(file, soft_wrap=True)
    for verification in found:
        _print(verification, console, details)
    if not found:
        file.write(f"Schema {schema} has no bucketed or organized tables.\n")


def _print(verification: Verification, console: Console, details: bool) -> None:
    name = verification.overview.table.name
    messages = [*verification.findings, *([verification.unknown] if verification.unknown else [])]
    for message in messages or ["ok"]:
        console.print(Text.assemble((name, _STYLES[verification.state]), ": ", message))
    if details and verification.sealed:
        print_sealed(name, verification.sealed, True, console)
    elif details and verification.statistics:
        print_file_statistics(name, verification.statistics, console)


def _data(verification: Verification) -> dict[str, Any]:
    return {
        "table": verification.overview.table.name,
        "state": verification.state,
        "deep": verification.is_deep,
        "findings": list(verification.findings),
        "unknown": verification.unknown or None,
        "partitions": list(map(sealed_data, verification.sealed)),
        "file_statistics": [asdict(file) for file in verification.statistics],
    }
