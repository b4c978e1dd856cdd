-- For notifications and each relation that belfry_stamp stamps: the time below which no row of it can still commit,
-- and how many prepared transactions forbid to say so (contracts/reader-api.md, *newer*). On the primary, as a
-- member of pg_read_all_stats. A partitioned relation is written through its partitions too. Only the catalog is
-- read, without a lock: a relation that is being changed or dropped holds up nothing here.
-- Who is in which transaction is read before who holds a lock, and the OFFSET keeps it so: read after, a session that
-- had prepared its transaction in between and begun another would show the other's start for the first one's lock.
-- Read before, it can only show an earlier transaction's start, or none (it began after this statement).
WITH RECURSIVE written (feed, relation) AS (
    (SELECT 'notifications', 'notifications'::regclass::oid
     UNION ALL
     SELECT feed, relation FROM belfry_stamped)
    UNION ALL
    SELECT w.feed, i.inhrelid FROM written AS w JOIN pg_inherits AS i ON i.inhparent = w.relation
)
SELECT h.feed, least(statement_timestamp(), min(h.since)) AS bound,
       count(*) FILTER (WHERE h.locktype IS NOT NULL AND h.pid IS NULL) AS prepared
FROM (SELECT array_agg(pid) AS pids, array_agg(coalesce(xact_start, backend_start)) AS since
      FROM pg_stat_activity) AS a
CROSS JOIN LATERAL (
    SELECT w.feed, l.locktype, l.pid, a.since[array_position(a.pids, l.pid)] AS since
    FROM written AS w
    LEFT JOIN pg_locks AS l
        ON l.locktype = 'relation'
       AND l.mode = 'RowExclusiveLock'
       AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND l.relation = w.relation
    OFFSET CASE WHEN a.pids IS NULL THEN 1 ELSE 0 END
) AS h
GROUP BY h.feed
ORDER BY h.feed <> 'notifications', h.feed;
