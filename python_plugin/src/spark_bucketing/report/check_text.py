"""Write the report of `check` for a terminal: first the findings, ordered by bytes, then all queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from spark_bucketing.check.fixes import required_specs
from spark_bucketing.check.results import (
    Found,
    ModelResult,
    Report,
    Verdict,
    alike_findings,
    is_unclear,
    open_findings,
    unknown_models,
)
from spark_bucketing.report.formatting import effect, operators_of, place, size, some, summary, verdict_counts
from spark_bucketing.report.output import console_on
from spark_bucketing.units import count

_LEVELS = {"error": "bold red", "warning": "yellow", "note": "cyan"}
_VERDICTS = {
    Verdict.SORT_FREE: "green",
    Verdict.SHUFFLE_FREE: "green",
    Verdict.ONE_SIDED: "yellow",
    Verdict.SHUFFLED: "red",
    Verdict.BROADCAST: "blue",
    Verdict.NOT_BUCKETED: "dim",
    Verdict.UNKNOWN: "magenta",
}


def write_text(report: Report, file: TextIO, verbose: bool = False, plain: bool = False) -> None:
    """Write the report.

    Colors and wrapped lines are used only on a terminal.
    """
    console = console_on(file, plain)
    for found in alike_findings(open_findings(report)):
        _write_finding(console, found)
    for models in _alike(unknown_models(report)):
        _write_unknown(console, models)
    for table, specs in required_specs(report.models).items():
        console.print(Text.assemble((table, "bold"), "  queries require different bucket specs"))
        for text, names in specs.items():
            _indented(console, Text(f"{text}: for {', '.join(names)}"))
        console.print()
    if verbose:
        _write_operators(console, report)
    if report.unfinished:
        console.print(Text.assemble(("interrupted", "bold red"), f"  not checked: {', '.join(report.unfinished)}\n"))
    console.print(Text(summary(report)))
    console.print(Text(f"Planned by: {report.planner}", "dim"))


def _write_finding(console: Console, found: Found) -> None:
    finding, operator = found.finding, found.operator
    head = Text.assemble((finding.level, _LEVELS[finding.level]), "  ", (finding.reason, "bold"), "  ", place(found))
    if finding.bytes_shuffled:
        head.append(f"  {size(finding.bytes_shuffled)}", "bold")
    console.print(head)
    if operator:
        style = _VERDICTS[operator.verdict]
        _indented(console, Text.assemble((operator.verdict.value, style), f" {operator.kind}: {operator.description}"))
    for message in finding.message.split("\n"):
        _indented(console, Text(message))
    for fix in finding.fixes:
        promise = (
            Text.assemble(("fix", "green"), f" (then {fix.verdict.value}): ") if operator else Text("fix: ", "green")
        )
        _indented(console, promise.append(fix.text).append(effect(fix) if operator else ""))
    console.print()


def _alike(models: Iterable[ModelResult]) -> Iterable[list[ModelResult]]:
    """Group the models that have the same error."""
    groups: dict[str, list[ModelResult]] = {}
    for model in models:
        groups.setdefault(model.error or model.key, []).append(model)
    return groups.values()


def _write_unknown(console: Console, models: Sequence[ModelResult]) -> None:
    model = models[0]
    named = (model.name, f"  {model.path}")
    if len(models) > 1:
        named = (count(len(models), "query"), f"  {some([one.name for one in models])}")
    console.print(Text.assemble(("unknown", _VERDICTS[Verdict.UNKNOWN]), "  ", (named[0], "bold"), named[1]))
    if model.error:
        _indented(console, Text(model.error))
    for operator in model.operators:
        if is_unclear(operator):
            _indented(console, Text(f"{operator.kind}: {operator.description}"))
    console.print()


def _write_operators(console: Console, report: Report) -> None:
    for model in report.models:
        console.print(Text.assemble((model.name, "bold"), f"  {model.path}  ", *_counts(model)))
        for operator in model.operators:
            verdict = (operator.verdict.value, _VERDICTS[operator.verdict])
            _indented(console, Text.assemble(verdict, f" {operator.kind}: {operator.description}"))
    console.print()


def _counts(model: ModelResult) -> Iterator[tuple[str, str] | str]:
    for verdict, number in verdict_counts(operators_of([model])):
        yield f"{number} {verdict.value}", _VERDICTS[verdict]
        yield "  "


def _indented(console: Console, text: Text) -> None:
    # Padding would fill the lines up to the unlimited width of a pipe.
    if console.is_terminal:
        console.print(Padding(text, (0, 0, 0, 4)))
    else:
        console.print("    " + text.plain.replace("\n", "\n    "), markup=False, emoji=False)
