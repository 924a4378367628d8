{#
  dbt's MERGE for Iceberg, and with `gone` in a model's meta (a condition on what is merged) rows that
  are gone are deleted in the same commit. dbt itself knows no deletes in a merge.
#}
{% macro spark__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates) %}
{%- set gone = config.get("meta", {}).get("gone") -%}
{%- set keys = [unique_key] if unique_key is string else unique_key or [] -%}
{%- set on = (incremental_predicates or []) + ([] if keys else ["false"]) -%}
{%- for key in keys -%}{%- do on.append("theirs." ~ key ~ " = ours." ~ key) -%}{%- endfor -%}
merge into {{ target }} as ours
using {{ source }} as theirs
on {{ on | join(" and ") }}
{%- if gone %}
when matched and theirs.{{ gone }} then delete
{%- endif %}
when matched then update set *
when not matched {% if gone %}and not theirs.{{ gone }} {% endif %}then insert *
{% endmacro %}
