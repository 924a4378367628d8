{#
  After a run: the sentences of tests that failed. dbt itself says how many rows a test found, not
  what they say. Only tests with a column `problem` have sentences.
#}
{% macro say_problems(results) %}
{%- if execute -%}
{%- for result in results if result.status == "fail" and "as problem" in (result.node.compiled_code or "") -%}
{%- set found = run_query("select problem from (" ~ result.node.compiled_code ~ ") limit 20") -%}
{%- for row in found.rows -%}{%- do log(result.node.name ~ ": " ~ row[0], info=true) -%}{%- endfor -%}
{%- endfor -%}
{%- endif -%}
{% endmacro %}
