# One image for every part: Dagster's webserver, daemon and code servers, the Spark Connect server, and Spark's
# executors, which need the same packages. It holds no settings and no secrets; docs/deploy/containers.md says
# which steps were run.

FROM debian:bookworm-slim AS base
# tini is process 1: it hands signals on, and collects what runs and Spark's workers leave.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates openjdk-17-jre-headless python3 tini \
    && rm -rf /var/lib/apt/lists/*
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1

FROM base AS packages
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/sls-lake
COPY pyproject.toml constraints.txt ./
# Without the packages of development. Class archives know Spark's jars by their times, and a layer keeps whole
# seconds only. Bytecode is made here, since nobody may write it later.
RUN python3 -m venv /opt/venv \
    && pip install --no-cache-dir -c constraints.txt uv \
    && SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt UV_LINK_MODE=copy \
        uv pip install --no-cache --compile-bytecode --python /opt/venv/bin/python -c constraints.txt \
        -r pyproject.toml --extra dbt setuptools \
    && pip uninstall -y --quiet uv \
    && find /opt/venv -name '*.jar' -exec touch -d @1767225600 {} +
# The jars: from Maven Central by Spark's own resolver, each by its sha256. --build-arg S3=s3 brings the one that
# Spark's SQL and dbt need for a warehouse on S3, too.
ARG S3=
COPY pipelines/__init__.py pipelines/
COPY pipelines/landing/__init__.py pipelines/landing/
COPY pipelines/landing/spark/__init__.py pipelines/landing/spark/jars.py pipelines/landing/spark/
COPY sls_io sls_io
RUN python -m pipelines.landing.spark.jars var/jars $S3 && rm -rf var/jars/ivy

FROM base
# Spark on Kubernetes runs as this number, too, unless it is told another.
RUN useradd --uid 10001 --create-home --home-dir /var/lib/sls-lake sls \
    && mkdir /opt/sls-lake /opt/sls-lake/var /var/lib/dagster \
    && chown sls:sls /opt/sls-lake/var /var/lib/dagster
COPY --from=packages /opt/venv /opt/venv
COPY --from=packages /opt/sls-lake/var/jars /opt/sls-lake/var/jars
WORKDIR /opt/sls-lake
COPY . .
RUN pip install --no-cache-dir --no-deps --no-build-isolation --quiet -e . \
    && python -m compileall -q sls_io pipelines
USER 10001
ENV DAGSTER_HOME=/var/lib/dagster \
    SLS_LAKE_HOME=/var/lib/sls-lake \
    PYTHONPATH=/opt/sls-lake \
    PYSPARK_PYTHON=/opt/venv/bin/python \
    DAGSTER_DISABLE_TELEMETRY=yes \
    DO_NOT_TRACK=1
# The class archive of a landing's Java, and dbt's manifest: what a first run would wait for. A container that
# builds need not know its own name, which Spark would ask for.
RUN { SPARK_LOCAL_HOSTNAME=localhost python -m pipelines.landing.spark.record \
        || { cat var/cache/java/record.log; false; }; } \
    && python -c 'import pipelines.models' \
    && rm -rf "$SLS_LAKE_HOME"/*
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/sls-lake/docs/deploy/entrypoint"]
CMD ["sls-lake", "--help"]
