"""Which archives of Spark's leave Python's path in a worker, and which stay."""

from pathlib import Path

import pytest

from pipelines.landing.spark.python_path import without_archives


def installed(folder: Path, *names: str) -> list[str]:
    """The three archives that Spark puts on the path, of one in `folder` with these packages beside it."""
    for name in names:
        (folder / name).mkdir(parents=True)
    spark = folder / "pyspark"
    return [
        str(spark / "python" / "lib" / "pyspark.zip"),
        str(spark / "python" / "lib" / "py4j-0.10.9.9-src.zip"),
        str(spark / "jars" / "spark-core_2.13-4.0.5.jar"),
    ]


def test_archives_of_the_installed_spark_leave_and_all_else_stays_in_its_order(tmp_path: Path) -> None:
    archives = installed(tmp_path, "pyspark", "py4j")
    others = ["", "/project", "/usr/lib/python311.zip", str(tmp_path / "pyspark" / "mine.zip"), str(tmp_path)]
    assert without_archives([*archives, *others]) == others


@pytest.mark.parametrize("packages", [("pyspark",), ("py4j",), ()])
def test_archives_stay_where_not_all_that_is_in_them_is_installed(
    tmp_path: Path, packages: tuple[str, ...]
) -> None:
    path = [*installed(tmp_path, *packages), str(tmp_path)]
    assert without_archives(path) == path


def test_archives_of_another_spark_than_the_one_on_the_path_stay(tmp_path: Path) -> None:
    installed(tmp_path / "ours", "pyspark", "py4j")
    path = [*installed(tmp_path / "other", "pyspark", "py4j"), str(tmp_path / "ours")]
    assert without_archives(path) == path
