"""SQL over the connection of a dbt target, as dbt-spark itself opens it: thrift, http, odbc."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spark_bucketing.errors import SparkError
from spark_bucketing.project.profile import Target


class Connection:
    """One connection, opened by dbt-spark with the profile's credentials and server_side_parameters."""

    def __init__(self, target: Target) -> None:
        from dbt.adapters.spark.connections import SparkConnectionManager
        from dbt.mp_context import get_mp_context

        self._target = target
        self._manager = SparkConnectionManager(target.loaded, get_mp_context())
        self._manager.set_connection_name("spark-bucketing check")

    def rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """Rows of a statement.

        Raises:
            SparkError: there is no connection, or Spark refuses the statement.
        """
        from dbt_common.exceptions import DbtBaseException

        try:
            _, cursor = self._manager.add_query(sql, auto_begin=False)
            return [tuple(row) for row in cursor.fetchall()]
        except DbtBaseException as error:
            said = str(getattr(error, "msg", error)).strip()
            raise SparkError(said or type(error).__name__) from error

    def close(self) -> None:
        """Close it; nothing happens when it never was opened."""
        self._manager.cleanup_all()
