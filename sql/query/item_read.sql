-- Marks one notification read, as item.sql finds it, and returns it so. The first read_at stays: the row is
-- locked, and so seen as it is now, before it is looked at. Nothing the feed is sorted by changes.
-- $1 workspace_id text · $2 user_id text · $3 id uuid
WITH member AS MATERIALIZED (
    SELECT FROM workspace_members WHERE workspace_id = $1 AND user_id = $2
), found AS MATERIALIZED (
    SELECT n.id, n.event_type, n.category, n.title, n.body, n.data, n.occurred_at, n.created_at, n.read_at
    FROM notifications AS n
    WHERE n.id = $3 AND n.recipient_user_id = $2 AND n.workspace_id = $1 AND EXISTS (SELECT FROM member)
    FOR NO KEY UPDATE
), marked AS (
    UPDATE notifications AS n
    SET read_at = clock_timestamp()
    FROM found AS f
    WHERE n.id = f.id AND f.read_at IS NULL
    RETURNING n.read_at
)
SELECT EXISTS (SELECT FROM member) AS member,
       f.id, f.event_type, f.category, f.title, f.body, f.data, f.occurred_at, f.created_at,
       coalesce(f.read_at, k.read_at) AS read_at,
       f.id IS NOT NULL AS matched, false AS scan_end
FROM (VALUES (1)) AS one (row)
LEFT JOIN found AS f ON true
LEFT JOIN marked AS k ON true
