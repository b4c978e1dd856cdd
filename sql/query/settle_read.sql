-- The time below which no notification can still commit, and how many prepared transactions forbid to say
-- so (contracts/reader-api.md, *newer*). On the primary, as a member of pg_read_all_stats. $1 the
-- relation.
SELECT least(statement_timestamp(), min(coalesce(a.xact_start, a.backend_start))) AS bound,
       count(*) FILTER (WHERE l.pid IS NULL) AS prepared
FROM pg_locks l
LEFT JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'relation'
  AND l.mode = 'RowExclusiveLock'
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.relation = $1::text::regclass;
