"""Writers, and other rewrites, between the steps of a rewrite: whose rows are in the table afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from bucketed import Tables
from click.testing import Result
from evolving import (  # noqa: F401
    DB,
    evolution_command,
    evolved,
    evolving_tables,
    fill,
    fine,
    locations,
    nothing_is_left,
    record,
    some_file,
    sums,
)
from interrupted import meanwhile, owned

from spark_bucketing.evolution.owner import Owner
from spark_bucketing.evolution.staging import FOLDER

pytestmark = pytest.mark.usefixtures("extension")


@pytest.mark.long
@pytest.mark.parametrize("moment", ["copy", "swap"])
def test_rows_written_meanwhile_are_not_lost(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    evolved(tables, "busy", {"a": 4, "b": 8})
    rows = sums(tables, "busy")
    folder = locations(tables, "busy")["ds=a"]
    # While it is copied; or in the moment between the last look at the files and the swap.
    step = "insert overwrite" if moment == "copy" else "set location"
    with meanwhile(monkeypatch, step, lambda: (folder / "00000_0_late.parquet").write_bytes(some_file(folder))):
        result = command("rewrite", f"{DB}.busy")
    assert result.exit_code == 2
    said = (
        "its files were changed while"
        if moment == "copy"
        else f"something changed the files in file:{folder} in the last moment"
    )
    assert said in result.output
    assert record(tables, "busy")["ds=a"] == ((4, 4, None) if moment == "copy" else (0, 0, None))
    assert locations(tables, "busy")["ds=a"] == folder
    added = sums(tables, "busy")
    assert added != rows
    assert command("rewrite", f"{DB}.busy").exit_code == 0
    assert (locations(tables, "busy")["ds=a"], sums(tables, "busy")) == (folder, added)
    nothing_is_left(tables, "busy")
    fine(command, "busy")


# Statements that delete the old files, or the new ones, by the statement and the rows that p=a has after it.
DELETING = {"truncate": 0, "overwrite": 5}


def delete(tables: Tables, name: str, how: str) -> None:
    if how == "truncate":
        tables.sql(f"truncate table {name} partition (ds = 'a')")
    else:
        fill(tables, name, "a", rows=DELETING[how])


def number(tables: Tables, name: str) -> int:
    """Of the rows of p=a."""
    tables.sql(f"refresh table {name}")
    return int(str(tables.sql(f"select count(*) from {name} where ds = 'a'")[0][0]))


@pytest.mark.parametrize(
    ("how", "step", "after"),
    [
        ("truncate", "set location", False),
        pytest.param("overwrite", "set location", False, marks=pytest.mark.long),
        pytest.param("truncate", "not clustered", False, marks=pytest.mark.long),
        pytest.param("overwrite", "not clustered", False, marks=pytest.mark.long),
        pytest.param("overwrite", "set location", True, marks=pytest.mark.long),
        pytest.param("truncate", "set location", True, marks=pytest.mark.long),
    ],
)
def test_rows_deleted_around_the_swap_stay_deleted(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, how: str, step: str, after: bool
) -> None:
    evolved(tables, "emptied", {"a": 4, "b": 8})
    home = locations(tables, "emptied")["ds=a"]
    with meanwhile(monkeypatch, step, lambda: delete(tables, "emptied", how), after=after):
        result = command("rewrite", f"{DB}.emptied")
    # INSERT OVERWRITE deletes the folder that the partition has by default, too, in which its old files are.
    assert result.exit_code == (0 if after and how == "truncate" else 2), result.output
    assert number(tables, "emptied") == DELETING[how]
    if not after:
        assert f"something changed the files in file:{home} in the last moment" in result.output
    assert command("rewrite", f"{DB}.emptied").exit_code == 0
    assert (number(tables, "emptied"), locations(tables, "emptied")["ds=a"]) == (DELETING[how], home)
    nothing_is_left(tables, "emptied")
    fine(command, "emptied")


@pytest.mark.parametrize("how", ["truncate", pytest.param("overwrite", marks=pytest.mark.long)])
def test_rows_deleted_just_after_the_partition_is_in_its_own_folder_stay_deleted(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    evolved(tables, "returned", {"a": 4, "b": 8})
    home = locations(tables, "returned")["ds=a"]
    with meanwhile(monkeypatch, "set location", lambda: delete(tables, "returned", how), 2, after=True):
        result = command("rewrite", f"{DB}.returned")
    assert f"files in file:{home} were deleted by something else" in result.output, result.output
    assert (number(tables, "returned"), locations(tables, "returned")["ds=a"]) == (DELETING[how], home)
    assert command("rewrite", f"{DB}.returned").exit_code == 0
    assert (number(tables, "returned"), locations(tables, "returned")["ds=a"]) == (DELETING[how], home)
    found = command("verify", f"{DB}.returned")
    assert found.exit_code == 1 and "or be copies of rows that it has" in found.output


@pytest.mark.long
@pytest.mark.parametrize("step", ["set location", "copy"])
def test_an_overwrite_that_has_deleted_the_old_files_and_writes_still(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Before the swap the old folder remains the partition's; after it, the new one is, and the old one is left."""
    evolved(tables, "slow", {"a": 4, "b": 8})
    home = locations(tables, "slow")["ds=a"]
    file = some_file(home)
    with meanwhile(monkeypatch, step, lambda: shutil.rmtree(home)):
        result = command("rewrite", f"{DB}.slow")
    assert result.exit_code == 2, result.output
    home.mkdir(exist_ok=True)
    (home / "00000_0_slow.parquet").write_bytes(file)
    if step == "set location":
        assert (locations(tables, "slow")["ds=a"], 0 < number(tables, "slow") < 40) == (home, True)
        assert command("rewrite", f"{DB}.slow").exit_code == 0
        return
    assert f"files in file:{home} were deleted after the rows were copied" in result.output
    assert (locations(tables, "slow")["ds=a"] != home, number(tables, "slow")) == (True, 40)
    assert "holds files of others: 00000_0_slow.parquet" in command("rewrite", f"{DB}.slow").output
    assert number(tables, "slow") == 40


@pytest.mark.parametrize("step", ["copy", pytest.param("rename", marks=pytest.mark.long)])
@pytest.mark.parametrize("how", ["set location", pytest.param("drop and add", marks=pytest.mark.long)])
def test_a_location_that_is_set_while_files_go_home_stays(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str, step: str
) -> None:
    evolved(tables, "placed", {"a": 4, "b": 8}, f"stored as parquet location '{tmp_path / 'table'}'")
    place = tmp_path / "place"
    shutil.copytree(locations(tables, "placed")["ds=a"], place)
    (place / "00000_0_more.parquet").write_bytes(some_file(place))

    def act() -> None:
        if how == "set location":
            tables.sql(f"alter table placed partition (ds = 'a') set location '{place}'")
        else:
            tables.sql("alter table placed drop partition (ds = 'a')")
            tables.sql(f"alter table placed add partition (ds = 'a') location '{place}'")

    with meanwhile(monkeypatch, step, act):
        result = command("rewrite", f"{DB}.placed")
    assert result.exit_code == 2, result.output
    assert "by another statement, such as ANALYZE TABLE or SET LOCATION" in result.output
    rows = number(tables, "placed")
    assert (locations(tables, "placed")["ds=a"], rows > 40) == (place, True)
    assert command("rewrite", f"{DB}.placed").exit_code == 0
    assert (locations(tables, "placed")["ds=a"], number(tables, "placed")) == (place, rows)
    assert not list(tmp_path.rglob(f"{FOLDER}*"))
    fine(command, "placed")


@pytest.mark.long
def test_a_folder_in_the_partitions_own_one_is_never_deleted(tables: Tables, command: Callable[..., Result]) -> None:
    evolved(tables, "keeping", {"a": 4, "b": 8})
    home = locations(tables, "keeping")["ds=a"]
    (home / "_backup").mkdir()
    (home / "_backup" / "x.parquet").write_text("precious")
    result = command("rewrite", f"{DB}.keeping")
    assert result.exit_code == 2 and f"found a folder _backup in file:{home}; expected files only" in result.output
    assert (home / "_backup" / "x.parquet").read_text() == "precious"
    assert record(tables, "keeping")["ds=a"] == (4, 4, None)


@pytest.mark.long
def test_a_folder_that_was_written_to_after_the_swap_is_left(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "behind", {"a": 4, "b": 8})
    rows, folder = sums(tables, "behind"), locations(tables, "behind")["ds=a"]
    late = folder / "00000_0_late.parquet"
    with meanwhile(monkeypatch, "copy", lambda: late.write_bytes(some_file(folder))):
        result = command("rewrite", f"{DB}.behind")
    assert f"its files stay in file:{tables.folder('behind')}" in result.output
    assert result.exit_code == 2 and "not in the folder where it was" in result.output.lower()
    said = "its location is file:"
    assert said in command("verify", f"{DB}.behind").output
    again = command("rewrite", f"{DB}.behind")
    assert f"its own folder file:{folder} holds files of others: {late.name}" in again.output
    assert (again.exit_code, sums(tables, "behind")) == (2, rows)
    shutil.rmtree(folder)
    assert command("rewrite", f"{DB}.behind").exit_code == 0
    assert (locations(tables, "behind")["ds=a"], sums(tables, "behind")) == (folder, rows)
    nothing_is_left(tables, "behind")
    fine(command, "behind")


@pytest.mark.long
@pytest.mark.parametrize("step", ["copy", "rename", "swap back", "clear"])
def test_rows_written_while_files_go_home_are_not_lost(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    evolved(tables, "homing", {"a": 4, "b": 8})
    folder = locations(tables, "homing")["ds=a"]

    def append() -> None:
        fill(tables, "homing", "a", rows=3, how="into")

    def late() -> None:
        (hidden,) = (path for path in tables.folder("homing").rglob(f"{FOLDER}*/ds=a") if path.is_dir())
        (hidden / "00000_0_late.parquet").write_bytes(some_file(hidden))

    # The last look is over when the other folder is cleared: only a writer that had found it long before comes then.
    act = late if step == "clear" else append
    with meanwhile(
        monkeypatch, step.replace("swap back", "set location"), act, 2 if step in ("swap back", "clear") else 1
    ):
        result = command("rewrite", f"{DB}.homing")
    assert "written to meanwhile" in result.output
    assert result.exit_code == (0 if step == "clear" else 2), result.output
    (hidden,) = (path for path in tables.folder("homing").rglob(f"{FOLDER}*/ds=a") if path.is_dir())
    if step == "clear":
        assert f"file:{hidden} was written to" in result.output
        assert [path.name for path in hidden.glob("0*")] == ["00000_0_late.parquet"]
        assert f"00000_0_late.parquet in file:{hidden}" in command("verify", f"{DB}.homing").output
        return
    # The partition is what has all rows, and the next run takes it home.
    assert locations(tables, "homing")["ds=a"] == hidden
    assert "43" in sums(tables, "homing")[0]
    assert command("rewrite", f"{DB}.homing").exit_code == 0
    assert locations(tables, "homing")["ds=a"] == folder
    assert "43" in sums(tables, "homing")[0]
    nothing_is_left(tables, "homing")
    fine(command, "homing")


@pytest.mark.long
def test_a_folder_that_loses_files_before_it_is_the_location_is_not_kept(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "thinned", {"a": 4, "b": 8})
    rows, home = sums(tables, "thinned"), locations(tables, "thinned")["ds=a"]
    with meanwhile(monkeypatch, "rename", lambda: next(iter(sorted(home.glob("0*")))).unlink(), after=True):
        result = command("rewrite", f"{DB}.thinned")
    assert result.exit_code == 2 and "was written to meanwhile, and its files stay in" in result.output
    assert (sums(tables, "thinned"), record(tables, "thinned")["ds=a"]) == (rows, (8, 8, None))
    assert command("rewrite", f"{DB}.thinned").exit_code == 0
    assert (sums(tables, "thinned"), locations(tables, "thinned")["ds=a"]) == (rows, home)
    nothing_is_left(tables, "thinned")
    fine(command, "thinned")


@pytest.mark.parametrize("moment", ["set location", "copy", "clear", "rename", "delete"])
@pytest.mark.long
def test_another_run_that_takes_over_stops_this_one(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    evolved(tables, "overtaken", {"a": 4, "b": 8})
    rows = sums(tables, "overtaken")
    outputs: list[str] = []

    def second() -> None:
        with monkeypatch.context() as elsewhere:
            owned(elsewhere, Owner(7, "1", "elsewhere"))
            outputs.append(command("rewrite", f"{DB}.overtaken", "--take-over").output)

    with meanwhile(monkeypatch, moment, second):
        result = command("rewrite", f"{DB}.overtaken")
    assert "an earlier run that died" in outputs[0]
    assert result.exit_code == 2, result.output
    assert sums(tables, "overtaken") == rows
    assert command("rewrite", f"{DB}.overtaken").exit_code == 0
    assert sums(tables, "overtaken") == rows
    fine(command, "overtaken")


@pytest.mark.long
def test_a_partition_that_is_written_to_before_its_turn_is_refused(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "turns", {"a": 4, "b": 8, "c": 8})
    tables.sql("alter table turns partition (ds = 'c') not clustered")

    def append() -> None:
        with tables.settings({"spark.bucketing.enabled": "false"}):
            fill(tables, "turns", "c", rows=5, how="into")

    with meanwhile(monkeypatch, "not clustered", append):
        result = command("rewrite", f"{DB}.turns")
    assert result.exit_code == 2 and "its files were changed since they were looked at" in result.output
    assert record(tables, "turns") == {"ds=a": (8, 8, None), "ds=b": (8, 8, None), "ds=c": (0, 0, None)}


@pytest.mark.long
def test_new_files_that_vanish_before_the_swap_undo_it(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "robbed", {"a": 4, "b": 8})
    rows = sums(tables, "robbed")

    def rob() -> None:
        for path in tables.folder("robbed").glob(f"{FOLDER}*/ds=a/0*"):
            path.unlink()

    with meanwhile(monkeypatch, "not clustered", rob):
        result = command("rewrite", f"{DB}.robbed")
    assert result.exit_code == 2 and "were changed by something else" in result.output
    assert (sums(tables, "robbed"), record(tables, "robbed")["ds=a"]) == (rows, (4, 4, None))
    assert command("rewrite", f"{DB}.robbed").exit_code == 0
    assert sums(tables, "robbed") == rows
    nothing_is_left(tables, "robbed")
    fine(command, "robbed")
