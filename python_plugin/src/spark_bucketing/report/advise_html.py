"""Write the result of `advise` as a self-contained HTML page."""

from __future__ import annotations

from typing import TextIO

from spark_bucketing.advise.advice import Advice
from spark_bucketing.edits import unified_diff
from spark_bucketing.report.advise_text import bytes_text, proof_text, spec_text
from spark_bucketing.report.check_html import short_name
from spark_bucketing.report.formatting import size
from spark_bucketing.report.output import pages


def write_html(advice: Advice, file: TextIO) -> None:
    """Write the result as an HTML page."""
    template = pages(size, bytes_text, spec_text, proof_text, short_name).get_template("advise.html")
    file.write(template.render(advice=advice, diff=unified_diff(advice.edits)) + "\n")
