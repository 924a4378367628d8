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

  A file's rows are of the receive hours between its smallest and largest, by the file's statistics.
#}
{% macro touched_minutes(table, before, head) %}
{%- if before == head -%}{{ return({"ranges": [], "gone": false}) }}{%- endif -%}
{%- if not is_kept(table, before) -%}{{ return(none) }}{%- endif -%}
{%- set changed -%}
with old as (select * from {{ table }}.files version as of {{ before }}),
     new as (select * from {{ table }}.files version as of {{ head }}),
     changed as (
         select 'came' as how, file_path, readable_metrics.__receive_hour__ as hours
         from new left anti join old using (file_path)
         union all
         select 'left', file_path, readable_metrics.__receive_hour__
         from old left anti join new using (file_path)
     )
{%- endset -%}
{%- set sides = {"came": [], "left": []} -%}
{%- set hours -%}
{{ changed }}
select distinct how, unix_seconds(hours.lower_bound) div 60, unix_seconds(hours.upper_bound) div 60
from changed
{%- endset -%}
{%- for how, first, last in run_query(hours).rows -%}
{%- if first is none or last is none -%}{{ return(none) }}{%- endif -%}
{%- do sides[how].append((first | int, last | int)) -%}
{%- endfor -%}
{%- if not sides.came and not sides.left -%}{{ return({"ranges": [], "gone": false}) }}{%- endif -%}
{%- set minutes -%}
{{ changed }},
touched as (
{%- for how, snapshot in (("came", head), ("left", before)) if sides[how] %}
{{ "union" if loop.index > 1 }}
select distinct {{ minute_of() }} as minute
from {{ table }} version as of {{ snapshot }}
where ({{ within("__receive_hour__", few(sides[how])) }})
  and _file in (select file_path from changed where how = '{{ how }}')
{%- endfor %}
)
select min(minute), max(minute)
from (select minute, minute - row_number() over (order by minute) as run from touched)
group by run
order by 1
{%- endset -%}
{%- set ranges = [] -%}
{%- for first, last in run_query(minutes).rows -%}
{%- do ranges.append((first | int, last | int)) -%}
{%- endfor -%}
{{ return({"ranges": few(ranges), "gone": sides.left | length > 0}) }}
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
