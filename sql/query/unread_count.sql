-- How many unread notifications the user has in this workspace, counted in the index of unread ones to a
-- limit and no further; what no page can show (store/page_compose.c) is not counted.
-- $1 workspace_id text · $2 user_id text · $3 the most counted int8
SELECT m.user_id IS NOT NULL AS member,
       (SELECT count(*)
        FROM (SELECT
              FROM notifications AS n
              WHERE m.user_id IS NOT NULL AND n.recipient_user_id = $2 AND n.workspace_id = $1
                AND n.read_at IS NULL
                AND n.created_at >= timestamptz '0001-01-01 00:00:00+00'
                AND n.created_at < timestamptz '10000-01-01 00:00:00+00'
              LIMIT $3) AS unread) AS unread
FROM (VALUES ($1::text, $2::text)) AS asked (workspace_id, user_id)
LEFT JOIN workspace_members AS m USING (workspace_id, user_id)
