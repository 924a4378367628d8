{#
  Rows of a landed table, by logstore and shard, against its ledger (`macros/landed_ledger.sql`).
  Gaps, withdrawn hours and rows removed by decision are in the ledger's numbers already. Empty when
  all agree; else a row a shard, with a sentence in `problem`. `sls-lake verify` proves more: sums,
  twins, files, the service.

  `table` is the landed table; the model that the test stands on only decides when it runs.

  Story: the test reads the ledger, a landing commits, the test counts, and one landing is in only one
  of the two. So both heads are read at once, and the rows are those of the snapshot that was read.
#}
{% test as_the_ledger_says(model, table) %}
{%- set ledger = landed_ledger(table) -%}
with
expected (origin, shard, landed, adopted) as (
    select * from values
        {%- for key in (ledger.landed.keys() | list + ledger.adopted.keys() | list) | unique | sort %}
        ('{{ key[0] }}', {{ key[1] }}, {{ ledger.landed.get(key, 0) }}L, {{ ledger.adopted.get(key, 0) }}L),
        {%- endfor %}
        (cast(null as string), cast(null as int), 0L, 0L)
),
found as (
{%- if ledger.main is none %}
    select cast(null as string) as origin, cast(null as int) as shard, 0L as in_table
{%- else %}
    select __origin__ as origin, __shard__ as shard, count(*) as in_table
    from {{ table }} version as of {{ ledger.main }}
    group by __origin__, __shard__
{%- endif %}
),
shards as (
    select coalesce(found.origin, expected.origin) as origin,
           coalesce(found.shard, expected.shard) as shard,
           coalesce(landed, 0) as landed,
           coalesce(adopted, 0) as adopted,
           coalesce(in_table, 0) as in_table,
           coalesce(found.origin, expected.origin) in (
               '' {%- for origin in ledger.origins %}, '{{ origin }}'{% endfor -%}
           ) as has_ledger
    from found
    full outer join expected on found.origin = expected.origin and found.shard = expected.shard
)
select origin, shard, landed, adopted, in_table,
       concat(origin, ', shard ', shard, ': the table holds ', in_table, ' rows, the ledger ', landed,
              if(adopted > 0, concat(' and ', adopted, ' adopted'), '')) as problem
from shards
where has_ledger and in_table <> landed + adopted
union all
select null, null, 0L, {{ ledger.others }}L, sum(in_table),
       concat('the table holds ', sum(in_table), ' rows of logstores that have no ledger in it, ',
              '{{ ledger.others }} were adopted') as problem
from shards
where not coalesce(has_ledger, false)
having sum(in_table) <> {{ ledger.others }}
{%- for origin in ledger.damaged %}
union all
select '{{ origin }}', null, 0L, 0L, 0L,
       '{{ origin }}: its ledger is damaged, or of a later release than this test reads' as problem
{%- endfor %}
{% endtest %}
