-- An export and the next of its rows, as many as fit. One row at least: member, role, the export (id NULL: there is
-- none), ordinal (NULL: no row), the row. Rows only while it is ready: retention first calls it expired.
-- $1 workspace text · $2 user text · $3 id uuid · $4 after this ordinal int8 · $5 most rows int8 (0: the export
-- alone) · $6 bytes after which no further row is read int8
SELECT m.user_id IS NOT NULL AS member, m.role,
       e.id, e.feed, e.format,
       CASE WHEN e.state = 'ready' AND e.expires_at <= now() THEN 'expired' ELSE e.state END AS state,
       e.rows, e.bytes, e.snapshot::text AS snapshot, e.snapshot_at, e.created_at, e.finished_at, e.expires_at,
       e.error, e.filters::text AS filters, e.role AS filled_as,
       r.ordinal, r.row
FROM (VALUES ($1::text, $2::text)) AS asked (workspace_id, user_id)
LEFT JOIN workspace_members AS m USING (workspace_id, user_id)
LEFT JOIN exports AS e ON e.id = $3::uuid AND e.user_id = $2
      AND (e.workspace_id = $1 OR $1 IS NULL AND e.workspace_id IS NULL)
      AND (e.error IS NULL OR e.error NOT IN ('deleted', 'erased'))
LEFT JOIN LATERAL (
    SELECT y.ordinal, y.row
    FROM (SELECT x.ordinal, x.row::text AS row,
                 sum(octet_length(x.row::text)) OVER (ORDER BY x.ordinal ROWS UNBOUNDED PRECEDING)
                     - octet_length(x.row::text) AS before
          FROM (SELECT z.ordinal, z.row FROM export_rows AS z
                WHERE z.export_id = e.id AND z.ordinal > $4::int8
                ORDER BY z.ordinal LIMIT $5::int8) AS x) AS y
    WHERE y.before < $6::int8
) AS r ON e.state = 'ready' AND e.expires_at > now()
ORDER BY r.ordinal
