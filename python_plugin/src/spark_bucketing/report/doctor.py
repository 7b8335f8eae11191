"""Write the results of `doctor` as JSON or as text.

The text has one line for each subject, with the remedy below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich.text import Text

from spark_bucketing.doctor.server import Diagnosis
from spark_bucketing.report.output import STATE_STYLES, console_on, write_json


def write_diagnoses(target: str, found: Sequence[Diagnosis], form: str, file: TextIO) -> None:
    """Write the results of all checks."""
    if form == "json":
        write_json({"target": target, "examined": [vars(one) for one in found]}, file)
        return
    console = console_on(file)
    for one in found:
        console.print(Text.assemble((f"{one.state:7}", STATE_STYLES[one.state]), f"  {one.subject}: {one.found}"))
        if one.instead:
            console.print(Text(f"         instead: {one.instead}"))
