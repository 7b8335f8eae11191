"""Tests of statements that replace files in separate drivers: kills and pauses at random moments, and two drivers at once.

Each kill ends a separate process with SIGKILL. `SEED=7 KILLS=100` takes more of them, and `SECONDS=600` runs two drivers for longer.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import logged_statements
import pytest
import statement_loop
from logged_statements import Outcomes
from peers import metastore
from spark_subprocess import SparkSubprocess
from statement_loop import Killed, driver, output

SEED = int(os.environ.get("SEED", "1"))
KILLS = int(os.environ.get("KILLS", "6"))
SECONDS = int(os.environ.get("SECONDS", "150"))


@pytest.mark.long
@pytest.mark.parametrize("layout", statement_loop.CREATE)
def test_killed_statement_leaves_the_table_as_before_or_as_after(tmp_path: Path, layout: str) -> None:
    subprocesses, chosen, killed = SparkSubprocess(tmp_path, "default"), random.Random(SEED), Killed(layout, SEED)
    settings, log = tmp_path / "settings.json", tmp_path / "killed.log"
    quiet = {"spark.ui.showConsoleProgress": "false", "spark.sql.sources.partitionOverwriteMode": "dynamic"}
    settings.write_text(json.dumps(subprocesses.settings | quiet))
    folders_of_new_files = [tmp_path / "warehouse" / "t" / name for name in ("_replaced", "_overwriting")]

    for kill in range(KILLS):
        seen: set[str] = set()

        def has_begun(text: str, seen: set[str] = seen, replaces: bool = kill % 2 == 1) -> bool:
            """Return whether the process has begun a statement or, for every other kill, writes new files."""
            folders = [path for folder in folders_of_new_files for path in folder.glob("*")]
            if '{"begins"' not in text:
                seen.update(path.name for path in folders)
                return False
            return not replaces or any(path.name not in seen for path in folders)

        delay = chosen.uniform(0, 0.6 if kill % 2 else 6)
        command = driver(settings, "loop", layout, SEED, killed.number, 0)
        assert subprocesses.kill(command, has_begun, delay), log.read_text()[-3000:]
        killed.read(output(log))
        print(f"\nkill {kill + 1} of seed {SEED}: {dict(killed.outcomes)} {dict(killed.statements)}", flush=True)
    command = driver(settings, "loop", layout, SEED, killed.number, 2)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    log.write_text(done.stdout)
    killed.read(output(log))
    assert killed.outcomes.total() == KILLS + 1
    # A few kills may miss a kind of statement.
    inserts = {"insert overwrite", *(["insert into"] if layout == "organized" else [])}
    assert KILLS < 50 or set(killed.statements) == {"merge", "update", "delete", *inserts}


@pytest.mark.long
@pytest.mark.parametrize("layout", statement_loop.CREATE)
def test_two_drivers_lose_no_change(tmp_path: Path, layout: str) -> None:
    """Two drivers with separate metastores change the same files of one table."""
    drivers: list[subprocess.Popen[str]] = []
    logs = [tmp_path / f"{number}.log" for number in range(2)]
    for number, log in enumerate(logs):
        (tmp_path / str(number)).mkdir()
        settings = tmp_path / str(number) / "settings.json"
        settings.write_text(json.dumps(SparkSubprocess(settings.parent, "default").settings))
        command = driver(settings, "share", layout, tmp_path / "t", number, 8)
        with log.open("w") as out:
            drivers.append(subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, text=True))
        while not output(log) and drivers[-1].poll() is None:
            time.sleep(0.1)
    assert [process.wait(300) for process in drivers] == [0, 0], [log.read_text()[-2000:] for log in logs]
    lines = [output(log) for log in logs]
    updates, failures = ([sum(line.get(key) == "update" for line in of) for of in lines] for key in ("ends", "fails"))
    print(f"\nupdates: {updates}; failed: {failures}", flush=True)
    expected = {key: updates[0] + 1000 * updates[1] if key % 50 == 1 else 0 for key in range(100)}
    inserted = {
        1000 * number + 1000 + line["step"]
        for number, of in enumerate(lines)
        for line in of
        if line.get("ends") == "merge"
    }
    # The driver that ends last sees all changes.
    found = lines[max((0, 1), key=lambda number: logs[number].stat().st_mtime)][-1]["rows"]
    assert len(found) == len(expected) + len(inserted)
    rows = dict(found)
    assert inserted <= rows.keys() and {key: rows[key] for key in expected} == expected


class Driver:
    """A process that runs statements. It can be paused, and killed and started again."""

    def __init__(self, number: int, command: list[object], log: Path) -> None:
        self.number, self.command, self.log = number, command, log
        self.start()

    def start(self) -> None:
        step = max((line.get("step", 0) for line in output(self.log)), default=0) + 1 if self.log.exists() else 1
        command = [
            sys.executable,
            logged_statements.__file__,
            *map(str, [*self.command[:-1], self.number, step, self.command[-1]]),
        ]
        with self.log.open("a") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)

    def send(self, number: signal.Signals) -> None:
        os.killpg(self.process.pid, number)


# An error of a statement without an effect. The metastore or the reader may see a file or a partition that the other driver has just deleted. Spark does not
# overwrite a whole table that the query reads, unless it is a Hive table.
CLEAR = re.compile(
    "run it again|Run the query again|FileNotFound|NoSuchFile|FILE_NOT_EXIST|and run the statement again"
    "|UNSUPPORTED_OVERWRITE",
    re.IGNORECASE,
)


@pytest.mark.long
@pytest.mark.parametrize("layout", logged_statements.CREATE)
def test_paused_and_killed_drivers_report_true_outcomes(tmp_path: Path, layout: str) -> None:
    """No row is lost or occurs twice, and each statement has an effect if and only if its driver says so."""
    chosen, settings, stop = random.Random(SEED), tmp_path / "settings.json", tmp_path / "stop"
    outcomes, happened = Outcomes(layout.endswith("partitioned")), Counter[str]()
    with metastore(tmp_path) as uri:
        quiet = {"spark.ui.showConsoleProgress": "false", "spark.sql.sources.partitionOverwriteMode": "dynamic"}
        shared = {"spark.hadoop.hive.metastore.uris": uri, "spark.bucketing.write.recoverAfter": "5s"}
        settings.write_text(json.dumps(SparkSubprocess(tmp_path, "default").settings | quiet | shared))
        program = [sys.executable, logged_statements.__file__, str(settings), layout]
        subprocess.run([*program, "create"], check=True, timeout=200)
        drivers = [Driver(number, [settings, layout, "run", stop], tmp_path / f"{number}.log") for number in (1, 2)]
        try:
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                time.sleep(chosen.uniform(0.5, 6))
                driver = chosen.choice(drivers)
                if '"begins"' not in driver.log.read_text().rpartition('"ready"')[2]:
                    continue
                what = chosen.choice([*["pause"] * 6, *["long pause"] * 3, "kill"])
                happened[what] += 1
                if what == "kill":
                    driver.send(signal.SIGKILL)
                    driver.process.wait()
                    driver.start()
                else:
                    driver.send(signal.SIGSTOP)
                    time.sleep(chosen.uniform(0.1, 2) if what == "pause" else chosen.uniform(6, 9))
                    driver.send(signal.SIGCONT)
            stop.touch()
            assert [driver.process.wait(120) for driver in drivers] == [0, 0], [
                driver.log.read_text()[-2000:] for driver in drivers
            ]
        finally:
            for driver in drivers:
                if driver.process.poll() is None:
                    driver.send(signal.SIGKILL)
        for driver in drivers:
            outcomes.read(driver.number, output(driver.log))
        done = subprocess.run([*program, "read"], capture_output=True, text=True, check=True, timeout=200)
    (found,) = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    said = Counter(f"{of['begins']} {outcomes.outcomes.get(name, 'unknown')}" for name, of in outcomes.begun.items())
    print(
        f"\n{layout}: {dict(happened)}, {dict(sorted(said.items()))}, {found['recovered']}, {Counter(found['states'])}",
        flush=True,
    )
    for name, error in outcomes.errors.items():
        print(name, outcomes.begun[name]["begins"], "||".join(error.splitlines()[:4])[:400], flush=True)
    for rows in found["rows"]:
        assert not outcomes.faults([tuple(row) for row in rows])
    unclear = {name: error for name, error in outcomes.errors.items() if not CLEAR.search(error)}
    assert not unclear and set(found["states"]) <= {"sealed", "empty", "seal-stale"}
    assert happened.total() > 3 and any(name.endswith("succeeds") for name in said)
