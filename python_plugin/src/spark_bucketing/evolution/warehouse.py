"""The metastore and the files of a table, through a session with the extension: all that is asked, or done."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_bucketing.errors import SparkError
from spark_bucketing.evolution.locations import address
from spark_bucketing.session import setting, spark_call

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Reads are plain and leave nothing out, whatever the records claim; writes make one sorted file per bucket.
_SETTINGS: Mapping[str, str] = {
    "spark.bucketing.enabled": "true",
    "spark.bucketing.write.distribute": "true",
    "spark.sql.sources.bucketing.enabled": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.hive.convertMetastoreParquet": "true",
    "spark.sql.hive.convertMetastoreOrc": "true",
    "spark.sql.hive.manageFilesourcePartitions": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.legacy.parseNullPartitionSpecAsStringLiteral": "false",
}


@dataclass(frozen=True)
class StoredFile:
    """A file as its file system lists it: its name, its bytes, and when it was written (ms)."""

    name: str
    size: int
    modified: int


class Warehouse:
    """What is asked of Spark, and done with it.

    Args:
        session: an open session with the extension.
    """

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self._addresses: dict[str, str] = {}

    @contextmanager
    def settled(self) -> Iterator[Warehouse]:
        """Inside the block the session reads plainly and writes buckets; afterwards its settings are what they were."""
        with ExitStack() as stack:
            for key, value in _SETTINGS.items():
                stack.enter_context(setting(self.session, key, value))
            yield self

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Rows of a query, or of a statement that changes nothing."""
        with spark_call(""):
            return [row.asDict() for row in self.session.sql(query).collect()]

    def change(self, statement: str) -> None:
        """Run a statement that changes something."""
        with spark_call(""):
            self.session.sql(statement).collect()

    def frame(self, table: str) -> DataFrame:
        """A table's rows as they are now."""
        with spark_call(""):
            self.session.catalog.refreshTable(table)
            return self.session.table(table)

    def conf(self, key: str, default: str) -> str:
        """Value of a setting."""
        return str(self.session.conf.get(key, default))

    @property
    def cores(self) -> int:
        """By which the extension tells whether tasks are too few."""
        return int(self.session.sparkContext.defaultParallelism)

    def raw_table(self, database: str, name: str) -> tuple[Any, dict[str, str]] | None:
        """A table's buckets by its descriptor, and its properties, as the metastore has them.

        Returns:
            Spark's BucketSpec or None, and the properties; None where the catalog is not Hive's.
        """
        with spark_call(""):
            catalog = self.session._jsparkSession.sharedState().externalCatalog().unwrapped()
            if not catalog.getClass().getSimpleName().startswith("HiveExternalCatalog"):
                return None
            raw = catalog.getRawTable(database, name)
            spec = raw.bucketSpec()
            return (spec.get() if spec.isDefined() else None), _pairs(raw.properties())

    def properties(self, table: str) -> dict[str, str] | None:
        """A table's properties, of which SHOW TBLPROPERTIES redacts some; None where there is no such table.

        Args:
            table: quoted and qualified.
        """
        with spark_call(""):
            found = self._metadata(table)
            return None if found is None else _pairs(found.properties())

    def options(self, table: str) -> dict[str, str]:
        """A table's SERDEPROPERTIES, or OPTIONS, by which Spark reads its files.

        Args:
            table: quoted and qualified.
        """
        with spark_call(""):
            found = self._metadata(table)
            return {} if found is None else _pairs(found.storage().properties())

    def _metadata(self, table: str) -> Any:
        """What Spark's catalog has of a table; None where there is no such table."""
        state = self.session._jsparkSession.sessionState()
        name = state.sqlParser().parseTableIdentifier(table)
        return state.catalog().getTableMetadata(name) if state.catalog().tableExists(name) else None

    def files(self, folder: str) -> tuple[StoredFile, ...] | None:
        """The data files of a folder, by name; None where there is no such folder."""
        path, system = self._place(folder)
        with spark_call(""):
            if not system.exists(path):
                return None
            listed = list(system.listStatus(path))
            found = [
                StoredFile(status.getPath().getName(), int(status.getLen()), int(status.getModificationTime()))
                for status in listed
                if not status.isDirectory()
            ]
        return tuple(sorted((file for file in found if file.name[0] not in "._"), key=_name))

    def listing(self, folders: Sequence[str]) -> list[tuple[StoredFile, ...]]:
        """The data files of each of many folders, with one call; none for a folder that does not exist."""
        lister = self._jvm.org.apache.spark.sql.bucketing.FolderFiles
        with spark_call("The folders of the table cannot be listed."), _same_version():
            listed = lister.list(self.session._jsparkSession, json.dumps(folders))
        found = json.loads(str(listed))
        self._addresses.update((folder, address(each["address"])) for folder, each in zip(folders, found, strict=True))
        return [tuple(sorted((StoredFile(*file) for file in each.get("files", [])), key=_name)) for each in found]

    def left_behind(self, folders: Sequence[str], prefix: str) -> list[tuple[str, str]]:
        """The data files below the hidden folders of rewrites, with one call: the folder, and the file's name.

        Args:
            folders: in which hidden folders are looked for.
            prefix: of the names of these.
        """
        lister = self._jvm.org.apache.spark.sql.bucketing.FolderFiles
        with spark_call("The folders of the table cannot be listed."), _same_version():
            found = json.loads(str(lister.below(self.session._jsparkSession, json.dumps(folders), prefix)))
        return [(str(folder), str(name)) for folder, name in found]

    def read_text(self, file: str) -> str:
        """What a small file holds; nothing for one that does not exist."""
        path, system = self._place(file)
        with spark_call(""):
            if not system.exists(path):
                return ""
            stream = system.open(path)
            try:
                return bytes(stream.readAllBytes()).decode()
            finally:
                stream.close()

    def write_text(self, file: str, text: str) -> None:
        """Create a small file, as a whole or not at all."""
        path, system = self._place(file)
        part = self._place(f"{file}.part")[0]
        with spark_call(""):
            stream = system.create(part, True)
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()
            if system.rename(part, path):
                return
        raise SparkError(f"The file {file} cannot be written: expected none of that name.")

    def record(self, table: str, changes: Sequence[Mapping[str, Any]]) -> None:
        """Write the records of many partitions, and bring their descriptors into step, with a few calls for all.

        Args:
            table: quoted and qualified.
            changes: for each partition its name, and the spec unless it is without buckets.
        """
        recorder = self._jvm.org.apache.spark.sql.bucketing.PartitionRecords
        with spark_call(""), _same_version():
            recorder.correct(self.session._jsparkSession, table, json.dumps(changes))

    def names(self, folder: str) -> tuple[str, ...]:
        """Everything in a folder, hidden or not; nothing for one that does not exist."""
        return tuple(str(status.getPath().getName()) for status in self._statuses(folder))

    def folders(self, folder: str) -> tuple[str, ...]:
        """Names of the folders in a folder, hidden or not."""
        listed = [status for status in self._statuses(folder) if status.isDirectory()]
        return tuple(sorted(str(status.getPath().getName()) for status in listed))

    def _statuses(self, folder: str) -> list[Any]:
        path, system = self._place(folder)
        with spark_call(""):
            return list(system.listStatus(path)) if system.exists(path) else []

    def make_folder(self, folder: str) -> None:
        """Create a folder, and those above it."""
        path, system = self._place(folder)
        with spark_call(""):
            system.mkdirs(path)

    def clear(self, folder: str, names: Sequence[str]) -> bool:
        """Delete what a folder was seen to hold, and the folder if there is nothing else in it by now.

        Returns:
            Whether there is no such folder any more.
        """
        path, system = self._place(folder)
        with spark_call(""):
            for name in names:
                system.delete(self._jvm.org.apache.hadoop.fs.Path(path, name), True)
            if system.exists(path) and not list(system.listStatus(path)):
                # With all that is in it: a checksum whose file is gone is not listed.
                system.delete(path, True)
            return not system.exists(path)

    def delete(self, folder: str) -> None:
        """Delete a folder with all that is in it."""
        path, system = self._place(folder)
        with spark_call(""):
            system.delete(path, True)

    def copy(self, folder: str, target: str) -> None:
        """Copy the data files of a folder into another one, by Spark's tasks."""
        with spark_call(f"The files of {folder} cannot be copied."):
            self._jvm.org.apache.spark.sql.bucketing.FolderCopy.copy(self.session._jsparkSession, folder, target)

    def rename(self, folder: str, target: str) -> None:
        """Give a folder the name of one that is not there.

        Raises:
            SparkError: the file system did not do it.
        """
        path, system = self._place(folder)
        with spark_call(""):
            # An existing folder would be moved into.
            done = not system.exists(self._place(target)[0]) and system.rename(path, self._place(target)[0])
        if not done:
            raise SparkError(f"The folder {folder} cannot be renamed to {target}: expected no folder of that name.")

    def address(self, folder: str) -> str:
        """One spelling of a folder, by which folders and the files that Spark reads can be compared."""
        if folder not in self._addresses:
            path, system = self._place(folder)
            self._addresses[folder] = address(str(system.makeQualified(path).toUri().toString()))
        return self._addresses[folder]

    def _place(self, folder: str) -> tuple[Any, Any]:
        """Hadoop's path and its file system."""
        with spark_call(f"The folder {folder} cannot be reached."):
            path = self._jvm.org.apache.hadoop.fs.Path(folder)
            return path, path.getFileSystem(self.session._jsparkSession.sessionState().newHadoopConf())

    @property
    def _jvm(self) -> Any:
        return self.session.sparkContext._jvm


def _pairs(properties: Any) -> dict[str, str]:
    """A map of Scala's."""
    pairs = properties.toSeq()
    found = (pairs.apply(place) for place in range(pairs.length()))
    return {str(pair._1()): str(pair._2()) for pair in found}


@contextmanager
def _same_version() -> Iterator[None]:
    try:
        yield
    except TypeError as error:
        # What Py4J says of a class that is not there.
        raise SparkError(
            "The session extension is of another version than this command. Expected what `spark-bucketing "
            "extension conf` prints now among the settings of the session."
        ) from error


def _name(file: StoredFile) -> str:
    return file.name


def total(files: Sequence[StoredFile]) -> int:
    """Bytes of files."""
    return sum(file.size for file in files)
