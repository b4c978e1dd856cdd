-- Takes the oldest export that waits, or whose owner's lease ran out, under a lease. One that was tried too often, or
-- whose feed nobody serves for as long as an export lives, is given up. One row: seconds since the oldest queued one was
-- ordered (0: none is), the export taken (id NULL: none), its workspace and user.
-- $1 owner int8 · $2 lease in ms int8 · $3 feeds served text[] · $4 life of an export in ms int8 · $5 tries int4
WITH next AS MATERIALIZED (
    SELECT x.id, x.tries >= $5::int4 OR NOT x.feed = ANY ($3::text[]) AS over
    FROM exports AS x
    WHERE (x.state = 'queued' OR x.state = 'running' AND x.leased_until < now())
      AND x.state IN ('queued', 'running')
      AND (x.feed = ANY ($3) OR x.created_at < now() - $4::int8 * interval '1 ms')
    ORDER BY x.created_at
    LIMIT 1
    FOR UPDATE SKIP LOCKED
), e AS (
    UPDATE exports AS x
    SET state = CASE WHEN next.over THEN 'failed' ELSE 'running' END,
        error = CASE WHEN next.over THEN 'gave_up' END,
        finished_at = CASE WHEN next.over THEN now() END,
        expires_at = CASE WHEN next.over THEN now() + $4 * interval '1 ms' END,
        owner = $1::int8, leased_until = now() + $2::int8 * interval '1 ms', tries = x.tries + 1
    FROM next
    WHERE x.id = next.id
    RETURNING x.*
), oldest AS (
    SELECT coalesce(extract(epoch FROM now() - min(q.created_at)), 0)::int8 AS seconds
    FROM exports AS q
    WHERE q.state = 'queued' AND q.state IN ('queued', 'running')
)
SELECT oldest.seconds, NULL::text AS unused,
       e.id, e.feed, e.format,
       CASE WHEN e.state = 'ready' AND e.expires_at <= now() THEN 'expired' ELSE e.state END AS state,
       e.rows, e.bytes, e.snapshot::text AS snapshot, e.snapshot_at, e.created_at, e.finished_at, e.expires_at,
       e.error, e.filters::text AS filters, e.role AS filled_as,
       e.workspace_id, e.user_id
FROM oldest LEFT JOIN e ON true
