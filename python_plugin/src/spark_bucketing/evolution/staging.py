"""The table beside a table into which one partition at a time is written anew, and what it remembers of that.

The staging table is external, and its folder lies beside the partition's: it is the partition's folder, as soon as the
partition's location is set to it, which is one change of one row in the metastore, until copies of the new files lie
where the old ones were. The table's properties say which partition it is for and what that was, so that the next run
can complete or undo what a killed one began.
"""

from __future__ import annotations

import json
import re
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace

from spark_bucketing.errors import TableError
from spark_bucketing.evolution import sql
from spark_bucketing.evolution.locations import base_name, parent
from spark_bucketing.evolution.model import Partition, Table
from spark_bucketing.evolution.owner import Owner
from spark_bucketing.evolution.warehouse import StoredFile, Warehouse
from spark_bucketing.spec import BucketSpec

_SUFFIX = "__bucketing_rewrite"
# Hidden, so that neither MSCK nor another engine takes it for a partition while it is there.
FOLDER = ".bucketing-"
_HIDDEN = re.compile(rf"(?P<above>.+)/(?P<hidden>{re.escape(FOLDER)}[0-9a-f]{{12}}-(?P<home>[A-Za-z0-9_-]+))/.+")
_PARTITION, _FOLDER = "bucketing.rewrite.partition", "bucketing.rewrite.folder"
_REPLACES, _FILES, _SPEC = "bucketing.rewrite.replaces", "bucketing.rewrite.files", "bucketing.rewrite.spec"
_TARGET, _ORIGIN = "bucketing.rewrite.target", "bucketing.rewrite.table"
OWNER = "bucketing.rewrite.owner"
_KEYS = (_PARTITION, _FOLDER, _REPLACES, _FILES, _SPEC, _TARGET, _ORIGIN, OWNER)
# Of a folder, on the file systems that there are.
_LONGEST_NAME = 255
# Properties of a table of the Hive layout by which its files are written, such as parquet.compression.
_OF_FILES = ("parquet.", "orc.")


@dataclass(frozen=True)
class Staging:
    """A rewrite of one partition, as its staging table remembers it.

    Args:
        table: the staging table's name, qualified.
        partition: name of the partition.
        folder: new, of the staging table.
        replaces: the partition's folder before.
        files: fingerprint of the files in that folder.
        spec: of the partition's record before; None for none.
        target: spec of the new files.
        origin: folder of the table whose partition it is.
        owner: the process that does it.
    """

    table: str
    partition: str
    folder: str
    replaces: str
    files: str
    spec: BucketSpec | None
    target: BucketSpec | None
    origin: str
    owner: Owner

    @property
    def home(self) -> str:
        """The folder in which the partition lies in the end."""
        return home_of(self.replaces)


def home_of(location: str) -> str:
    """The folder of a partition; of one that a rewrite has left in a hidden folder, the one where it was before."""
    found = _hidden(location)
    return f"{found['above']}/{_decoded(found['home'])}" if found else location.rstrip("/")


def _hidden(location: str) -> re.Match[str] | None:
    """The parts of a location within the hidden folder of a rewrite; None for any other, whatever its name."""
    found = _HIDDEN.fullmatch(location)
    return found if found and _decoded(found["home"]) else None


def _encoded(name: str) -> str:
    return urlsafe_b64encode(name.encode()).decode().rstrip("=")


def _decoded(text: str) -> str:
    """The name of a folder that was encoded so; nothing where none was."""
    try:
        name = urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except ValueError:
        return ""
    return name if _encoded(name) == text and "/" not in name else ""


def is_away(partition: Partition) -> bool:
    """Whether a partition lies in a hidden folder of a rewrite."""
    return home_of(partition.location) != partition.location.rstrip("/")


def hidden_of(location: str) -> str:
    """The hidden folder of a rewrite in which a partition lies, which holds nothing else; else its own."""
    found = _hidden(location)
    return f"{found['above']}/{found['hidden']}" if found else location


def _hidden_name(home: str) -> str:
    """Name of a new hidden folder: it says where the partition was before, whatever the other names there are."""
    return f"{FOLDER}{uuid.uuid4().hex[:12]}-{_encoded(base_name(home))}"


def staging_name(table: Table) -> str:
    """Name of the staging table."""
    *schema, name = sql.parts(table.name)
    return ".".join([*(sql.name(part) for part in schema), sql.name(name + _SUFFIX)])


def fingerprint(files: Sequence[StoredFile] | None) -> str:
    """What changes when files do: their number, bytes, names and times."""
    text = json.dumps([(file.name, file.size, file.modified) for file in files or ()])
    return str(uuid.uuid5(uuid.NAMESPACE_OID, text))


def are_copies(files: Sequence[StoredFile], of: Sequence[StoredFile]) -> bool:
    """Whether all of these files are copies, as names and sizes tell: Spark gives each file a name of its own."""
    return {(file.name, file.size) for file in files} <= {(file.name, file.size) for file in of}


def new_staging(
    warehouse: Warehouse, table: Table, partition: Partition, files: Sequence[StoredFile], target: BucketSpec
) -> Staging:
    """What a rewrite of a partition starts from; nothing is done yet.

    Args:
        warehouse: with an open session.
        table: the partition's.
        partition: it.
        files: its files.
        target: the spec that it is brought to.

    Raises:
        TableError: the partition's folder has no folder beside it.
    """
    home = home_of(partition.location)
    above = parent(home)
    if not above:
        raise TableError(
            f"Partition {partition.name} of {table.name} lies in {partition.location}, the root of a file system: "
            "expected a "
            "folder beside which another one can be written. Move it, and SET LOCATION."
        )
    hidden = _hidden_name(home)
    if len(hidden) > _LONGEST_NAME:
        raise TableError(
            f"The name of the folder of partition {partition.name} of {table.name} is too long for one that is named "
            "after it: expected at most 170 bytes. Leave the partition out with --where."
        )
    return Staging(
        staging_name(table),
        partition.name,
        f"{above}/{hidden}",
        partition.location.rstrip("/"),
        fingerprint(files),
        partition.spec,
        target,
        table_folder(warehouse, table),
        Owner.current(),
    )


def table_folder(warehouse: Warehouse, table: Table) -> str:
    """The folder of the table itself."""
    rows = warehouse.rows(f"describe table extended {sql.table(table.name)}")
    return next((str(row["data_type"]) for row in rows[::-1] if row["col_name"] == "Location"), "")


def take_over(warehouse: Warehouse, staging: Staging) -> Staging:
    """Make this process the owner of what another one has begun."""
    mine = replace(staging, owner=Owner.current())
    warehouse.change(f"alter table {staging.table} set tblproperties ({sql.text(OWNER)} = {sql.text(str(mine.owner))})")
    return mine


def create_staging(warehouse: Warehouse, table: Table, staging: Staging) -> None:
    """Create the staging table: like the table, with what it is for among its properties."""
    own = warehouse.properties(sql.table(table.name)) or {}
    kept = {key: value for key, value in own.items() if key.startswith(_OF_FILES)}
    values = {
        **kept,
        "bucketing_version": "1",
        _PARTITION: staging.partition,
        _FOLDER: staging.folder,
        _REPLACES: staging.replaces,
        _FILES: staging.files,
        _SPEC: _as_text(staging.spec),
        _TARGET: _as_text(staging.target),
        _ORIGIN: staging.origin,
        OWNER: str(staging.owner),
        # Where the metastore's default is true, a partition that stays in the folder would be deleted with the table.
        "external.table.purge": "false",
    }
    properties = ", ".join(f"{sql.text(key)} = {sql.text(value)}" for key, value in values.items())
    warehouse.change(
        f"create table {staging.table} like {sql.table(table.name)} location {sql.text(staging.folder)} "
        f"tblproperties ({properties})"
    )


def find_staging(warehouse: Warehouse, table: Table) -> Staging | None:
    """What another run began, which has died or is still at work; None when there is nothing.

    Raises:
        TableError: a table of this name exists, and is none of ours.
    """
    name = staging_name(table)
    found = warehouse.properties(name)
    if found is None:
        return None
    if any(key not in found for key in _KEYS):
        raise TableError(
            f"There is a table {name}, and it was not made by a rewrite of {table.name}. Expected that name to be "
            "free, for the "
            "table into which partitions are written: rename or drop it."
        )
    specs = (_from_text(found[_SPEC]), _from_text(found[_TARGET]))
    owner = Owner.parse(found[OWNER])
    return Staging(
        name, found[_PARTITION], found[_FOLDER], found[_REPLACES], found[_FILES], *specs, found[_ORIGIN], owner
    )


def _as_text(spec: BucketSpec | None) -> str:
    return json.dumps([spec.num_buckets, spec.bucket_columns, spec.sort_columns] if spec else None)


def _from_text(text: str) -> BucketSpec | None:
    spec = json.loads(text)
    return BucketSpec(spec[0], tuple(spec[1]), tuple(spec[2]), "hive") if spec else None


def drop_staging(warehouse: Warehouse, staging: Staging) -> None:
    """Drop the staging table; its files stay, since it is external."""
    warehouse.change(f"drop table if exists {staging.table}")
