{#
  The rows of a landed table at the snapshot that a model by minute has counted, against the sum of its
  counts. Landings go on meanwhile, so the newest rows would be another number.
#}
{% test counts_every_row(model, table) %}
{%- set counted = read_snapshot(model) -%}
{%- if is_kept(table, counted) -%}
select concat('the minutes count ', in_minutes, ' rows, the landed table had ', in_table,
              ' at snapshot {{ counted }}; count all anew: sls-lake dbt build --full-refresh --select ',
              '{{ model.identifier }}+') as problem
from (
    select (select coalesce(sum(logs), 0) from {{ model }}) as in_minutes,
           (select count(*) from {{ table }} version as of {{ counted }}) as in_table
)
where in_minutes <> in_table
{%- else -%}
select 'which snapshot it has counted is not said, or that one is expired: build it' as problem
from {{ model }} limit 1
{%- endif -%}
{% endtest %}
