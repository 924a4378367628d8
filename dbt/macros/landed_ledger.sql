{#
  What the ledger of a landed table says: the snapshot of `main`, and of the snapshot under the tag
  `sls-lake` the rows of every logstore and shard that landed or were adopted.

    main              id of the newest snapshot, none for a table without any
    landed, adopted   {(origin, shard): rows}
    origins           the logstores that have a ledger
    others            rows adopted that are of no logstore of the table
    damaged           logstores whose ledger this release cannot read

  The text is version 1, numbers in base 36: a ledger is `1;<shards>;<shard>;...` with shards
  `id:start:landed:gaps:withdrawn:end:reached:rows:sum`, what was adopted is
  `1;<others>;<origin>:<shard>:<rows>:<sum>;...`. In version 2 each shard has one more field behind
  these: of a ledger since when it is suspected to be gone, of adopted rows how many were missing.
#}
{% macro landed_ledger(table) %}
{%- set said = {"main": none, "landed": {}, "adopted": {}, "origins": [], "others": 0, "damaged": []} -%}
{%- if execute -%}
{%- set heads -%}
select refs.name, cast(refs.snapshot_id as string), to_json(snapshots.summary)
from {{ table }}.refs as refs
join {{ table }}.snapshots as snapshots on snapshots.snapshot_id = refs.snapshot_id
where refs.name in ('main', 'sls-lake')
{%- endset -%}
{%- for name, snapshot, summary in run_query(heads).rows -%}
{%- if name == "main" -%}{%- do said.update({"main": snapshot}) -%}{%- endif -%}
{%- if name == "sls-lake" -%}
{%- for key, text in fromjson(summary).items() -%}
{%- set parts = text.split(";") -%}
{%- if key.startswith("sls-lake.ledger.") -%}
{%- set origin = key[16:] -%}
{%- do said.origins.append(origin) -%}
{%- if parts[0] not in ("1", "2") or parts[1] | int(-1, 36) != parts[2:] | length -%}
{%- do said.damaged.append(origin) -%}
{%- else -%}
{%- for shard in parts[2:] -%}
{%- set fields = shard.split(":") -%}
{%- do said.landed.update({(origin, fields[0] | int(-1, 36)): fields[7] | int(-1, 36)}) -%}
{%- endfor -%}
{%- endif -%}
{%- elif key == "sls-lake.adopted" -%}
{%- do said.update({"others": parts[1] | int(-1, 36)}) -%}
{%- for shard in parts[2:] -%}
{%- set fields = shard.split(":") -%}
{%- do said.adopted.update({(fields[0], fields[1] | int(-1, 36)): fields[2] | int(-1, 36)}) -%}
{%- endfor -%}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{{ return(said) }}
{% endmacro %}
