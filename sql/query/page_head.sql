-- The newest entries of one user's notifications in one workspace, newest first. Membership is looked up
-- in the same statement, and there is always a row to tell it: member says whether the user belongs to the
-- workspace, and id is NULL when there is no entry to show. Below the place of the membership nothing is
-- read for who does not belong. Each filtered or continued form is a statement of its own, so that no
-- condition hides from the index.
-- $1 workspace_id text · $2 user_id text · $3 rows at most int8 (limit + 1)
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
    ORDER BY n.created_at DESC, n.id DESC
    LIMIT $3
) AS p ON true
ORDER BY p.created_at DESC, p.id DESC
