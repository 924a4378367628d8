{#
  A table by minute over a landed table: one row for each minute of the logs' own time, `__time__`.

    table    the landed table, as source(...)
    figures  {column: aggregate over the columns of the landed table}, beside the four that are always there;
             of a float or double `finite` first, or one log with `nan` makes it nan

    minute                  start of the minute; a log without a time of its own counts in the first one of
                            its receive hour
    logs                    rows of the minute, never 0
    logs_with_error         of them not represented exactly (`__error__`)
    logs_without_time       of them without a time of their own
    last_receive_hour       the newest receive hour that has a row of the minute: later than the minute's
                            own hour where rows came late
    snapshot_id             snapshot of the landed table at which the minute was last counted

  How a run knows what to count (models/silver/access_logs_by_minute.sql has the worked example):

  1. It reads the landed table at one snapshot, and its own commit says at which: rows and position are
     one commit, so a run that dies leaves both or neither.
  2. The next run takes the data files of the landed table then and now. Those that came and those that
     left are what changed, whoever did it: a landing, a backfill, an undo, a replace, a rollback. The
     receive hours of those that came say which partitions are read. A file that left is never read: it
     may be lost.
  3. The minutes of the rows in files that came, and those from the first to the last row of a file that
     left, are touched, and these minutes are counted whole.
  4. The result is merged: a minute is updated, added, or deleted where no row of it is left.

  Where the snapshot of the last run is gone (expired: the newest 200 are kept), a file has no statistics,
  or no snapshot of the model says any more what its last run has read (expired behind a compaction), all
  minutes are counted and merged, and those that are there and not among them are deleted. It is slower and
  right.
#}
{% macro by_minute(table, figures={}) %}
{%- set head = main_snapshot(table) -%}
{%- set merged = execute and is_incremental() -%}
{%- set before = read_snapshot(this) if merged else none -%}
{%- set touched = touched_minutes(table, before, head) if before is not none else none -%}
{%- do say_what_is_read(head) -%}
{%- set gone = merged and (touched is none or touched.gone) -%}
with logs as (
    select *, {{ minute_of() }} as __minute__
    from {{ table }}{% if head is not none %} version as of {{ head }}{% endif %}
    where {{ in_minutes(touched) }}
),
counted as (
    select
        timestamp_seconds(__minute__ * 60) as minute,
        count(*) as logs,
        count(__error__) as logs_with_error,
        count(*) - count(__time__) as logs_without_time,
        {%- for name, figure in figures.items() %}
        {{ figure }} as {{ name }},
        {%- endfor %}
        max(__receive_hour__) as last_receive_hour,
        cast({{ head if head is not none else "null" }} as bigint) as snapshot_id
    from logs
    group by __minute__
)
{%- if gone %},
there as (
    select minute from {{ this }}
    {%- if touched is not none %} where {{ within("minute", touched.ranges) }}{% endif %}
)
select
    coalesce(counted.minute, there.minute) as minute,
    coalesce(logs, 0) as logs,
    logs_with_error,
    logs_without_time,
    {%- for name in figures %}
    {{ name }},
    {%- endfor %}
    last_receive_hour,
    snapshot_id
from counted full outer join there on counted.minute = there.minute
{%- else %}
select * from counted
{%- endif %}
{% endmacro %}


{# A float or double, null where it is nan or infinite: to Spark nan is greater than all. #}
{% macro finite(value) -%}
case when {{ value }} < double('infinity') and {{ value }} > double('-infinity') then {{ value }} end
{%- endmacro %}


{# Minutes since 1970 of a moment, in no time zone; as it stands, that of a row of the landed table. #}
{% macro minute_of(moment="coalesce(__time__, __receive_hour__)") -%}
unix_micros({{ moment }}) div 60000000
{%- endmacro %}


{# Rows of the landed table in the touched minutes; all of them where `touched` is none. #}
{% macro in_minutes(touched) -%}
{%- if touched is none -%} true
{%- elif not touched.ranges -%} false
{%- else -%}
({{ within("__time__", touched.ranges) }})
    or (__time__ is null and ({{ within("__receive_hour__", touched.ranges) }}))
{%- endif -%}
{%- endmacro %}


{# Ranges of minutes, both ends included, as comparisons by which Iceberg leaves files out. #}
{% macro within(column, ranges) -%}
{%- for first, last in ranges -%}
{{ " or " if not loop.first -}}
{{ column }} >= timestamp_seconds({{ first * 60 }})
    and {{ column }} < timestamp_seconds({{ (last + 1) * 60 }})
{%- endfor -%}
{%- if not ranges -%} false {%- endif -%}
{%- endmacro %}
