"""Tests of the model that `make evolution` edits in its copy of the showcase."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import REPOSITORY
from spark_bucketing.errors import ProjectError


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "scripts" / "evolution"))


def test_showcase_model_gets_another_config_and_no_other_change() -> None:
    from showcase import CONDITION, MODEL, edited

    model = (REPOSITORY / MODEL).read_text()
    text = edited(model, {"materialized": "incremental"})
    assert "materialized='incremental',\n  incremental_strategy='insert_overwrite',\n" in text
    assert "partition_by=['flight_month']" in text
    assert not any(key in text for key in ("clustered_by", "buckets", "on_bucket_change", "is_incremental"))
    # Apart from the months, the query is the same as in the showcase.
    query = model[model.index("select\n") : model.index("{% if")]
    assert text.endswith(f"{query}{CONDITION}\n")


@pytest.mark.parametrize("without", ["{{ config(", "{% if is_incremental() %}"])
def test_model_that_cannot_be_edited_is_an_error(without: str) -> None:
    from showcase import MODEL, edited

    model = Path(REPOSITORY, MODEL).read_text().replace(without, "")
    with pytest.raises(ProjectError, match=r"flights_by_month.sql has no .* Expected both"):
        edited(model, {})


@pytest.mark.parametrize("table", ["departures", "arrivals"])
def test_tables_of_the_demo_differ_only_in_their_config(table: str) -> None:
    models = [(REPOSITORY / "models" / "history" / f"{kind}_{table}.sql").read_text() for kind in ("plain", "bucketed")]
    assert models[0].partition("}}")[2] == models[1].partition("}}")[2] != ""
    assert ["buckets=" in model for model in models] == [False, True]


@pytest.mark.parametrize(("factor", "said"), [(0.3, "3.3x slower"), (1.0, "same"), (40.0, "40.0x")])
def test_last_screen_of_the_demo_fits_a_terminal(monkeypatch: pytest.MonkeyPatch, factor: float, said: str) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "scripts"))
    from demo import MERGE, QUERIES, Measured
    from demo_report import page, screen

    before, after = Measured([40.0, 41.0, 99.0], 2**31, 2), Measured([41.0 / factor], 0, 0)
    results = {name: {"plain": before, "bucketed": after} for name in (*QUERIES, MERGE)}
    facts = {
        "rows": {"departures": 5_013_960, "arrivals": 4_910_190}, "built": {"plain": 20.0, "bucketed": 100.0},
        "spark": "4.3.0", "cores": 16, "runs": 3,
    }  # fmt: skip
    lines = screen(results, facts)
    assert len(lines) <= 25 and max(map(len, lines)) <= 80, "\n".join(lines)
    assert lines[1].endswith(f"  {said}")
    assert page(results, facts).count('class="bar ') == 12
