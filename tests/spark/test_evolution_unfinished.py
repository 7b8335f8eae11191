"""A rewrite that has not ended: what the commands say of it, and which of them wait for its end."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bucketed import Tables
from click.testing import Result
from evolving import (  # noqa: F401
    DB,
    evolution_command,
    evolved,
    evolving_tables,
    fine,
    locations,
    nothing_is_left,
    record,
    sums,
)
from interrupted import dying, steps_before

from spark_bucketing.evolution.owner import Owner
from spark_bucketing.evolution.staging import OWNER

pytestmark = pytest.mark.usefixtures("extension")

COMMAND = "spark-bucketing evolution"


def advised(result: Result) -> list[str]:
    """The arguments of the command that a finding says to run."""
    run = next(line for line in result.output.splitlines() if line.startswith("    run "))
    return shlex.split(run.partition(COMMAND)[2])


@contextmanager
def living() -> Iterator[subprocess.Popen[bytes]]:
    """Another process."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            yield process
        finally:
            process.kill()


def own_by(tables: Tables, name: str, owner: Owner) -> None:
    tables.sql(f"alter table {name}__bucketing_rewrite set tblproperties ('{OWNER}' = '{owner}')")


def test_a_rewrite_that_has_died_is_told(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "died", {"a": 4, "b": 8})
    rows, name = sums(tables, "died"), f"{DB}.died"
    with dying(monkeypatch, steps_before("record")):
        command("rewrite", name)
    state = record(tables, "died"), locations(tables, "died")
    found = command("verify", name)
    assert found.exit_code == 1 and found.output.count(": found") == 1, found.output
    assert "ds=a: found a rewrite has not ended, whose process " in found.output
    assert "ds=a: a rewrite has not ended, whose process " in command("show", name).output
    assert "ds=a: an earlier run died here" in command("rewrite", name, "--dry-run").output
    assert "no record would be written before it has ended" in command("repair", name, "--dry-run").output
    refused = command("repair", name)
    assert refused.exit_code == 2 and f"No record of {name} was written: found that partition ds=a" in refused.output
    assert (record(tables, "died"), locations(tables, "died")) == state
    assert advised(found) == ["rewrite", name, "--where", "ds = 'a'"]
    completed = command(*advised(found))
    assert completed.exit_code == 0 and "completing" in completed.output, completed.output
    assert (sums(tables, "died"), record(tables, "died")["ds=a"]) == (rows, (8, 8, None))
    assert json.loads(command("verify", name, "--format", "json").output)["unfinished_rewrite"] is None
    nothing_is_left(tables, "died")


def test_a_rewrite_that_runs_or_may_run_is_told_from_one_that_has_died(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "alive", {"a": 4, "b": 8})
    name = f"{DB}.alive"
    with dying(monkeypatch, steps_before("record")):
        command("rewrite", name)
    with living() as process:
        began = Path(f"/proc/{process.pid}/stat").read_text().split()[21] if Path("/proc").exists() else ""
        own_by(tables, "alive", Owner(process.pid, began, Owner.current().place))
        said = f"process {process.pid} on this machine is rewriting it"
        for arguments, code, then in (
            (("verify", name), 0, f"ds=a: {said}; what it has by now was not looked at.\n{name}: 2 partitions"),
            (("rewrite", name, "--dry-run"), 0, f"ds=a: {said}; nothing would be done before its end"),
            (("repair", name), 2, f"{said}. Expected no rewrite"),
            (("show", name), 0, f"ds=a: {said}: wait for its end"),
        ):
            result = command(*arguments)
            assert result.exit_code == code and then in result.output, result.output
    own_by(tables, "alive", Owner(7, "1", "elsewhere"))
    found = command("verify", name)
    assert found.exit_code == 1 and "a rewrite by process 7 on elsewhere has not ended, and whether" in found.output
    assert advised(found) == ["rewrite", name, "--where", "ds = 'a'", "--take-over"]
    of_json = json.loads(command("show", name, "--format", "json").output)["unfinished_rewrite"]
    assert (of_json["state"], of_json["host"], of_json["partition"]) == ("unknown", "elsewhere", "ds=a")
    assert "died here" in command("rewrite", name, "--dry-run", "--take-over").output


@pytest.mark.long
def test_an_unfinished_rewrite_of_a_partition_that_is_gone(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "gone", {"a": 4, "b": 4, "c": 8})
    with dying(monkeypatch, steps_before("swap")):
        command("rewrite", f"{DB}.gone")
    tables.sql("alter table gone drop partition (ds = 'a')")
    found = command("verify", f"{DB}.gone")
    assert found.exit_code == 1 and advised(found) == ["rewrite", f"{DB}.gone", "--where", "false"], found.output
    done = command(*advised(found))
    assert done.exit_code == 0 and "none of 2 partitions matches --where" in done.output, done.output
    assert record(tables, "gone") == {"ds=b": (4, 4, None), "ds=c": (8, 8, None)}
    nothing_is_left(tables, "gone")
    fine(command, "gone")
