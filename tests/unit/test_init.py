"""Tests of `spark-bucketing init` on projects in a temporary folder, without compiling the extension."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml
from case_tables import cases
from click.testing import CliRunner, Result

from spark_bucketing import api
from spark_bucketing.advice.advice import Advice, PlanSizes, ProposedSpec, QueryProof, RejectedTable, Suggestion
from spark_bucketing.advice.report import first_models
from spark_bucketing.cli import init as command
from spark_bucketing.cli import main
from spark_bucketing.errors import ProfileError, ProjectError
from spark_bucketing.extension.settings import EXTENSION_CLASS
from spark_bucketing.init.initialize import add_package, add_settings, package_entry
from spark_bucketing.spec import BucketSpec

GIB = 2**30
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
ORDERS = ("--model", "orders", "--clustered-by", "customer_id", "--yes")


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


def install(shop: Path) -> None:
    """Do what `dbt deps` does."""
    folder = shop / "dbt_packages" / "spark_bucketing"
    folder.mkdir(parents=True)
    (folder / "dbt_project.yml").write_text("name: spark_bucketing\n")


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.rglob("*.*") if path.suffix in (".yml", ".sql")}


def changed(shop: Path, before: Mapping[str, str]) -> list[str]:
    """Return which of two models have changed."""
    after = files(shop)
    return [name for name in ("orders", "lines") if after[f"{name}.sql"] != before[f"{name}.sql"]]


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
    # 40 GiB have 160 files of 256 MiB, and 128 is the nearest power of two.
    keys, others = "clustered_by=['customer_id', 'order_id']", ("materialized='bucketed_table'", "bucket_hash='hive2'")
    assert all(config in found["orders.sql"] for config in (keys, "buckets=128", *others))
    assert "dbt deps" in result.output and "dbt run --select orders" in result.output
    assert (shop / "packages.yml").stat().st_mode & 0o777 == 0o644
    again = run(shop, "--yes")
    assert "already set up" in again.output and files(shop) == found


def proof(name: str, before: int, after: int, *tables: str) -> QueryProof:
    now, then = (PlanSizes(0, 0, number) for number in (before, after))
    return QueryProof(name, f"model.shop.{name}", 1.0, now, then, tables=tables)


def specs(*models: str, cost: int = 0) -> tuple[ProposedSpec, ...]:
    spec = BucketSpec(8, ("customer_id",), ("customer_id",), "hive2")
    config = {"materialized": "bucketed_table", "clustered_by": ["customer_id"], "buckets": 8, "bucket_hash": "hive2"}
    more = (None, spec, config, 3 * GIB, 0, "", 1, cost)
    return tuple(ProposedSpec(f"model.shop.{name}", name, f"shop.{name}", *more) for name in models)


PAYING = Advice(
    changes=specs("orders", "other"),
    proof=(proof("joined", 2 * GIB, 0, "shop.orders", "shop.raw"), proof("small", 5, 0)),
)
# Both sides of a join have 3 GiB each: a shuffle and a sort of both cost as much as one query saves.
COSTLY = Advice(
    proof=(proof("joined", 12 * GIB, 12 * GIB, "shop.orders", "shop.lines"),),
    costly=specs("orders", "lines", cost=6 * GIB),
    costly_proof=(proof("joined", 12 * GIB, 0, "shop.orders", "shop.lines"),),
)
# Buckets pay off for only one side of a join.
ONE_SIDED = Advice(
    changes=specs("lines"),
    proof=(proof("joined", 12 * GIB, 6 * GIB, "shop.orders", "shop.lines"),),
    costly=specs("orders", cost=6 * GIB),
    costly_proof=(proof("joined", 6 * GIB, 0, "shop.orders", "shop.lines"),),
)


def plan(monkeypatch: pytest.MonkeyPatch, advice: Advice) -> list[str]:
    """Let the planner return this advice, and return the profiles with which it was called."""
    profiles: list[str] = []

    def advise(*_: object, profiles_dir: str, costly: bool, **__: object) -> api.Result[Advice]:
        assert costly
        profiles.append((Path(profiles_dir) / "profiles.yml").read_text())
        return api.Result(advice, 0, lambda *_: None)

    monkeypatch.setattr(api, "advise", advise)
    return profiles


def test_models_of_the_query_that_gains_most_are_bucketed(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profiles = plan(monkeypatch, PAYING)
    result = run(shop, "--yes")
    assert result.exit_code == 0, result.output
    assert "query of joined now shuffles and sorts 2.0 GiB, and with these buckets 0\nbytes:\n" in result.output
    assert "  orders (3.0 GiB): 8 buckets by customer_id (hive2)\nFor 1 more model, run" in result.output
    assert "bucket_hash='hive2'" in files(shop)["orders.sql"] and "dbt run --select orders" in result.output
    # Spark plans with the extension before the user agrees to the edits.
    assert profiles == [files(shop)["profiles.yml"]] and EXTENSION_CLASS in profiles[0]


@pytest.mark.parametrize(
    ("advice", "bucketed", "said"),
    [
        (COSTLY, [], "No buckets save more than they cost if each query runs once per build. The best ones reduce"),
        (ONE_SIDED, ["lines"], "Further buckets reduce what the query of joined shuffles and sorts from 6.0 GiB to 0"),
    ],
)
def test_costly_buckets_are_offered_with_their_cost(
    shop: Path, monkeypatch: pytest.MonkeyPatch, advice: Advice, bucketed: list[str], said: str
) -> None:
    """Without a terminal to ask, the output contains complete commands."""
    (shop / "models" / "lines.sql").write_text("select 1 as customer_id\n")
    plan(monkeypatch, advice)
    before = files(shop)
    result = run(shop, "--yes")
    output = " ".join(result.output.split())
    assert result.exit_code == 0 and said in output, result.output
    cost = "12.0 GiB more" if advice is COSTLY else "6.0 GiB more"
    assert f"shuffle and sort {cost}. They pay off if such queries run at least 2 times per build." in output
    assert "\n  dbt deps\n  spark-bucketing init " in result.output
    lines = re.findall(r"^  spark-bucketing (init .*)$", result.output, re.MULTILINE)
    assert lines[0].endswith(" orders --clustered-by customer_id --buckets 8")
    assert changed(shop, before) == bucketed
    install(shop)
    for line in lines:
        again = CliRunner().invoke(main, [*line.split(), "--yes"])
        assert again.exit_code == 0, again.output
    after = files(shop)
    assert all("buckets=8" in after[name] and "hive2" in after[name] for name in ("orders.sql", "lines.sql"))


@pytest.mark.parametrize(("both", "bucketed"), [(True, ["orders", "lines"]), (False, ["lines"])])
def test_user_can_choose_both_sides_of_a_join(
    shop: Path, monkeypatch: pytest.MonkeyPatch, both: bool, bucketed: list[str]
) -> None:
    (shop / "models" / "lines.sql").write_text("select 1 as customer_id\n")
    plan(monkeypatch, ONE_SIDED)
    asked = Mock(side_effect=[both, True])
    monkeypatch.setattr("click.confirm", asked)
    monkeypatch.setattr(command, "_has_terminal", lambda: True)
    before = files(shop)
    result = run(shop)
    assert result.exit_code == 0, result.output
    assert [call.args[0] for call in asked.call_args_list] == ["Bucket orders nevertheless?", "Apply these changes?"]
    assert changed(shop, before) == bucketed


@pytest.mark.parametrize(
    ("moved", "said"),
    [
        (2**31, "sorts the most, 2.0 GiB, but no buckets of its tables help it.\n  shop.orders: smaller than 256 MiB"),
        (2**20, "the query of joined shuffles and sorts the most, 1.0 MiB. Tables of less than 256 MiB do not"),
        (0, "the project has no query that Spark can plan and that shuffles or sorts rows"),
    ],
)
def test_project_without_a_gain_says_which_query_moves_most(moved: int, said: str) -> None:
    small = RejectedTable("shop.orders", "smaller than --smallest")
    proofs = (proof("joined", moved, moved, "shop.orders"), proof("other", moved // 2, moved // 2))
    assert said in first_models(Advice(proof=proofs, left_out=(small,))).description


def test_query_that_could_gain_most_further_is_chosen_among_equal_ones() -> None:
    raw = Suggestion("shop.raw", BucketSpec(8, ("customer_id",), ("customer_id",), "hive2"), 3 * GIB)
    of_source = proof("from_raw", 12 * GIB, 6 * GIB, "shop.raw", "shop.lines")
    advice = replace(ONE_SIDED, proof=(of_source, *ONE_SIDED.proof), suggestions=(raw,))
    chosen = first_models(advice)
    assert "query of joined now" in chosen.description and "shop.raw" not in chosen.description and chosen.costly
    chosen = first_models(replace(advice, costly=(), costly_proof=()))
    assert "query of from_raw now" in chosen.description
    assert "dbt does not build shop.raw. As 8 buckets by customer_id (hive2), it would save" in chosen.description


def test_second_run_buckets_models_that_did_not_exist_in_the_first(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(shop, "--setup-only", "--yes")
    assert "already set up" in run(shop, "--yes").output, "dbt cannot parse the project before `dbt deps`"
    install(shop)
    plan(monkeypatch, PAYING)
    assert run(shop, "--yes").exit_code == 0 and "bucketed_table" in files(shop)["orders.sql"]
    assert "already set up" in run(shop, "--yes").output


@pytest.mark.parametrize(("config", "expected"), [("", "hive"), ("bucket_hash='spark',", "spark")])
def test_chosen_model_gets_the_hash_of_the_other_bucketed_models(shop: Path, config: str, expected: str) -> None:
    bucketed = f"materialized='bucketed_table', clustered_by=['a'], {config} buckets=2"
    (shop / "models" / "users.sql").write_text(f"{{{{ config({bucketed}) }}}} select 1 as a\n")
    result = run(shop, *ORDERS)
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
    install(shop)
    (shop / "fork").mkdir()
    (shop / "fork" / "dbt_project.yml").write_text("name: spark_bucketing\n")
    packages = f"packages:\n  - {entry}\n"
    (shop / "packages.yml").write_text(packages)
    result = run(shop, *ORDERS, package=())
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
        jars = f"a.jar, file://{shop}/{entry}"
        before = {"spark.jars": jars, "spark.sql.extensions": f"io.delta.X, {EXTENSION_CLASS}"}
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
    profile = profile.replace("type: spark", "server_side_parameters: {spark.sql.extensions: io.delta.X}")
    with pytest.raises(ProjectError) as error:
        add_settings(profile, "shop", "dev", SETTINGS)
    assert f'spark.sql.extensions: "io.delta.X,{EXTENSION_CLASS}"' in str(error.value)


def test_model_that_cannot_be_edited_is_named_with_its_config(shop: Path) -> None:
    (shop / "models" / "orders.sql").write_text("{{ config(tags='a') }}{{ config(tags='b') }}select 1 as customer_id\n")
    output = run(shop, *ORDERS, "--buckets", "4").output
    assert "Model `orders` is not edited. The model's SQL calls config() 2 times. Write this config by hand:" in output
    assert "buckets=4" in output and "buckets=4" not in files(shop)["orders.sql"]


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


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# none", "# none\npackages:\n  - local: x\n"),
        ("packages: []  # none\n", "packages: [{local: x}]  # none\n"),
        ("packages:\n- local: a  # ours\n# b\n", "packages:\n- local: a  # ours\n- local: x\n# b\n"),
        (f"packages:\n  - git: {ADDRESS}", f"packages:\n  - git: {ADDRESS}"),
    ],
)
def test_package_is_added_to_the_list(before: str, after: str) -> None:
    assert add_package(before, {"local": "x"}) == after


def test_settings_are_added_with_quotes_and_in_the_style_of_the_file() -> None:
    added = '      server_side_parameters:\n        spark.jars: "/jars/e.jar"\n        spark.sql.extensions: "'
    assert f"      schema: shop\n{added}" in add_settings(PROFILE, "shop", "dev", SETTINGS)
    in_braces = "schema: shop, server_side_parameters: {spark.jars: /jars/e.jar, spark.sql.extensions: "
    assert in_braces in add_settings(PROFILE, "shop", "prod", SETTINGS)
    older = f"{PROFILE[: PROFILE.index('    prod')]}      server_side_parameters:  # ours\n        spark.jars: 'a.jar'\n        b: 1\n"
    # Jinja expressions in a list are kept.
    for jars in ("a.jar", '{{ env_var("A", "") }},{{ env_var("B", "") }}'):
        before = older.replace("a.jar", jars)
        found = add_settings(before, "shop", "dev", SETTINGS)
        assert found.startswith(older.replace("a.jar", f"{jars},/jars/e.jar"))
        assert found.count("\n") == before.count("\n") + 1
    with pytest.raises(ProfileError, match="no target `qa` in profile `shop`"):
        add_settings(PROFILE, "shop", "qa", SETTINGS)
