{# A model's schema is the one that is named, not the profile's with the name behind it. #}
{% macro generate_schema_name(custom_schema_name, node) -%}
{{ custom_schema_name | trim if custom_schema_name else target.schema }}
{%- endmacro %}
