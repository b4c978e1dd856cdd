-- Marks what stands at or below a position read, at most so many, the newest first: they are locked in that
-- order, so that two calls at once wait for each other and do not die of it. Filters have no index here: all
-- unread entries below the position may be read, within statement_timeout, for a limit on them would find the
-- same ones again at the next call.
-- $1 workspace_id text · $2 user_id text · $3 marked at most int8 · $4 created_at timestamptz, $5 id uuid
-- $6 category text, $7 event_type text: NULL is any
WITH member AS MATERIALIZED (
    SELECT FROM workspace_members WHERE workspace_id = $1 AND user_id = $2
), found AS MATERIALIZED (
    SELECT n.id
    FROM notifications AS n
    WHERE EXISTS (SELECT FROM member) AND n.recipient_user_id = $2 AND n.workspace_id = $1
      AND n.read_at IS NULL AND (n.created_at, n.id) <= ($4, $5)
      AND n.created_at >= timestamptz '0001-01-01 00:00:00+00'
      AND ($6::text IS NULL OR n.category = $6) AND ($7::text IS NULL OR n.event_type = $7)
    ORDER BY n.created_at DESC, n.id DESC
    LIMIT $3 + 1
    FOR NO KEY UPDATE
), marked AS (
    UPDATE notifications AS n
    SET read_at = clock_timestamp()
    FROM (SELECT id FROM found LIMIT $3) AS f
    WHERE n.id = f.id
    RETURNING n.id
)
SELECT EXISTS (SELECT FROM member) AS member,
       (SELECT count(*) FROM marked) AS marked,
       (SELECT count(*) FROM found) > $3 AS more
