-- One notification, where it is the user's in this workspace; the columns of a page, membership as there. One of
-- a year no page can show is not there either: said so that no index takes it, or a table that was never analysed
-- is searched by the feed's index through all of the user's rows (6,000 blocks of a million), and not by the key.
-- $1 workspace_id text · $2 user_id text · $3 id uuid
SELECT m.user_id IS NOT NULL AS member,
       n.id, n.event_type, n.category, n.title, n.body, n.data, n.occurred_at, n.created_at, n.read_at,
       n.id IS NOT NULL AS matched, false AS scan_end
FROM (VALUES ($1::text, $2::text)) AS asked (workspace_id, user_id)
LEFT JOIN workspace_members AS m USING (workspace_id, user_id)
LEFT JOIN notifications AS n
       ON m.user_id IS NOT NULL AND n.id = $3 AND n.recipient_user_id = $2 AND n.workspace_id = $1
      AND (n.created_at >= timestamptz '0001-01-01 00:00:00+00'
           AND n.created_at < timestamptz '10000-01-01 00:00:00+00') IS TRUE
