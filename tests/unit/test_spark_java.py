"""What the options of a landing's Java make of it, as Java itself tells."""

import re
import subprocess

import pytest

from pipelines.landing.spark.java import OPTIONS, require_java
from tests import needs


def flags(*options: str) -> dict[str, str]:
    """Every flag of Java and its value, when it starts with these options."""
    command = [require_java().path, *options, "-XX:+PrintFlagsFinal", "-version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return dict(re.findall(r"^ *\S+ (\w+) += (\S*)", said, re.MULTILINE))


@pytest.mark.spark
def test_one_compiler_has_the_room_for_what_it_makes_that_both_have() -> None:
    needs.java()
    of_both, of_one = flags(), flags(*OPTIONS)
    assert (of_both["TieredStopAtLevel"], of_one["TieredStopAtLevel"]) == ("4", "1")
    assert int(of_one["ReservedCodeCacheSize"]) >= int(of_both["ReservedCodeCacheSize"]) > 48 << 20
    assert of_one["UseSerialGC"] == "true"
