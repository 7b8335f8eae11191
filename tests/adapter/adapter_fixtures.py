"""Define dbt's fixtures for adapter tests; models run unchanged (stock) or with bucketed materializations."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from adapter_cases import Case
from bucketed_tables import settled
from dbt.adapters.spark.session import SessionConnectionWrapper
from dbt.tests.fixtures import project as fixtures
from pyspark.sql import SparkSession

from conftest import REPOSITORY

# Use all of dbt's fixtures. In a test module, they override the fixtures of the same name in conftest.py.
globals().update({name: value for name, value in vars(fixtures).items() if type(value).__name__.startswith("Fixture")})

MATERIALIZED = re.compile(r"""(\+?materialized['"]?\s*[=:]\s*)(['"])(table|incremental)\2""")
BY_VARIABLE = 'materialized=var("materialized_var", "table")'


# dbt's tests rely on implicit casts from strings, as in Spark 3. Tiny tables need only one shuffle partition.
SETTINGS = {
    "spark.sql.storeAssignmentPolicy": "LEGACY",
    "spark.sql.ansi.enabled": "false",
    "spark.bucketing.enabled": "true",
    "spark.sql.shuffle.partitions": "1",
}


@pytest.fixture(scope="module", autouse=True)
def session_for_dbt_tests(spark: SparkSession) -> Iterator[None]:
    """Make dbt reuse this session, and load empty seed fields as NULL, as other connections do."""
    as_text = SessionConnectionWrapper._fix_binding
    with settled(spark, SETTINGS), pytest.MonkeyPatch.context() as patch:
        null_or_text = staticmethod(lambda value: "null" if value is None else as_text(value))
        patch.setattr(SessionConnectionWrapper, "_fix_binding", null_or_text)
        yield


@pytest.fixture(scope="class")
def dbt_profile_target() -> dict[str, Any]:
    return {"type": "spark", "method": "session", "host": "NA", "threads": 1}


@pytest.fixture(scope="class")
def packages() -> dict[str, Any]:
    return {"packages": [{"local": str(REPOSITORY)}]}


@pytest.fixture(scope="class")
def project_files(
    request: pytest.FixtureRequest,
    project_root: Any,
    models: Mapping[str, Any],
    macros: Mapping[str, Any],
    snapshots: Mapping[str, Any],
    properties: Mapping[str, Any],
    seeds: Mapping[str, Any],
    tests: Mapping[str, Any],
    analyses: Mapping[str, Any],
    selectors_yml: object,
    dependencies_yml: object,
    packages_yml: object,
    dbt_project_yml: object,
) -> None:
    """Write dbt's project with this repository as a package; bucket its models if the test class is bucketed."""
    case = request.cls.case if request.cls.bucketed else None
    written = {name: bucketed_model(text, case) if case else text for name, text in {**models, **properties}.items()}
    if case and written == {**models, **properties}:
        pytest.fail(
            f"No model of {request.cls.__name__} is materialized as table or incremental. Expected at least one such model, which this suite can bucket."
        )
    folders = [("models", written), ("macros", macros), ("snapshots", snapshots), ("seeds", seeds), ("tests", tests)]
    for folder, files in [*folders, ("analyses", analyses)]:
        fixtures.write_project_files(project_root, folder, files)
    project_root.mkdir("dbt_packages").join("spark_bucketing").mksymlinkto(str(REPOSITORY))


@pytest.fixture(scope="class", autouse=True)
def bucket_models_that_tests_write(request: pytest.FixtureRequest) -> Iterator[None]:
    """Bucket the models that a test writes while it runs."""
    with pytest.MonkeyPatch.context() as patch:
        modules = [sys.modules[base.__module__] for base in getattr(request.cls, "__mro__", ())]
        for module in modules if request.cls and request.cls.bucketed else []:
            write = getattr(module, "write_file", None)
            if write:
                patch.setattr(module, "write_file", _bucket_text(write, request.cls.case))
        yield


def _bucket_text(write: Callable[..., None], case: Case) -> Callable[..., None]:
    return lambda text, *path: write(bucketed_model(text, case), *path)


def bucketed_model(text: Any, case: Case) -> Any:
    """Replace dbt-spark's materializations in a model's file with the bucketed ones, and add their config."""
    if not isinstance(text, str):
        return {name: bucketed_model(below, case) for name, below in text.items()}
    if "def model(" in text:
        return text
    more = {"clustered_by": case.by, "buckets": 3}

    def config(match: re.Match[str]) -> str:
        keys = more | (case.incremental if match[3] == "incremental" else {})
        if "=" in match[1]:
            return f"{match[1]}'bucketed_{match[3]}'" + "".join(f", {key}={value!r}" for key, value in keys.items())
        return f"{match[1]}bucketed_{match[3]}"

    kind = BY_VARIABLE.removeprefix("materialized=")
    names = {"table": "bucketed_table", "incremental": "bucketed_incremental"}
    by_variable = f"materialized={names!r}.get({kind}, {kind}), clustered_by={case.by!r}, buckets=3"
    return MATERIALIZED.sub(config, text.replace(BY_VARIABLE, by_variable))
