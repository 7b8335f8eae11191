"""A cluster for each module of these tests; without PostgreSQL they are skipped. To be imported with a star."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cluster import Cluster, cluster, missing
from cluster_projects import ClusterProject
from spark_servers import asking

from spark_bucketing.extension.build import build_jar
from spark_bucketing.extension.settings import server_settings

# Joins as those of large tables; a lost or slow task runs again elsewhere.
SETTINGS = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.bucketing.read.partitionBytes": "0",
    "spark.speculation": "true",
}
Query = Callable[[str], list[tuple[Any, ...]]]
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def company() -> Iterator[Cluster]:
    """A cluster whose Thrift Server has the extension."""
    if lacking := missing():
        pytest.skip(lacking)
    with cluster(server_settings(build_jar()) | SETTINGS) as made:
        yield made


@pytest.fixture
def project(company: Cluster) -> ClusterProject:
    """An empty project with a schema of its own, while all of the cluster runs."""
    company.start_others()
    return ClusterProject(company, f"s{next(_numbers)}")


@pytest.fixture
def query(company: Cluster) -> Query:
    """Function that asks the Thrift Server, each time in a new session."""

    def ask(sql: str) -> list[tuple[Any, ...]]:
        with asking(company.ports["thrift"]) as asked:
            return asked(sql)

    return ask
