"""Iceberg's own REST catalog server on loopback: the servlet its project tests its clients with.

Its ready-made program listens on all interfaces, so the server is put together here, in a Java process
that is driven from this one and ends with it: a JDBC catalog, the servlet in front of it, and Jetty.
One process serves any number of catalogs, each on a port of its own.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from pipelines.landing.spark.session import require_jars
from tests.backends.jars import BACKEND_JARS, FOLDER
from tests.backends.kept import end

_ROOT = Path(__file__).parents[2]
_OF_SPARK = (
    *(
        "jackson-annotations",
        "jackson-core-2",
        "jackson-databind",
        "avro-1",
        "RoaringBitmap",
        "aircompressor",
    ),
    *("commons-codec", "commons-compress", "commons-lang3", "hadoop-client", "slf4j-api", "jcl-over-slf4j"),
    *("log4j-api", "log4j-core", "log4j-slf4j2", "py4j"),
)


class RestCatalogs:
    """The Java process; `new` starts a catalog in it."""

    def __init__(self) -> None:
        paths = _class_path()
        (bridge,) = (path for path in paths if path.name.startswith("py4j"))
        java_home = os.environ.get("JAVA_HOME")
        port, token, self._process = launch_gateway(
            jarpath=str(bridge),
            classpath=os.pathsep.join(map(str, paths)),
            javaopts=["-Xmx512m", "-Dlog4j2.level=OFF"],
            java_path=f"{java_home}/bin/java" if java_home else "java",
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
        )
        parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
        self._gateway = JavaGateway(gateway_parameters=parameters)
        self._servers: list[Any] = []

    def new(self, folder: Path, warehouse: str, properties: Mapping[str, str]) -> str:
        """A new catalog; its address. The properties go to its FileIO: it writes the table's metadata."""
        folder.mkdir(parents=True, exist_ok=True)
        java = self._gateway.jvm
        behind = java.org.apache.iceberg.CatalogUtil.buildIcebergCatalog(
            "behind",
            {
                "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
                "uri": f"jdbc:sqlite:{folder}/rest.sqlite?busy_timeout=30000&journal_mode=WAL",
                "jdbc.schema-version": "V1",
                "warehouse": warehouse,
                **properties,
            },
            java.org.apache.hadoop.conf.Configuration(),
        )
        servlet = java.org.apache.iceberg.rest.RESTCatalogServlet(
            java.org.apache.iceberg.rest.RESTCatalogAdapter(behind)
        )
        server = java.org.eclipse.jetty.server.Server(java.java.net.InetSocketAddress("127.0.0.1", 0))
        context = java.org.eclipse.jetty.ee10.servlet.ServletContextHandler()
        context.addServlet(java.org.eclipse.jetty.ee10.servlet.ServletHolder(servlet), "/*")
        server.setHandler(context)
        server.start()
        self._servers.append(server)
        return f"http://127.0.0.1:{server.getURI().getPort()}"

    @contextmanager
    def down(self) -> Iterator[None]:
        """The newest catalog is not there for a while; it comes back under the same address."""
        server = self._servers[-1]
        connector = server.getConnectors()[0]
        port = connector.getLocalPort()
        server.stop()
        try:
            yield
        finally:
            connector.setPort(port)
            server.start()

    def end(self) -> None:
        """End the process and all catalogs."""
        self._gateway.shutdown()
        end(self._process)


def _class_path() -> list[Path]:
    """Jetty and the catalog before Spark's jars, which bring an older servlet interface."""
    folder = _ROOT / FOLDER
    fetched = [folder / jar.name for jar in BACKEND_JARS]
    missing = [path.name for path in fetched if not path.is_file()]
    if missing:
        raise RuntimeError(
            f"{missing[0]} is not in {FOLDER}: run `make test`, or `python -m tests.backends.jars`, once"
        )
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    spark = sorted((Path(spec.origin).parent / "jars").glob("*.jar"))
    return [
        *fetched,
        *(path for path in require_jars() if path.name.startswith("sqlite-jdbc")),
        *(path for path in spark if path.name.startswith(_OF_SPARK)),
    ]
