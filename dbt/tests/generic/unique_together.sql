{# Rows that share all of `columns`; none must. One pass, and the answer names them. #}
{% test unique_together(model, columns) %}
select {{ columns | join(", ") }}, count(*) as copies
from {{ model }}
group by {{ columns | join(", ") }}
having count(*) > 1
{% endtest %}
