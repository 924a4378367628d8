"""Python's path in the workers of a landing's Spark, without the archives that Spark puts on it.

Spark names itself there as two zip files and a jar of Java's, before the packages that are installed. What
Python imports from an archive it compiles anew in each process (0.8 s of CPU), and before each task it reads
the whole list of each archive again (0.15 s, most of it for the jar, which holds no Python at all). Where the
packages beside these archives are on the path, too, they are the same Spark, and the archives are left out.
"""

from pathlib import Path

_PLACES = {".zip": ("pyspark", "python", "lib"), ".jar": ("pyspark", "jars")}
"""Where Spark's own archives lie in the folder of installed packages."""


def without_archives(path: list[str]) -> list[str]:
    """Python's `path` without the archives of a Spark whose installed packages are on it."""
    return [entry for entry in path if not _is_installed_beside(Path(entry), path)]


def _is_installed_beside(archive: Path, path: list[str]) -> bool:
    place = _PLACES.get(archive.suffix, ())
    if not place or archive.parts[-len(place) - 1 : -1] != place:
        return False
    packages = archive.parents[len(place)]
    return str(packages) in path and all((packages / name).is_dir() for name in ("pyspark", "py4j"))
