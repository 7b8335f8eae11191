"""What no death of a rewrite loses, and what the next run makes of it."""

from __future__ import annotations

import subprocess
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
    make,
    nothing_is_left,
    record,
    some_file,
    sums,
)
from interrupted import STEPS, WITHIN, dying, owned, steps_before

from spark_bucketing.evolution.owner import Owner
from spark_bucketing.evolution.staging import FOLDER, OWNER

pytestmark = pytest.mark.usefixtures("extension")


# The rest are as good, and take long.
QUICK_DEATHS = ("swap", "swap back")


@pytest.mark.parametrize(
    "moment",
    [pytest.param(moment, marks=[] if moment in QUICK_DEATHS else [pytest.mark.long]) for moment in (*STEPS, *WITHIN)],
)
def test_a_death_before_any_step_loses_nothing(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    evolved(tables, "mortal", {"a": 4, "b": 8})
    rows = sums(tables, "mortal")
    query = "select x.k, count(*), sum(y.v) from mortal x join mortal y on x.k = y.k where x.ds = 'a' group by x.k"
    joined = tables.stock_rows(query)
    places = locations(tables, "mortal")
    step, last_act = WITHIN.get(moment, (moment, lambda *_: None))
    last = steps_before(step)
    with dying(monkeypatch, last, last_act) as done:
        assert command("rewrite", f"{DB}.mortal").exit_code == 2
    assert [word in step for step, word in zip(done[:last], STEPS.values(), strict=False)] == [True] * last
    assert set(done[last:]) == {"dead"}
    assert sums(tables, "mortal") == rows
    assert tables.rows(query) == joined
    result = command("rewrite", f"{DB}.mortal")
    assert result.exit_code == 0, result.output
    assert record(tables, "mortal") == {"ds=a": (8, 8, None), "ds=b": (8, 8, None)}
    assert sums(tables, "mortal") == rows
    assert locations(tables, "mortal") == places
    nothing_is_left(tables, "mortal")
    fine(command, "mortal")


def test_these_are_all_steps_of_a_rewrite(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "steps", {"a": 4, "b": 8})
    with dying(monkeypatch, None) as done:
        assert command("rewrite", f"{DB}.steps").exit_code == 0
    assert len(done) == len(STEPS)
    assert [word in step for step, word in zip(done, STEPS.values(), strict=True)] == [True] * len(STEPS)


@pytest.mark.long
def test_the_next_run_completes_another_partitions_swap_even_if_the_spec_was_altered_since(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "altered", {"a": 4, "b": 8})
    rows = sums(tables, "altered")
    with dying(monkeypatch, steps_before("record")):
        command("rewrite", f"{DB}.altered")
    assert record(tables, "altered")["ds=a"] == (0, 0, None)
    alter(tables, "altered", 16)
    result = command("rewrite", f"{DB}.altered", "--where", "ds = 'b'")
    assert "ds=a: completing an earlier run" in result.output
    assert record(tables, "altered") == {"ds=a": (8, 8, None), "ds=b": (16, 16, None)}
    assert sums(tables, "altered") == rows
    fine(command, "altered")


@pytest.mark.long
def test_rows_added_after_a_swap_whose_run_died_are_not_recorded_as_buckets(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "added", {"a": 4, "b": 8})
    with dying(monkeypatch, steps_before("record")):
        command("rewrite", f"{DB}.added")
    alter(tables, "added", 4)
    tables.sql("insert into added select *, 'a' as ds from (select cast(id as int) as k, id as v from range(40))")
    rows = sums(tables, "added")
    result = command("rewrite", f"{DB}.added", "--where", "ds = 'b'")
    assert "ds=a: completing an earlier run" in result.output
    assert record(tables, "added")["ds=a"] == (0, 0, None)
    assert sums(tables, "added") == rows
    nothing_is_left(tables, "added")


@pytest.mark.long
def test_an_undone_swap_leaves_the_old_record(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "undone", {"a": 4, "b": 8})
    with dying(monkeypatch, steps_before("swap")):
        command("rewrite", f"{DB}.undone")
    assert record(tables, "undone")["ds=a"] == (0, 0, None)
    assert "an earlier run died here" in command("rewrite", f"{DB}.undone", "--dry-run").output
    assert "clearing up" in command("rewrite", f"{DB}.undone", "--where", "ds = 'b'").output
    assert record(tables, "undone")["ds=a"] == (4, 4, None)
    nothing_is_left(tables, "undone")
    fine(command, "undone")


def test_two_rewrites_do_not_meet(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "contended", {"a": 4, "b": 8})
    rows = sums(tables, "contended")
    with monkeypatch.context() as elsewhere, dying(monkeypatch, steps_before("rename copy")):
        owned(elsewhere, Owner(7, "1", "elsewhere"))
        assert command("rewrite", f"{DB}.contended").exit_code == 2
    state = record(tables, "contended"), locations(tables, "contended")
    refused = command("rewrite", f"{DB}.contended")
    assert refused.exit_code == 2 and "begun by process 7 on elsewhere" in refused.output
    with subprocess.Popen(["sleep", "60"]) as alive:
        began = Path(f"/proc/{alive.pid}/stat").read_text().split()[21] if Path("/proc").exists() else ""
        other = Owner(alive.pid, began, Owner.current().place)
        tables.sql(f"alter table {DB}.contended__bucketing_rewrite set tblproperties ('{OWNER}' = '{other}')")
        refused = command("rewrite", f"{DB}.contended")
        alive.kill()
    assert refused.exit_code == 2 and f"Process {alive.pid} on this machine is rewriting" in refused.output
    assert (record(tables, "contended"), locations(tables, "contended")) == state
    assert sums(tables, "contended") == rows
    assert "completing" in command("rewrite", f"{DB}.contended").output, "it is dead now"
    assert sums(tables, "contended") == rows
    nothing_is_left(tables, "contended")
    fine(command, "contended")


@pytest.mark.parametrize(
    ("moment", "late"), [("rename copy", "hidden"), ("record again", "hidden"), ("record again", "home")]
)
@pytest.mark.long
def test_rows_written_just_before_a_death_are_kept(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, moment: str, late: str
) -> None:
    evolved(tables, "late", {"a": 4, "b": 8})
    home = locations(tables, "late")["ds=a"]
    with dying(monkeypatch, steps_before(moment)):
        command("rewrite", f"{DB}.late")
    (hidden,) = (path for path in tables.folder("late").rglob(f"{FOLDER}*/ds=a") if path.is_dir())
    new = (hidden if late == "hidden" else home) / "00000_0_late.parquet"
    new.write_bytes(some_file(hidden))
    rows = sums(tables, "late")
    result = command("rewrite", f"{DB}.late")
    assert result.exit_code == 0, result.output
    assert sums(tables, "late") == rows
    assert locations(tables, "late")["ds=a"] == home
    if (moment, late) == ("record again", "hidden"):
        assert new.exists() and "holds files that are not in" in result.output
    else:
        nothing_is_left(tables, "late")


def hidden_folder(tables: Tables, name: str) -> Path:
    (found,) = (path for path in tables.folder(name).rglob(f"{FOLDER}*/[dD][sS]=a") if path.is_dir())
    return found


@pytest.mark.long
def test_rows_written_just_before_a_death_are_kept_where_spark_spells_the_folder_otherwise(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the partition column is declared, which the partition's name in the metastore is not."""
    make(tables, "upper", "DS string")
    fill(tables, "upper", "a")
    alter(tables, "upper", 8)
    home = locations(tables, "upper")["ds=a"]
    with dying(monkeypatch, steps_before("record again")):
        command("rewrite", f"{DB}.upper")
    late = hidden_folder(tables, "upper") / "00000_0_late.parquet"
    late.write_bytes(some_file(home))
    result = command("rewrite", f"{DB}.upper")
    assert late.exists() and "holds files that are not in" in result.output and late.name in result.output
    assert locations(tables, "upper")["ds=a"] == home


@pytest.mark.long
def test_rows_added_after_a_death_are_kept_when_the_location_is_set_back_by_hand(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "byhand", {"a": 4, "b": 8})
    home = locations(tables, "byhand")["ds=a"]
    with dying(monkeypatch, steps_before("copy")):
        command("rewrite", f"{DB}.byhand")
    fill(tables, "byhand", "a", rows=3, how="into")
    rows, hidden = sums(tables, "byhand"), hidden_folder(tables, "byhand")
    tables.sql(f"alter table byhand partition (ds = 'a') set location '{home}'")
    result = command("rewrite", f"{DB}.byhand")
    assert f"{hidden} holds files that are not in file:{home}, and is left" in result.output, result.output
    read = "select count(*) from parquet.`{}`"
    added = int(str(tables.sql(read.format(hidden))[0][0])) - 40
    assert (added, rows[0].split(", ")[1]) == (3, "43")


@pytest.mark.long
@pytest.mark.parametrize("how", ["drop", "rename"])
@pytest.mark.parametrize(
    "moment", ["record without buckets", "record", "rename copy", "swap back", "delete new folder"]
)
def test_a_partition_that_is_dropped_or_renamed_after_a_death_leaves_nothing_behind(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, moment: str, how: str
) -> None:
    evolved(tables, "gone", {"a": 4, "b": 8})
    with dying(monkeypatch, steps_before(moment)):
        command("rewrite", f"{DB}.gone")
    statement = "drop partition (ds = 'a')" if how == "drop" else "partition (ds = 'a') rename to partition (ds = 'z')"
    tables.sql(f"alter table gone {statement}")
    rows = sums(tables, "gone")
    result = command("rewrite", f"{DB}.gone")
    assert result.exit_code == 0 and "was dropped or renamed" in result.output, result.output
    assert sums(tables, "gone") == rows
    fill(tables, "gone", "a", rows=1, how="into")
    assert sums(tables, "gone")[0].split(", ")[1] == "1"
    nothing_is_left(tables, "gone")
    fine(command, "gone")


@pytest.mark.parametrize(
    "moment",
    ["rename copy", *(pytest.param(moment, marks=pytest.mark.long) for moment in ("half deleted", "swap back"))],
)
def test_a_location_that_is_put_back_to_a_folder_that_was_cleared_loses_nothing(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """As ANALYZE does that has begun before the swap; the hidden folder has the only whole copy then."""
    evolved(tables, "cleared", {"a": 4, "b": 8})
    rows, home = sums(tables, "cleared"), locations(tables, "cleared")["ds=a"]
    step, last_act = WITHIN.get(moment, (moment, lambda *_: None))
    put_back = f"alter table cleared partition (ds = 'a') set location '{home}'"
    with dying(monkeypatch, steps_before(step), last_act):
        command("rewrite", f"{DB}.cleared")
    tables.sql(put_back)
    # What the first run has written down is there when the second one dies, after it has taken the location back.
    with dying(monkeypatch, 4):
        command("rewrite", f"{DB}.cleared")
    tables.sql(put_back)
    result = command("rewrite", f"{DB}.cleared")
    assert result.exit_code == 0, result.output
    assert (sums(tables, "cleared"), locations(tables, "cleared")["ds=a"]) == (rows, home)
    nothing_is_left(tables, "cleared")
    fine(command, "cleared")


@pytest.mark.long
def test_the_only_whole_copy_is_left_where_rows_were_added_to_a_folder_that_was_cleared(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "unsure", {"a": 4, "b": 8})
    home = locations(tables, "unsure")["ds=a"]
    with dying(monkeypatch, steps_before("rename copy")):
        command("rewrite", f"{DB}.unsure")
    tables.sql(f"alter table unsure partition (ds = 'a') set location '{home}'")
    fill(tables, "unsure", "a", rows=3, how="into")
    rows, hidden = sums(tables, "unsure"), hidden_folder(tables, "unsure")
    result = command("rewrite", f"{DB}.unsure")
    assert f"{hidden} holds files that are not in file:{home}, and is left" in result.output, result.output
    assert tables.sql(f"select count(*) from parquet.`{hidden}`") == [(40,)]
    assert (sums(tables, "unsure"), rows[0].split(", ")[1]) == (rows, "3")
    assert command("verify", f"{DB}.unsure").exit_code == 1


@pytest.mark.long
@pytest.mark.parametrize("how", ["truncate", "overwrite"])
def test_copies_of_rows_that_were_deleted_after_a_death_are_known(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    evolved(tables, "copies", {"a": 4, "b": 8})
    home = locations(tables, "copies")["ds=a"]
    with dying(monkeypatch, steps_before("swap back")):
        command("rewrite", f"{DB}.copies")
    if how == "truncate":
        tables.sql("truncate table copies partition (ds = 'a')")
    else:
        tables.sql("insert overwrite table copies partition (ds) select cast(id as int), id, 'a' from range(7)")
    rows = sums(tables, "copies")
    result = command("rewrite", f"{DB}.copies")
    assert result.exit_code == 0, result.output
    assert (sums(tables, "copies"), locations(tables, "copies")["ds=a"]) == (rows, home)
    nothing_is_left(tables, "copies")


@pytest.mark.long
def test_a_renamed_partition_of_an_external_table_keeps_its_files(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    evolved(tables, "foreign", {"a": 4, "b": 8}, f"stored as parquet location '{tmp_path / 'table'}'")
    home = locations(tables, "foreign")["ds=a"]
    with dying(monkeypatch, steps_before("record")):
        command("rewrite", f"{DB}.foreign")
    tables.sql("alter table foreign partition (ds = 'a') rename to partition (ds = 'z')")
    rows, place = sums(tables, "foreign"), locations(tables, "foreign")["ds=z"]
    result = command("rewrite", f"{DB}.foreign")
    assert result.exit_code == 2 and f"its files may still be in file:{home}. Expected nothing" in result.output
    assert str(place) not in result.output and sums(tables, "foreign") == rows


@pytest.mark.long
def test_what_may_be_somebody_elses_of_a_dropped_partition_is_left_and_said(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "shared", {"a": 4, "b": 8})
    home = locations(tables, "shared")["ds=a"]
    with dying(monkeypatch, steps_before("record")):
        command("rewrite", f"{DB}.shared")
    (home / "00000_0_late.parquet").write_bytes(some_file(home))
    tables.sql("alter table shared drop partition (ds = 'a')")
    result = command("rewrite", f"{DB}.shared")
    assert result.exit_code == 2 and f"its files may still be in file:{home}" in result.output, result.output
    assert "a new partition of that folder would have their rows" in result.output
    assert len(list(home.glob("0*"))) == 5
    assert command("rewrite", f"{DB}.shared").exit_code == 0, "it is said once, and nothing else is stopped"


@pytest.mark.long
def test_another_table_of_the_name_is_left_alone(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tables.sql("drop table if exists renamed")
    evolved(tables, "namesake", {"a": 4, "b": 8}, f"stored as parquet location '{tmp_path / 'one'}'")
    with dying(monkeypatch, steps_before("copy")):
        command("rewrite", f"{DB}.namesake")
    tables.sql("alter table namesake rename to renamed")
    rows = sums(tables, "renamed")
    evolved(tables, "namesake", {"a": 4, "b": 8}, f"stored as parquet location '{tmp_path / 'two'}'")
    result = command("rewrite", f"{DB}.namesake")
    assert result.exit_code == 2 and "Expected the same table" in result.output
    assert sums(tables, "renamed") == rows


@pytest.mark.long
def test_a_rewrite_that_died_elsewhere_is_taken_over(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "taken", {"a": 4, "b": 8})
    rows = sums(tables, "taken")
    with monkeypatch.context() as elsewhere, dying(monkeypatch, steps_before("copy")):
        owned(elsewhere, Owner(7, "1", "elsewhere"))
        command("rewrite", f"{DB}.taken")
    assert command("rewrite", f"{DB}.taken", "--take-over").exit_code == 0
    assert sums(tables, "taken") == rows
    nothing_is_left(tables, "taken")


@pytest.mark.long
def test_rows_of_a_partition_that_was_dropped_after_its_swap_do_not_come_back(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "dropped", {"a": 4, "b": 8})
    with dying(monkeypatch, steps_before("record")):
        command("rewrite", f"{DB}.dropped")
    tables.sql("alter table dropped drop partition (ds = 'a')")
    assert command("rewrite", f"{DB}.dropped").exit_code == 0
    fill(tables, "dropped", "a", rows=1, how="into")
    assert [row.split(", ")[1] for row in sums(tables, "dropped")] == ["1", "40"]
    nothing_is_left(tables, "dropped")
    fine(command, "dropped")
