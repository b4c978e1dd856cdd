-- The entries below a position. The row comparison as a whole is an index condition: a page begins at its
-- place whatever its depth. The rest as in page_head.sql.
-- $1 workspace_id text · $2 user_id text · $3 rows at most int8 (limit + 1)
-- $4 created_at timestamptz, $5 id uuid: the position
SELECT m.user_id IS NOT NULL AS member,
       p.id, p.event_type, p.category, p.title, p.body, p.data, p.occurred_at, p.created_at, p.read_at,
       p.id IS NOT NULL AS matched, false AS scan_end
FROM (VALUES ($1::text, $2::text)) AS asked (workspace_id, user_id)
LEFT JOIN workspace_members AS m USING (workspace_id, user_id)
LEFT JOIN LATERAL (
    SELECT n.id, n.event_type, n.category, n.title, n.body, n.data, n.occurred_at, n.created_at,
           n.read_at
    FROM notifications AS n
    WHERE m.user_id IS NOT NULL AND n.recipient_user_id = $2 AND n.workspace_id = $1
      AND (n.created_at, n.id) < ($4, $5)
    ORDER BY n.created_at DESC, n.id DESC
    LIMIT $3
) AS p ON true
ORDER BY p.created_at DESC, p.id DESC
