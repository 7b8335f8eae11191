"""Which processes are told to be dead."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from spark_bucketing.evolution import owner
from spark_bucketing.evolution.owner import Owner


def test_this_process_has_no_rewrite_at_work() -> None:
    mine = Owner.current()
    assert mine.is_dead() is True
    assert Owner.parse(str(mine)) == mine


def test_of_other_places_nothing_is_known() -> None:
    assert replace(Owner.current(), place="elsewhere").is_dead() is None


def test_a_number_that_nobody_has_is_dead() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert replace(Owner.current(), pid=process.pid).is_dead() is True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the start of a process is told by Linux")
class TestOnLinux:
    """Where the start of a process can be read."""

    def test_a_number_that_another_process_has_by_now_is_dead(self) -> None:
        assert replace(Owner.current(), began="1").is_dead() is True

    def test_a_living_one_is_not_and_a_zombie_is(self) -> None:
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        try:
            state, began = owner._status(process.pid)
            other = replace(Owner.current(), pid=process.pid, began=began)
            assert state and other.is_dead() is False
            assert process.stdin is not None
            process.stdin.close()
            for _ in range(200):
                if owner._status(process.pid)[0] == "Z":
                    break
                time.sleep(0.05)
            assert other.is_dead() is True
        finally:
            process.kill()
            process.wait()

    def test_one_that_cannot_be_looked_at_is_not_taken_for_dead(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
            other = replace(Owner.current(), pid=process.pid, began="1")
            monkeypatch.setattr(owner, "_status", lambda _: ("", ""))
            assert other.is_dead() is None
            process.kill()
