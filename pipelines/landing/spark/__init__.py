"""Spark made ready: its jars, its session, the lake's catalog in its words.

In: the settings of the lake.
Out: a session, jars on disk, the environment of dbt.
May touch: the jars' folder, the JVM. Nobody else imports pyspark.
"""
