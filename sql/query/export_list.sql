-- A user's exports in a workspace (NULL: those of feeds without one), the newest first. One row at least: member, role,
-- the export (id NULL: there is none).
-- $1 workspace text · $2 user text · $3 most rows int8
SELECT m.user_id IS NOT NULL AS member, m.role,
       e.id, e.feed, e.format,
       CASE WHEN e.state = 'ready' AND e.expires_at <= now() THEN 'expired' ELSE e.state END AS state,
       e.rows, e.bytes, e.snapshot::text AS snapshot, e.snapshot_at, e.created_at, e.finished_at, e.expires_at,
       e.error, e.filters::text AS filters, e.role AS filled_as
FROM (VALUES ($1::text, $2::text)) AS asked (workspace_id, user_id)
LEFT JOIN workspace_members AS m USING (workspace_id, user_id)
LEFT JOIN LATERAL (
    SELECT *
    FROM exports AS x
    WHERE x.user_id = $2 AND (x.workspace_id = $1 OR $1 IS NULL AND x.workspace_id IS NULL)
      AND (x.error IS NULL OR x.error NOT IN ('deleted', 'erased'))
    ORDER BY x.created_at DESC, x.id DESC
    LIMIT $3::int8
) AS e ON true
ORDER BY e.created_at DESC, e.id DESC
