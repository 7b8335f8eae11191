"""Kill dbt runs before, within and after their statements."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from crashes import READS, executing, plain

from conftest import Project

Rows = list[tuple[object, ...]]
# Returns whether to kill a run in a statement, given the statement's number among the changing statements and its text.
Choice = Callable[[int, str], bool]

# Kill a run before it sends a statement, after half of the statement's work, or after all of it.
BEFORE, WITHIN, AFTER = "before", "within", "after"
# The pattern excludes the backup: its folder without a table would look like an interrupted rename, which no run
# repairs (docs/explanation/replacing-rows.md).
DEFINES = re.compile(r"(?:create|drop) table (?:if exists )?(`\w+`\.`\w+`)(?<!__dbt_backup`)")
WRITES = re.compile(r"insert (?:into|overwrite) table (`\w+`\.`\w+`)")
RENAMES = re.compile(r"begin .*?(alter table `\w+`\.`\w+` rename to `\w+`\.`\w+__dbt_backup`)")


def at(chosen: int) -> Choice:
    return lambda number, _: number == chosen


def matching(pattern: str) -> Choice:
    return lambda _, statement: re.search(pattern, statement) is not None


def can_be_half_done(statement: str) -> bool:
    return any(pattern.match(statement) for pattern in (DEFINES, WRITES, RENAMES))


@contextmanager
def killed(project: Project, chosen: Choice, how: str) -> Iterator[list[str]]:
    """Collect the changing statements, and kill the run in the first chosen statement, if any."""
    from dbt_common.exceptions import DbtRuntimeError

    sent: list[str] = []
    is_dead = False

    def act(execute: Callable[[str], None], sql: str) -> None:
        nonlocal is_dead
        if is_dead:
            raise DbtRuntimeError("the process is dead")
        if READS.match(sql):
            return execute(sql)
        # Names contain generated numbers.
        sent.append(re.sub(r"\d{14,}", "<time>", plain(sql)))
        if not chosen(len(sent) - 1, sent[-1]):
            return execute(sql)
        is_dead = True
        if how == WITHIN:
            execute_half(project, execute, sql, sent[-1])
        elif how == AFTER:
            execute(sql)
        raise DbtRuntimeError("the process was killed here")

    with executing(act):
        yield sent
    # Clear the caches, because a new process has no cached file listing.
    project.spark._jsparkSession.sessionState().catalog().invalidateAllCachedTables()


def execute_half(project: Project, execute: Callable[[str], None], sql: str, statement: str) -> None:
    """Execute a statement only partially, like a process that is killed during the statement."""
    if found := DEFINES.match(statement):
        # The folder and its files exist, but the table does not.
        name = found[1].split("`")[-2]
        if statement.startswith("create"):
            execute(sql)
        if name in project.tables():
            folder = project.location(name)
            aside = folder.with_name(f".{folder.name}")
            shutil.copytree(folder, aside)
            project.spark.sql(f"drop table {found[1]}")
            # The files of an external table stay.
            shutil.rmtree(folder, ignore_errors=True)
            aside.rename(folder)
    elif found := WRITES.match(statement):
        # The files are written but not committed.
        attempt = project.location(found[1].split("`")[-2]) / "_temporary" / "0" / "_temporary" / "attempt_0"
        attempt.mkdir(parents=True, exist_ok=True)
        (attempt / "part-00000.parquet").write_text("half of a file")
    elif found := RENAMES.match(statement):
        execute(found[1])


def content(project: Project, table: str = "m") -> Rows:
    return sorted(tuple(row) for row in project.rows(f"select k, v, p from {{schema}}.{table}"))


def assert_nothing_is_left(project: Project, tables: set[str], where: str) -> None:
    """Check that the schema has these tables, and its directory or the one of an external table only the files of `m`."""
    assert project.tables() == tables, where
    location = project.location("m")
    assert [*location.parent.iterdir()] == [location], where
    warehouse = Path(str(project.spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:"))
    of_schema = warehouse / f"{project.schema}.db"
    assert of_schema == location.parent or not [*of_schema.iterdir()], where
