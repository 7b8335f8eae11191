"""Tests of `spark-bucketing init` on projects in a temporary folder, without compiling the extension."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml
from case_tables import cases
from click.testing import CliRunner, Result

from spark_bucketing import api
from spark_bucketing.advice.advice import Advice, ProposedSpec, QueryProof
from spark_bucketing.advice.requirements import PlanSizes
from spark_bucketing.cli import init as command
from spark_bucketing.cli import main
from spark_bucketing.errors import ProfileError, ProjectError
from spark_bucketing.extension.settings import EXTENSION_CLASS
from spark_bucketing.init.initialize import add_settings, package_entry
from spark_bucketing.plan.document import PlanCounts
from spark_bucketing.spec import BucketSpec

ADDRESS = "git.example.com/spark-bucketing.git"
PROFILE = """\
# our warehouses
shop:
  target: dev
  outputs:
    dev:
      type: spark
      method: session  # on the laptop
      host: NA
      schema: shop
    prod: {type: spark, method: thrift, host: localhost, port: 10000, schema: shop}
"""
SETTINGS = {"spark.jars": "/jars/e.jar", "spark.sql.extensions": EXTENSION_CLASS}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a dbt project with one model and no packages."""
    monkeypatch.setattr(command, "build_jar", lambda: Path("/jars/e.jar"))
    monkeypatch.setattr(command, "_size", lambda *_: 40 * 2**30)
    monkeypatch.setattr(api, "advise", lambda *_, **__: api.Result(Advice(), 0, lambda *_: None))
    (tmp_path / "models").mkdir()
    (tmp_path / "dbt_project.yml").write_text("name: shop\nprofile: shop\n")
    (tmp_path / "profiles.yml").write_text(PROFILE)
    (tmp_path / "models" / "orders.sql").write_text("select 1 as customer_id, 2 as order_id\n")
    return tmp_path


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.rglob("*.*") if path.suffix in (".yml", ".sql")}


def run(shop: Path, *arguments: str, package: Sequence[str] = ("--package", ADDRESS)) -> Result:
    folders = ("--project-dir", str(shop), "--profiles-dir", str(shop))
    return CliRunner().invoke(main, ["init", *folders, *package, *arguments])


def test_project_is_set_up_and_a_second_run_changes_nothing(shop: Path) -> None:
    result = run(shop, "--model", "orders", "--clustered-by", "customer_id, order_id", "--yes")
    assert result.exit_code == 0, result.output
    found = files(shop)
    assert yaml.safe_load(found["packages.yml"]) == {"packages": [{"git": ADDRESS, "revision": "main"}]}
    outputs = yaml.safe_load(found["profiles.yml"])["shop"]["outputs"]
    assert outputs["dev"]["server_side_parameters"] == SETTINGS
    assert "# on the laptop" in found["profiles.yml"] and "server_side_parameters" not in outputs["prod"]
    assert found["orders.sql"].endswith("select 1 as customer_id, 2 as order_id\n")
    for line in (
        "materialized='bucketed_table'",
        "clustered_by=['customer_id', 'order_id']",
        "buckets=128",
        "bucket_hash='hive2'",
    ):
        assert line in found["orders.sql"], "40 GiB have 160 files of 256 MiB, and 128 is the nearest power of two"
    assert "dbt deps" in result.output and "dbt run --select orders" in result.output
    assert (shop / "packages.yml").stat().st_mode & 0o777 == 0o644
    again = run(shop, "--yes")
    assert "already set up" in again.output and files(shop) == found


def proof(name: str, before: float, after: float, *parents: str) -> QueryProof:
    now, then = (PlanSizes(PlanCounts(), number, 0.0) for number in (before, after))
    return QueryProof(name, f"model.shop.{name}", 1.0, now, then, parents=parents)


def advised(*models: str, proofs: Sequence[QueryProof]) -> Advice:
    spec = BucketSpec(8, ("customer_id",), ("customer_id",), "hive2")
    config = {"materialized": "bucketed_table", "clustered_by": ["customer_id"], "buckets": 8, "bucket_hash": "hive2"}
    more = (None, spec, config, 3 * 2**30, 0, "", 1.0, 0.0)
    changes = tuple(ProposedSpec(f"model.shop.{name}", name, f"shop.{name}", *more) for name in models)
    return Advice(changes=changes, proof=tuple(proofs))


def test_models_of_the_query_that_gains_most_are_bucketed(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profiles: list[str] = []

    def advise(*_: object, profiles_dir: str, **__: object) -> api.Result[Advice]:
        profiles.append((Path(profiles_dir) / "profiles.yml").read_text())
        proofs = [proof("joined", 2**31, 0, "model.shop.orders", "model.shop.raw"), proof("other", 5, 0)]
        return api.Result(advised("orders", "other", proofs=proofs), 0, lambda *_: None)

    monkeypatch.setattr(api, "advise", advise)
    result = run(shop, "--yes")
    assert result.exit_code == 0, result.output
    assert "The query of joined now shuffles and sorts 2.0 GiB, and with these buckets 0 bytes:" in result.output
    assert "  orders (3.0 GiB): 8 buckets by customer_id (hive2)\nFor 1 more model, run" in result.output
    assert "bucket_hash='hive2'" in files(shop)["orders.sql"] and "dbt run --select orders" in result.output
    # Spark plans with the extension before the user agrees to the edits.
    assert profiles == [files(shop)["profiles.yml"]] and EXTENSION_CLASS in profiles[0]


def test_query_without_a_table_among_its_parents_gets_all_proposed_buckets() -> None:
    advice = advised("orders", "other", proofs=[proof("joined", 9, 1, "model.shop.view")])
    assert command.first_query(advice)[1] == list(advice.changes)
    assert command.first_query(advised("orders", proofs=[proof("joined", 9, 9)])) == ("", [])


@pytest.mark.parametrize(
    ("moved", "said"),
    [
        (2**31, "no buckets save more than they cost. Here, the query of joined shuffles and sorts the most, 2.0 GiB."),
        (2**20, "the query of joined shuffles and sorts the most, 1.0 MiB. Tables of less than 256 MiB do not"),
        (0, "the project has no query that Spark can plan and that shuffles or sorts rows"),
    ],
)
def test_project_without_a_gain_says_which_query_moves_most(moved: int, said: str) -> None:
    advice = advised(proofs=[proof("joined", moved, moved), proof("other", moved / 2, moved / 2)])
    assert said in command.no_buckets(advice)
    assert ("init --model NAME" in command.no_buckets(advice)) == (moved == 2**31)


@pytest.mark.parametrize(("config", "expected"), [("", "hive"), ("bucket_hash='spark',", "spark")])
def test_chosen_model_gets_the_hash_of_the_other_bucketed_models(shop: Path, config: str, expected: str) -> None:
    bucketed = (
        f"{{{{ config(materialized='bucketed_table', clustered_by=['a'], {config} buckets=2) }}}} select 1 as a\n"
    )
    (shop / "models" / "users.sql").write_text(bucketed)
    result = run(shop, "--model", "orders", "--clustered-by", "customer_id", "--yes")
    assert result.exit_code == 0 and f"bucket_hash='{expected}'" in files(shop)["orders.sql"], result.output


@pytest.mark.parametrize("error", [None, ProjectError("Tables are missing.", instead="dbt run")])
def test_project_is_set_up_if_no_model_gets_buckets(
    shop: Path, monkeypatch: pytest.MonkeyPatch, error: ProjectError | None
) -> None:
    if error:
        monkeypatch.setattr(api, "advise", Mock(side_effect=error))
    before = files(shop)["orders.sql"]
    result = run(shop, "--yes")
    assert result.exit_code == 0 and "No model gets buckets" in result.output, result.output
    assert ("Tables are missing." in result.output) == bool(error)
    assert "packages.yml" in files(shop) and files(shop)["orders.sql"] == before
    assert "No model gets buckets" not in run(shop, "--setup-only", "--target", "dev").output


@cases("commands/init", arguments=..., size=40 * 2**30, code=..., said=..., unchanged="")
def test_request_that_is_invalid_or_without_consent_changes_nothing(
    shop: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    size: int | None,
    code: int,
    said: list[str],
    unchanged: str,
) -> None:
    monkeypatch.setattr(command, "_size", lambda *_: size)
    before = files(shop)
    result = run(shop, *arguments.split())
    assert result.exit_code == code and "Traceback" not in result.output
    assert [text for text in said if text not in result.output] == []
    after = files(shop)
    assert after[unchanged] == before[unchanged] if unchanged else after == before


@pytest.mark.parametrize("entry", [f"git: {ADDRESS}", "local: fork"])
def test_existing_package_requires_no_source(shop: Path, entry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_CHECKOUT", shop)
    for folder in (shop / "fork", shop / "dbt_packages" / "spark_bucketing"):
        folder.mkdir(parents=True)
        (folder / "dbt_project.yml").write_text("name: spark_bucketing\n")
    packages = f"packages:\n  - {entry}\n"
    (shop / "packages.yml").write_text(packages)
    result = run(shop, "--model", "orders", "--clustered-by", "customer_id", "--yes", package=())
    assert result.exit_code == 0, result.output
    assert (shop / "packages.yml").read_text() == packages and "bucketed_table" in files(shop)["orders.sql"]
    assert "dbt deps" not in result.output


def archive(path: Path, built: str) -> Path:
    """Write a jar of the extension that was built for this version."""
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr(EXTENSION_CLASS.replace(".", "/") + ".class", "")
        jar.writestr("Built.class", built)
    return path


@pytest.mark.parametrize(
    ("entry", "is_replaced"),
    [("other.jar", True), ("spark-bucketing-0.1.0-spark-3.5.9-a.jar", True), ("copy.jar", False), ("gone.jar", False), ("", True)],
)  # fmt: skip
def test_jar_of_another_build_is_replaced_and_other_jars_and_extensions_are_kept(
    shop: Path, monkeypatch: pytest.MonkeyPatch, entry: str, is_replaced: bool
) -> None:
    jar = archive(shop / "built.jar", "4.3.0")
    archive(shop / "copy.jar", "4.3.0")
    archive(shop / "other.jar", "4.1.4")
    monkeypatch.setattr(command, "build_jar", lambda: jar)
    before = {"spark.jars": "a.jar", "spark.sql.extensions": "io.delta.X"}
    if entry:
        before = {
            "spark.jars": f"a.jar, file://{shop}/{entry}",
            "spark.sql.extensions": f"io.delta.X, {EXTENSION_CLASS}",
        }
    profile = yaml.safe_load(PROFILE)
    profile["shop"]["outputs"]["dev"]["server_side_parameters"] = before
    (shop / "profiles.yml").write_text(yaml.safe_dump(profile))
    (shop / "packages.yml").write_text(f"packages: [{{git: '{ADDRESS}', revision: main}}]\n")
    output = run(shop, "--yes").output
    assert ("already set up" in output) is not is_replaced, output
    found = yaml.safe_load((shop / "profiles.yml").read_text())["shop"]["outputs"]["dev"]["server_side_parameters"]
    assert found["spark.jars"] == (f"a.jar,{jar}" if is_replaced else before["spark.jars"])
    assert found["spark.sql.extensions"].replace(" ", "") == f"io.delta.X,{EXTENSION_CLASS}"


def test_file_that_cannot_be_edited_alone_gives_the_lines_to_add() -> None:
    profile = "base: &base {type: spark}\nshop:\n  outputs:\n    dev: *base\n    prod: *base\n"
    with pytest.raises(ProjectError, match="add these lines by hand") as error:
        add_settings(profile, "shop", "dev", SETTINGS)
    assert f'spark.sql.extensions: "{EXTENSION_CLASS}"' in str(error.value)


def test_missing_target_is_an_error() -> None:
    with pytest.raises(ProfileError, match="no target `qa` in profile `shop`"):
        add_settings(PROFILE, "shop", "qa", SETTINGS)


def test_package_comes_from_a_checkout_a_folder_or_a_url(tmp_path: Path) -> None:
    checkout, project = tmp_path / "bucketing", tmp_path / "shop"
    for folder in (checkout, project):
        folder.mkdir()
    (checkout / "dbt_project.yml").write_text("name: spark_bucketing\n")
    assert package_entry(None, "main", project, checkout) == {"local": "../bucketing"}
    assert package_entry(str(checkout), "main", project, None) == {"local": "../bucketing"}
    assert package_entry(ADDRESS, "1.0", project, checkout) == {"git": ADDRESS, "revision": "1.0"}
    with pytest.raises(ProjectError, match="is not the dbt package"):
        package_entry(str(project), "main", project, None)
    with pytest.raises(ProjectError, match="source of the dbt package is unknown"):
        package_entry(None, "main", project, None)
