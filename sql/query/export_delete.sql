-- Deletes a user's export: from now on there is none for anybody, whoever fills it finds it gone and stops, and
-- retention removes its rows. One row: member, role, and the id (NULL: there is no such export).
-- $1 workspace text · $2 user text · $3 id uuid · $4 feeds that ask for no membership text[]
WITH asked AS MATERIALIZED (
    SELECT m.user_id IS NOT NULL AS member, m.role
    FROM (VALUES ($1::text, $2::text)) AS a (workspace_id, user_id)
    LEFT JOIN workspace_members AS m USING (workspace_id, user_id)
), gone AS (
    UPDATE exports AS e
    SET state = 'failed', error = 'deleted', rows = 0, bytes = 0, filters = '{}', idempotency_key = NULL,
        request_hash = NULL, owner = NULL, leased_until = NULL, finished_at = now(), expires_at = now()
    FROM asked
    WHERE e.id = $3::uuid AND e.user_id = $2 AND (e.workspace_id = $1 OR $1 IS NULL AND e.workspace_id IS NULL)
      AND (e.error IS NULL OR e.error NOT IN ('deleted', 'erased'))
      AND (asked.member OR e.feed = ANY ($4::text[]))
    RETURNING e.id
)
SELECT asked.member, asked.role, gone.id
FROM asked LEFT JOIN gone ON true
