{# The causes in the text of `__error__`, each once. A key that holds "; " is taken apart. #}
{% macro causes_of(column) -%}
array_distinct(split({{ column }}, '; '))
{%- endmacro %}
