{# The newest snapshot of a table, none where it has none yet. #}
{% macro main_snapshot(table) %}
{%- if execute -%}
{%- for row in run_query("select snapshot_id from " ~ table ~ ".refs where name = 'main'").rows -%}
{{ return(row[0] | int) }}
{%- endfor -%}
{%- endif -%}
{{ return(none) }}
{% endmacro %}


{#
  The snapshot of the landed table that a model has counted, none where it does not say: of the newest
  commit in the model's own history that was one of ours. Somebody else's, a compaction, says nothing.
#}
{% macro read_snapshot(model) %}
{%- if execute -%}
{%- set said -%}
select max_by(s.summary['sls-lake.read'], h.made_current_at)
from {{ model }}.history as h join {{ model }}.snapshots as s on s.snapshot_id = h.snapshot_id
where h.is_current_ancestor and s.summary['sls-lake.read'] is not null
{%- endset -%}
{%- for row in run_query(said).rows if row[0] is not none -%}{{ return(row[0] | int) }}{%- endfor -%}
{%- endif -%}
{{ return(none) }}
{% endmacro %}


{# Whether a table still has a snapshot, and so can be read at it. #}
{% macro is_kept(table, snapshot) %}
{%- if execute and snapshot is not none -%}
{%- set asked = "select count(*) from " ~ table ~ ".snapshots where snapshot_id = " ~ snapshot -%}
{{ return(run_query(asked).rows[0][0] > 0) }}
{%- endif -%}
{{ return(false) }}
{% endmacro %}


{# From here on the commits of this session say which snapshot they have read; `none` ends it. #}
{% macro say_what_is_read(snapshot) %}
{%- if execute -%}
{%- set setting = "`spark.sql.iceberg.snapshot-property.sls-lake.read`" -%}
{%- do run_query("reset " ~ setting if snapshot is none else "set " ~ setting ~ " = `" ~ snapshot ~ "`") -%}
{%- endif -%}
{% endmacro %}


{#
  The minutes of rows in files that came or left between two snapshots of a landed table; none where that
  cannot be said and all minutes must be counted.

    ranges  [(first, last)] minutes since 1970, both included; over 200 ranges neighbours are joined
    gone    whether files left: then minutes may have lost their last row

  The rows of files that came are read; their receive hours, by the files' statistics, say in which
  partitions they are. Files that left may be lost, so of them only the statistics are asked: all minutes
  from the first to the last of a file.
#}
{% macro touched_minutes(table, before, head) %}
{%- if before == head -%}{{ return({"ranges": [], "gone": false}) }}{%- endif -%}
{%- if not is_kept(table, before) -%}{{ return(none) }}{%- endif -%}
{%- set came -%}
select file_path, readable_metrics.__receive_hour__ as hours
from {{ table }}.files version as of {{ head }}
left anti join (select file_path from {{ table }}.files version as of {{ before }}) using (file_path)
{%- endset -%}
{%- set left -%}
select readable_metrics.__receive_hour__ as hours, readable_metrics.__time__ as times
from {{ table }}.files version as of {{ before }}
left anti join (select file_path from {{ table }}.files version as of {{ head }}) using (file_path)
{%- endset -%}
{%- set bounds = [] -%}
{%- for name in ("hours", "times") -%}
{%- do bounds.extend([minute_of(name ~ ".lower_bound"), minute_of(name ~ ".upper_bound")]) -%}
{%- endfor -%}
{%- set new_hours, ranges, gone = [], [], [] -%}
{%- set asked = "select distinct " ~ bounds[:2] | join(", ") ~ " from (" ~ came ~ ")" -%}
{%- for first, last in run_query(asked).rows -%}
{%- if first is none or last is none -%}{{ return(none) }}{%- endif -%}
{%- do new_hours.append((first | int, last | int)) -%}
{%- endfor -%}
{%- do bounds.append("times.null_value_count > 0") -%}
{%- set asked = "select distinct " ~ bounds | join(", ") ~ " from (" ~ left ~ ")" -%}
{%- for first_hour, last_hour, first, last, timeless in run_query(asked).rows -%}
{%- if first_hour is none or last_hour is none or timeless is none -%}{{ return(none) }}{%- endif -%}
{%- if not timeless and first is none -%}{{ return(none) }}{%- endif -%}
{%- do gone.append(true) -%}
{%- if first is not none -%}{%- do ranges.append((first | int, last | int)) -%}{%- endif -%}
{%- if timeless -%}{%- do ranges.append((first_hour | int, last_hour | int)) -%}{%- endif -%}
{%- endfor -%}
{%- if new_hours -%}
{%- set minutes -%}
select min(minute), max(minute)
from (
    select minute, minute - row_number() over (order by minute) as run
    from (
        select distinct {{ minute_of() }} as minute
        from {{ table }} version as of {{ head }}
        where ({{ within("__receive_hour__", few(new_hours)) }})
          and _file in (select file_path from ({{ came }}))
    )
)
group by run
{%- endset -%}
{%- for first, last in run_query(minutes).rows -%}
{%- do ranges.append((first | int, last | int)) -%}
{%- endfor -%}
{%- endif -%}
{{ return({"ranges": few(ranges), "gone": gone | length > 0}) }}
{% endmacro %}


{# Ranges joined with those near them until there are at most 200: Spark reads each as a comparison. #}
{% macro few(ranges) %}
{%- set found = namespace(ranges=ranges | sort) -%}
{%- for apart in (60, 1440, 525600, 100000000) if found.ranges | length > 200 -%}
{%- set joined = [] -%}
{%- for first, last in found.ranges -%}
{%- if joined and first - joined[-1][1] <= apart -%}
{%- do joined.append((joined[-1][0], [last, joined.pop()[1]] | max)) -%}
{%- else -%}
{%- do joined.append((first, last)) -%}
{%- endif -%}
{%- endfor -%}
{%- set found.ranges = joined -%}
{%- endfor -%}
{{ return(found.ranges) }}
{% endmacro %}
