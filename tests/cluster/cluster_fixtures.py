"""Start a cluster for each test module, or skip the module without PostgreSQL. Import these fixtures with a star."""

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

# Plan joins as for large tables, and run lost or slow tasks again on another worker.
SETTINGS = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.bucketing.read.partitionBytes": "0",
    "spark.speculation": "true",
}
Query = Callable[[str], list[tuple[Any, ...]]]
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def running_cluster() -> Iterator[Cluster]:
    """Start a cluster whose Thrift Server has the extension."""
    if lacking := missing():
        pytest.skip(lacking)
    with cluster(server_settings(build_jar()) | SETTINGS) as made:
        yield made


@pytest.fixture
def project(running_cluster: Cluster) -> ClusterProject:
    """Create an empty project with its own schema, after checking that the whole cluster runs."""
    running_cluster.start_others()
    return ClusterProject(running_cluster, f"s{next(_numbers)}")


@pytest.fixture
def query(running_cluster: Cluster) -> Query:
    """Return a function that sends a query to the Thrift Server in a new session."""

    def ask(sql: str) -> list[tuple[Any, ...]]:
        with asking(running_cluster.ports["thrift"]) as asked:
            return asked(sql)

    return ask
