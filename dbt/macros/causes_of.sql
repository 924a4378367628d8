{#
  The causes in the text of `__error__`, each once. A key that holds "; " is taken apart.

  A text names eight causes and how many more there are: `and 4 more`. As it stands that would be one cause
  for each number, so it counts as `more than 8 causes`: rows that may have any other cause, too.
#}
{% macro causes_of(column) -%}
array_distinct(transform(
    split({{ column }}, '; '),
    cause -> regexp_replace(cause, '^(of its group: )?and [0-9,]+ more$', '$1more than 8 causes')
))
{%- endmacro %}
