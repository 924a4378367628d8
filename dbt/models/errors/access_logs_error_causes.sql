-- How many rows have which cause, and when: the cause that costs most rows first.
select
    cause,
    count(*) as logs,
    min(receive_hour) as first_receive_hour,
    max(receive_hour) as last_receive_hour
from (select explode(causes) as cause, receive_hour from {{ ref('access_logs_error_rows') }})
group by cause
order by logs desc, cause
