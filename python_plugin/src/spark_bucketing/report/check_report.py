"""Write the report of `check` in the format that the user selects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TextIO

from spark_bucketing.check.outcome import FailOn
from spark_bucketing.check.results import Report
from spark_bucketing.report.check_github import write_github
from spark_bucketing.report.check_html import write_html
from spark_bucketing.report.check_json import write_json
from spark_bucketing.report.check_junit import write_junit
from spark_bucketing.report.check_sarif import write_sarif
from spark_bucketing.report.check_text import write_text

_WRITERS: Mapping[str, Callable[[Report, TextIO], None]] = {
    "json": write_json,
    "sarif": write_sarif,
    "github": write_github,
    "html": write_html,
}
FORMATS = ("text", "json", "sarif", "github", "junit", "html")


def write_report(
    report: Report, form: str, file: TextIO, fail_on: FailOn, verbose: bool = False, plain: bool = False
) -> None:
    """Write the report in one of FORMATS.

    The arguments `verbose` and `plain` apply only to text, and `fail_on` only to JUnit.
    """
    if form == "text":
        write_text(report, file, verbose, plain)
    elif form == "junit":
        write_junit(report, file, fail_on)
    else:
        _WRITERS[form](report, file)
