-- Orders an export, or finds the one that was ordered with the same Idempotency-Key. One row: member, role, the
-- export (id NULL: none was made), whether it is new, whether the body was the same, whether too many are open, how
-- long until what is stored makes room (milliseconds; 0: there is room). The limits are looked at without a lock: a
-- burst may pass them by as many orders as are under way at once.
-- $1 workspace text or NULL · $2 user text · $3 feed · $4 filters json · $5 format · $6 key or NULL · $7 hash of the
-- body bytea · $8 members only bool · $9 roles text[], none: any · $10 open at most int8 · $11 stored at most ·
-- $12 bytes stored at most · $13 owner int8, who fills it himself, or NULL · $14 his lease in ms
WITH asked AS MATERIALIZED (
    SELECT m.user_id IS NOT NULL AS member, m.role,
           (NOT $8::bool OR m.user_id IS NOT NULL AND (cardinality($9::text[]) = 0 OR m.role = ANY ($9))) AS allowed
    FROM (VALUES ($1::text, $2::text)) AS a (workspace_id, user_id)
    LEFT JOIN workspace_members AS m USING (workspace_id, user_id)
), held AS MATERIALIZED (
    SELECT count(*) FILTER (WHERE e.state <> 'ready') AS open,
           count(*) FILTER (WHERE e.state = 'ready') AS stored,
           coalesce(sum(e.bytes) FILTER (WHERE e.state = 'ready'), 0)::int8 AS bytes,
           min(e.expires_at) AS next
    FROM exports AS e
    WHERE e.user_id = $2 AND (e.state IN ('queued', 'running') OR e.state = 'ready' AND e.expires_at > now())
), full_up AS MATERIALIZED (
    SELECT open >= $10::int8 AS open,
           CASE WHEN stored >= $11::int8 OR bytes >= $12::int8
                THEN greatest((extract(epoch FROM next - now()) * 1000)::int8, 1) ELSE 0 END AS room_ms
    FROM held
), known AS MATERIALIZED (
    SELECT EXISTS (SELECT FROM exports AS e
                   WHERE e.user_id = $2 AND e.feed = $3::text AND coalesce(e.workspace_id, '') = coalesce($1, '')
                     AND e.idempotency_key = $6::text) AS yes
), made AS (
    INSERT INTO exports AS x (feed, workspace_id, user_id, filters, format, idempotency_key, request_hash,
                              state, owner, leased_until, tries)
    SELECT $3, $1, $2, $4::json, $5::text, $6, $7::bytea,
           CASE WHEN $13::int8 IS NULL THEN 'queued' ELSE 'running' END, $13,
           now() + $14::int8 * interval '1 ms', CASE WHEN $13 IS NULL THEN 0 ELSE 1 END
    FROM asked, full_up, known
    WHERE asked.allowed AND (known.yes OR NOT full_up.open AND full_up.room_ms = 0)
    ON CONFLICT (user_id, feed, coalesce(workspace_id, ''), idempotency_key) WHERE idempotency_key IS NOT NULL
    DO UPDATE SET state = x.state
    RETURNING x.*, x.xmax = 0 AS fresh
)
SELECT asked.member, asked.role,
       e.id, e.feed, e.format,
       CASE WHEN e.state = 'ready' AND e.expires_at <= now() THEN 'expired' ELSE e.state END AS state,
       e.rows, e.bytes, e.snapshot::text AS snapshot, e.snapshot_at, e.created_at, e.finished_at, e.expires_at,
       e.error, e.filters::text AS filters, e.role AS filled_as,
       e.fresh, e.request_hash = $7 AS same, full_up.open AS too_many, full_up.room_ms
FROM asked CROSS JOIN full_up LEFT JOIN made AS e ON true
