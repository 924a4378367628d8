"""The jars of the Iceberg REST server that tests start: the catalog's own test server, and Jetty.

Everything else it needs is among Spark's jars already. `make test` fetches them into a folder of their
own, so that no Spark session of a user loads them.

    python -m tests.backends.jars FOLDER
"""

import sys
from pathlib import Path

from pipelines.landing.spark.jars import S3_JARS, Jar, main
from pipelines.landing.spark.session import require_jars

FOLDER = "var/jars/backends"
_ICEBERG = "1.11.0"
_JETTY = "12.1.5"

BACKEND_JARS = (
    *S3_JARS,
    Jar(
        "org.apache.iceberg",
        "iceberg-core",
        _ICEBERG,
        "53b9eb7a8c34fb9958ea7d9a4d19ba5bc96f592d0f05e8625b0778c70b1f0090",
    ),
    Jar(
        "org.apache.iceberg",
        "iceberg-core",
        _ICEBERG,
        "4284719a5f0eb7db01e9f784a0ed4ca8bacf7d6f9951924143afc083428d8be3",
        "tests",
    ),
    Jar(
        "org.apache.iceberg",
        "iceberg-api",
        _ICEBERG,
        "f00675a12ceb6d833bb9c22024823a3e7afdedf7abcefe34719f45b0d211995a",
    ),
    Jar(
        "org.apache.iceberg",
        "iceberg-common",
        _ICEBERG,
        "b2835d00db7c92bdfa728123ad7cdcb488e2f2805c1c51fb9ae94e8bd203bd7d",
    ),
    Jar(
        "org.apache.iceberg",
        "iceberg-bundled-guava",
        _ICEBERG,
        "396d48d93ef5735f2ddef0cf9b3d6968ebd67b64b5cfe753d41c429d3f46a2a1",
    ),
    Jar(
        "org.apache.iceberg",
        "iceberg-aws",
        _ICEBERG,
        "4cfe4a7ba3a4fb247a29e60c614678c3b7a1e9b4b91f54e0ca3406419c9338f0",
    ),
    Jar(
        "dev.failsafe",
        "failsafe",
        "3.3.2",
        "2c5dc879a6dac7ea3a7b29d795e27bd49b8e7908b05c2f3e56053c19d79850f5",
    ),
    Jar(
        "com.github.ben-manes.caffeine",
        "caffeine",
        "2.9.3",
        "1e0a7bbef1dd791653143f3f05d0e489934bf5481e58a87c9e619cd46b68729b",
    ),
    Jar(
        "org.apache.httpcomponents.client5",
        "httpclient5",
        "5.6",
        "0992b7dd57fbfc8334df2201e1788a2752ff11b6a638f5ce521915bef72ca4ad",
    ),
    Jar(
        "org.apache.httpcomponents.core5",
        "httpcore5",
        "5.4",
        "cec2981fa7f520efb63f0787c24f10af2679e31f9f75c448c4dde40a3ae8100d",
    ),
    Jar(
        "org.apache.httpcomponents.core5",
        "httpcore5-h2",
        "5.4",
        "2e0f4ace15db2d1609c2b06eca6012e7582afe4a99ad8d15073f62dd8edb3460",
    ),
    Jar(
        "jakarta.servlet",
        "jakarta.servlet-api",
        "6.0.0",
        "c034eb1afb158987dbb53a5fea0cadf611c8dae8daadd59c44d9d5ab70129cef",
    ),
    Jar(
        "org.eclipse.jetty",
        "jetty-server",
        _JETTY,
        "e0964741f132de3bdb48ca59c4b9bb8555f966d46b660c8c88f1e157cedbaa02",
    ),
    Jar(
        "org.eclipse.jetty",
        "jetty-http",
        _JETTY,
        "20a6f605e802789990855b81f75dadfa8ab152e81713080c295c333d7cce7daa",
    ),
    Jar(
        "org.eclipse.jetty",
        "jetty-io",
        _JETTY,
        "9c388018412d9bd9a1b9c35ca373e25fd845706f82549f2a7039ae9fefb45e69",
    ),
    Jar(
        "org.eclipse.jetty",
        "jetty-util",
        _JETTY,
        "3b165498c1409db1a2463c367250c9225635cf68cd4529fbb0610324942bbc07",
    ),
    Jar(
        "org.eclipse.jetty",
        "jetty-session",
        _JETTY,
        "ebe4f30c6fe7656294d884e1dc8eea4c77b6c861e3c010847a76fd78164ae166",
    ),
    Jar(
        "org.eclipse.jetty",
        "jetty-security",
        _JETTY,
        "9972b67058ad7a58a0517cd14502e67e2e1071c74b00f51c6487518f0bfdc02e",
    ),
    Jar(
        "org.eclipse.jetty.ee10",
        "jetty-ee10-servlet",
        _JETTY,
        "ffd35e86226246c8a57ade503fae733b37e687844c726f63f02c6e5fa9220ace",
    ),
    Jar(
        "org.eclipse.jetty.ee",
        "jetty-ee-webapp",
        _JETTY,
        "520f82e932e7dee3b7d2bc4207c0b287815247d6c813df01a054cf3517a08982",
    ),
)
"""`iceberg-core`'s own tests hold the servlet that answers as a REST catalog for any other catalog."""


def jars_of(folder: Path) -> Path:
    """The jars that a user has, and the one that SQL on S3 needs."""
    jars = folder / "jars"
    jars.mkdir()
    for path in (*require_jars(), *Path(FOLDER).absolute().glob("iceberg-aws-bundle-*.jar")):
        (jars / path.name).symlink_to(path)
    return jars


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else FOLDER, BACKEND_JARS))
