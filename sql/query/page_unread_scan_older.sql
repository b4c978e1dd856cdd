-- Unread entries below a position that have this category, this event_type or both, which no
-- index knows: reads at most scan_max entries and stops as soon as enough of them match. The entry at
-- which the reading ended comes too, also when it does not match (matched false, scan_end true), so that
-- the next page goes on below the last entry read. The rest as in page_head.sql.
-- $1 workspace_id text · $2 user_id text · $3 rows at most int8 (limit + 1)
-- $4 created_at timestamptz, $5 id uuid: the position
-- $6 scan_max int8 · $7 category text, $8 event_type text: NULL is any
SELECT m.user_id IS NOT NULL AS member,
       p.id, p.event_type, p.category, p.title, p.body, p.data, p.occurred_at, p.created_at, p.read_at,
       p.matched, p.scan_end
FROM (VALUES ($1::text, $2::text)) AS asked (workspace_id, user_id)
LEFT JOIN workspace_members AS m USING (workspace_id, user_id)
LEFT JOIN LATERAL (
    SELECT e.*
    FROM (
        SELECT r.*,
               (($7::text IS NULL OR r.category = $7) AND ($8::text IS NULL OR r.event_type = $8))
                   IS TRUE AS matched,
               row_number() OVER (ORDER BY r.created_at DESC, r.id DESC) = $6 AS scan_end
        FROM (
            SELECT n.id, n.event_type, n.category, n.title, n.body, n.data, n.occurred_at, n.created_at,
                   n.read_at
            FROM notifications AS n
            WHERE m.user_id IS NOT NULL AND n.recipient_user_id = $2 AND n.workspace_id = $1
              AND n.read_at IS NULL AND (n.created_at, n.id) < ($4, $5)
            ORDER BY n.created_at DESC, n.id DESC
            LIMIT $6
        ) AS r
    ) AS e
    WHERE e.matched OR e.scan_end
    ORDER BY e.created_at DESC, e.id DESC
    LIMIT $3
) AS p ON true
ORDER BY p.created_at DESC, p.id DESC
