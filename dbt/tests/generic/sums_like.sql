{# Sums of columns, against the sums of the same columns of another model. #}
{% test sums_like(model, other, columns) %}
select *
from (
    select 1
    {%- for column in columns %},
        (select coalesce(sum({{ column }}), 0) from {{ model }}) as {{ column }},
        (select coalesce(sum({{ column }}), 0) from {{ other }}) as {{ column }}_there
    {%- endfor %}
)
where false {%- for column in columns %} or {{ column }} <> {{ column }}_there{% endfor %}
{% endtest %}
