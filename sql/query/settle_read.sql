-- For notifications and each relation that belfry_stamp stamps: the time below which no row of it can still commit,
-- and how many prepared transactions forbid to say so (contracts/reader-api.md, *newer*). On the primary, as a
-- member of pg_read_all_stats. A partitioned relation is written through its partitions too. Only the catalog is
-- read, without a lock: a relation that is being changed or dropped holds up nothing here.
WITH RECURSIVE written (feed, relation) AS (
    (SELECT 'notifications', 'notifications'::regclass::oid
     UNION ALL
     SELECT feed, relation FROM belfry_stamped)
    UNION ALL
    SELECT w.feed, i.inhrelid FROM written AS w JOIN pg_inherits AS i ON i.inhparent = w.relation
)
SELECT w.feed, least(statement_timestamp(), min(coalesce(a.xact_start, a.backend_start))) AS bound,
       count(*) FILTER (WHERE l.locktype IS NOT NULL AND l.pid IS NULL) AS prepared
FROM written AS w
LEFT JOIN pg_locks AS l
    ON l.locktype = 'relation'
   AND l.mode = 'RowExclusiveLock'
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND l.relation = w.relation
LEFT JOIN pg_stat_activity AS a USING (pid)
GROUP BY w.feed
ORDER BY w.feed <> 'notifications', w.feed;
