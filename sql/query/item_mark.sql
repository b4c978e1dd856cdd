-- Marks one notification read ($4 true) or unread, as item.sql finds it, and returns it so. The first read_at
-- stays: the row is locked, and so seen as it is now, before it is looked at. Nothing the feed is sorted by changes.
-- $1 workspace_id text · $2 user_id text · $3 id uuid · $4 bool
WITH member AS MATERIALIZED (
    SELECT FROM workspace_members WHERE workspace_id = $1 AND user_id = $2
), found AS MATERIALIZED (
    SELECT n.id, n.event_type, n.category, n.title, n.body, n.data, n.occurred_at, n.created_at, n.read_at
    FROM notifications AS n
    WHERE n.id = $3 AND n.recipient_user_id = $2 AND n.workspace_id = $1 AND EXISTS (SELECT FROM member)
      AND (n.created_at >= timestamptz '0001-01-01 00:00:00+00'
           AND n.created_at < timestamptz '10000-01-01 00:00:00+00') IS TRUE
    FOR NO KEY UPDATE
), marked AS (
    UPDATE notifications AS n
    SET read_at = CASE WHEN $4::bool THEN clock_timestamp() END
    FROM found AS f
    WHERE n.id = f.id AND (f.read_at IS NULL) = $4::bool
    RETURNING n.id, n.read_at
)
SELECT EXISTS (SELECT FROM member) AS member,
       f.id, f.event_type, f.category, f.title, f.body, f.data, f.occurred_at, f.created_at,
       CASE WHEN k.id IS NULL THEN f.read_at ELSE k.read_at END AS read_at,
       f.id IS NOT NULL AS matched, false AS scan_end
FROM (VALUES (1)) AS one (row)
LEFT JOIN found AS f ON true
LEFT JOIN marked AS k ON true
