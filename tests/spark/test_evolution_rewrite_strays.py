"""What other statements on a partition do to its rewrite, when they have begun before it, or come in between."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from bucketed import Tables
from click.testing import Result
from evolving import (  # noqa: F401
    DB,
    alter,
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
from interrupted import dying, meanwhile, steps_before

from spark_bucketing.evolution.staging import FOLDER

pytestmark = pytest.mark.usefixtures("extension")


def test_what_ends_after_a_rewrite_is_found(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """ANALYZE puts the location back that it has read, and an INSERT brings its files there."""
    evolved(tables, "stale", {"a": 4, "b": 8})
    rows, home = sums(tables, "stale"), locations(tables, "stale")["ds=a"]
    seen: list[Path] = []
    with meanwhile(monkeypatch, "copy", lambda: seen.append(locations(tables, "stale")["ds=a"])):
        assert command("rewrite", f"{DB}.stale").exit_code == 0
    (hidden,) = seen
    tables.sql(f"alter table stale partition (ds = 'a') set location '{hidden}'")
    found = command("verify", f"{DB}.stale")
    assert found.exit_code == 1, found.output
    assert f"ds=a: found its location is file:{hidden}" in found.output.replace("file:///", "file:/")
    assert f"that is not there, while file:{home} holds 00000_0_" in found.output
    assert f"""rewrite {DB}.stale --where "ds = 'a'"\n""" in found.output
    assert "goes back to its own folder" in command("rewrite", f"{DB}.stale", "--dry-run").output
    assert locations(tables, "stale")["ds=a"] == hidden
    assert command("rewrite", f"{DB}.stale").exit_code == 0
    assert (sums(tables, "stale"), locations(tables, "stale")["ds=a"]) == (rows, home)
    assert record(tables, "stale")["ds=a"] == (8, 8, None)
    fine(command, "stale")
    hidden.mkdir(parents=True)
    for name in ("00000_0_late", "00001_0_late", "_temporary"):
        (hidden / name).write_bytes(some_file(home))
    for dropped in (False, True):
        if dropped:
            tables.sql("alter table stale drop partition (ds = 'a')")
        found = command("verify", f"{DB}.stale")
        assert f"_late and 1 more in file:{hidden}, a hidden folder of a rewrite in which no partition" in found.output
        assert f"lies; it was made for the one in file:{home}\n" in found.output
        assert found.exit_code == 1 and "may be missing in the table, or be copies of rows that it has" in found.output
        look = f"SELECT * FROM parquet.`file:{hidden}`"
        assert f"    run      {look}\n" in found.output
        assert len(tables.sql(look)) > 0
        assert f"compare them before any are INSERTed, or the folder is deleted. Look at them: {look}\n" in (
            command("rewrite", f"{DB}.stale").output
        )
    shutil.rmtree(hidden.parent)
    nothing_is_left(tables, "stale")
    fine(command, "stale")


def test_folders_of_other_tables_beside_a_tables_own_are_not_its_strays(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("beside_one", "beside_two"):
        evolved(tables, name, {"a": 4, "b": 8})
        shutil.copytree(locations(tables, name)["ds=a"], tmp_path / "lake" / name)
        tables.sql(f"alter table {name} partition (ds = 'a') set location '{tmp_path / 'lake' / name}'")
        alter(tables, name, 4, "partition (ds = 'a')")
    with dying(monkeypatch, steps_before("copy")):
        command("rewrite", f"{DB}.beside_two")
    (hidden,) = (tmp_path / "lake").glob(f"{FOLDER}*")
    fine(command, "beside_one")
    assert str(hidden) not in command("rewrite", f"{DB}.beside_one", "--dry-run").output
    assert command("rewrite", f"{DB}.beside_two").exit_code == 0
    fine(command, "beside_two")


@pytest.mark.long
def test_what_may_be_copies_is_not_said_to_be_missing(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # A path that Hadoop could take for a pattern.
    evolved(tables, "copied", {"a": 4, "b": 8}, f"stored as parquet location '{tmp_path / 'a [b] {c}*'}'")
    rows = sums(tables, "copied")
    with dying(monkeypatch, steps_before("record without buckets")):
        command("rewrite", f"{DB}.copied")
    tables.sql("drop table copied__bucketing_rewrite")
    tables.sql("alter table copied partition (ds = 'a') rename to partition (ds = 'z')")
    found = command("verify", f"{DB}.copied")
    assert found.exit_code == 1 and "or be copies of rows that it has" in found.output, found.output
    (look,) = (line[13:] for line in found.output.splitlines() if line.startswith("    run      SELECT"))
    assert len(tables.sql(look)) == 40
    assert command("rewrite", f"{DB}.copied").exit_code == 0
    assert [row.replace("'z'", "'a'") for row in reversed(sums(tables, "copied"))] == rows


@pytest.mark.long
def test_rows_that_were_overwritten_by_none_do_not_come_back(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of a partition that stays in a hidden folder, which goes with its files."""
    evolved(tables, "none", {"a": 4, "b": 8})
    shutil.copytree(locations(tables, "none")["ds=a"], tmp_path / "place")
    tables.sql(f"alter table none partition (ds = 'a') set location '{tmp_path / 'place'}'")
    home = locations(tables, "none")["ds=a"]
    with meanwhile(monkeypatch, "copy", lambda: (home / "00000_0_late.parquet").write_bytes(some_file(home))):
        assert command("rewrite", f"{DB}.none").exit_code == 2
    hidden = locations(tables, "none")["ds=a"]
    assert hidden != home
    fill(tables, "none", "a", rows=0)
    shutil.rmtree(hidden, ignore_errors=True)
    rows = sums(tables, "none")
    assert len(rows) == 1
    result = command("rewrite", f"{DB}.none", "--where", "ds = 'b'")
    assert "goes back to its own folder" not in result.output
    assert "holds files of others" in command("rewrite", f"{DB}.none").output
    assert sums(tables, "none") == rows


@pytest.mark.long
def test_a_location_that_is_put_back_after_the_swap_stops_the_rewrite(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "back", {"a": 4, "b": 8})
    rows, home = sums(tables, "back"), locations(tables, "back")["ds=a"]
    put_back = f"alter table back partition (ds = 'a') set location '{home}'"
    with meanwhile(monkeypatch, "clustered by", lambda: tables.sql(put_back)):
        result = command("rewrite", f"{DB}.back")
    assert result.exit_code == 2 and "by another statement, such as ANALYZE TABLE" in result.output, result.output
    assert (sums(tables, "back"), locations(tables, "back")["ds=a"]) == (rows, home)
    assert record(tables, "back")["ds=a"] == (0, 0, None)
    assert command("rewrite", f"{DB}.back").exit_code == 0
    assert (sums(tables, "back"), record(tables, "back")["ds=a"]) == (rows, (8, 8, None))
    nothing_is_left(tables, "back")
    fine(command, "back")


def test_a_spec_that_is_altered_meanwhile_stops_the_rewrite(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "turned", {"a": 4, "b": 4, "c": 8})
    rows = sums(tables, "turned")
    with meanwhile(monkeypatch, "drop", lambda: alter(tables, "turned", 16)):
        result = command("rewrite", f"{DB}.turned")
    assert result.exit_code == 2 and "The spec of evolution_command.turned was changed from 8" in result.output
    assert record(tables, "turned") == {"ds=a": (8, 8, None), "ds=b": (4, 4, None), "ds=c": (8, 8, None)}
    assert sums(tables, "turned") == rows
    nothing_is_left(tables, "turned")
    fine(command, "turned")


@pytest.mark.long
def test_older_files_of_somebody_else_are_not_taken_for_the_old_ones(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "older", {"a": 4, "b": 8})
    rows, home = sums(tables, "older"), locations(tables, "older")["ds=a"]
    with dying(monkeypatch, steps_before("copy")):
        command("rewrite", f"{DB}.older")
    file = some_file(home)
    for path in home.iterdir():
        path.unlink()
    (home / "00000_0_restored").write_bytes(file)
    os.utime(home / "00000_0_restored", (1, 1))
    result = command("rewrite", f"{DB}.older")
    assert "holds files that are not in the table: 00000_0_restored" in result.output
    assert (home / "00000_0_restored").exists() and sums(tables, "older") == rows


@pytest.mark.long
def test_names_that_spark_redacts(tables: Tables, command: Callable[..., Result]) -> None:
    """SHOW TBLPROPERTIES does so with values that look like secrets; and DESCRIBE has columns next to the location."""
    tables.sql("drop table if exists url_token")
    tables.sql(
        "create table url_token (k int, location string) partitioned by (ds string) "
        "clustered by (k) sorted by (k) into 4 buckets stored as parquet"
    )
    for ds in ("password_reset", "curl"):
        values = f"select cast(id as int), 'x', '{ds}' from range(40)"
        tables.sql(f"insert overwrite table url_token partition (ds) {values}")
    alter(tables, "url_token", 8)
    before = locations(tables, "url_token")
    result = command("rewrite", f"{DB}.url_token")
    assert result.exit_code == 0, result.output
    assert set(record(tables, "url_token").values()) == {(8, 8, None)}
    assert locations(tables, "url_token") == before
    assert tables.rows("select ds, count(*) from url_token group by ds") == ["('curl', 40)", "('password_reset', 40)"]
    nothing_is_left(tables, "url_token")
    fine(command, "url_token")
