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


def test_plain_models_of_the_demo_build_ordinary_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "scripts"))
    from demo import plain

    models = {path.stem: path.read_text() for path in (REPOSITORY / "models").rglob("*.sql")}
    changed = {name: plain(text) for name, text in models.items() if plain(text) != text}
    assert len(changed) == 11 and "clustered_by" in models["planes"]
    for text in changed.values():
        assert "materialized='table'" in text
        assert not any(key in text for key in ("bucketed_", "clustered_by", "sorted_by", "buckets=", "bucket_hash"))
