-- Access logs by day, cut in the time zone of the variable `timezone`: `--vars '{timezone: Asia/Shanghai}'`,
-- or for good in dbt_project.yml. Built anew from the minutes, 1,440 a day, so late rows need no care here.
select
    to_date(from_utc_timestamp(minute, '{{ var("timezone") }}')) as day,
    sum(logs) as logs,
    sum(logs_with_error) as logs_with_error,
    sum(logs_without_time) as logs_without_time,
    sum(status_2xx) as status_2xx,
    sum(status_3xx) as status_3xx,
    sum(status_4xx) as status_4xx,
    sum(status_5xx) as status_5xx,
    {{ finite("sum(latency_ms_sum)") }} / nullif(sum(logs_with_latency), 0) as latency_ms_mean,
    max(latency_ms_max) as latency_ms_max,
    count(*) as minutes_with_logs,
    max(logs) as logs_of_busiest_minute
from {{ ref('access_logs_by_minute') }}
group by 1
