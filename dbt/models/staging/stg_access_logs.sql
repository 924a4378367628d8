-- Landed access_logs under names that people type. A view: it is as fresh as the table, and the
-- identity of a row goes through unchanged.
select
    __origin__,
    __shard__,
    __cursor__,
    __index__,
    __receive_hour__ as receive_hour,
    __time__ as logged_at,
    __topic__ as topic,
    __source__ as source,
    __tags__ as tags,
    `status`,
    `latency_ms`,
    __rest__ as rest,
    __error__ as error
from {{ source('bronze', 'access_logs') }}
