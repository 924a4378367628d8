-- Rows of access_logs that cannot be represented exactly, with the causes apart. The log's bytes are in
-- `__raw__` of the landed table, at the same identity.
select
    __origin__,
    __shard__,
    __cursor__,
    __index__,
    receive_hour,
    logged_at,
    {{ causes_of("error") }} as causes,
    error,
    rest
from {{ ref('stg_access_logs') }}
where error is not null
