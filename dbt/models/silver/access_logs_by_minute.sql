-- Access logs by minute of the logs' own time, kept up by what landed since the last run.
--
-- A row has two times. `__time__` is when something happened, and people ask by it. `__receive_hour__` is
-- when the service got it, and the table grows by it. A phone that was offline sends its morning at noon. So
-- neither "minutes since the last run" nor "receive hours since the last one" is what changed: the first
-- misses late rows, the second misses rows that land later into an hour that was seen before.
--
-- What changed is said by the files. A run counts the landed table at one snapshot and writes which one into
-- its own commit. The next run takes the files that came and that left since then, reads their receive
-- hours, and counts each minute of their rows whole, over all receive hours.
--
--   run  landed since the last run                        counted anew            minute 09:10 has
--   1    09:10:05 and 09:10:40, received at 9             09:10                   2 logs
--   2    12:03:00, received at 12                         12:03                   2 logs, untouched
--   3    09:10:20, received at 12: three hours late       09:10, whole            3 logs
--   4    nothing                                          nothing                 3 logs
--   5    the receive hour 12 was taken back (undo)        09:10 and 12:03         2 logs; 12:03 is gone
--
-- So a backfill, a replace, an undo or a rollback needs nothing of anybody: their files came and left like
-- others. A compaction exchanges files, so its minutes are counted once more, to the same figures. After a
-- change of the figures below: `sls-lake dbt build --full-refresh --select access_logs_by_minute`.
--
-- A double may be nan or infinite, as the log says it: one such latency would be the whole day's mean and
-- maximum. So the figures are those of finite ones.
--
-- It reads the landed table and not the view, since a view cannot be read at a snapshot; it waits for the
-- view's tests: depends_on: {{ ref('stg_access_logs') }}
{% set latency = finite("latency_ms") %}
{{ by_minute(source('bronze', 'access_logs'), {
    "status_2xx": "count_if(status between 200 and 299)",
    "status_3xx": "count_if(status between 300 and 399)",
    "status_4xx": "count_if(status between 400 and 499)",
    "status_5xx": "count_if(status between 500 and 599)",
    "logs_with_latency": "count(" ~ latency ~ ")",
    "latency_ms_sum": "sum(" ~ latency ~ ")",
    "latency_ms_p95": "percentile(" ~ latency ~ ", 0.95)",
    "latency_ms_max": "max(" ~ latency ~ ")",
}) }}
