-- What its owner could not fill: failed with this error, or, without one, queued again. Rows touched: 1, or 0 when it
-- is no longer his.
-- $1 id uuid · $2 owner int8 · $3 error text or NULL · $4 life in ms int8
UPDATE exports
SET state = CASE WHEN $3::text IS NULL THEN 'queued' ELSE 'failed' END,
    error = $3, owner = NULL, leased_until = NULL,
    finished_at = CASE WHEN $3 IS NOT NULL THEN now() END,
    expires_at = CASE WHEN $3 IS NOT NULL THEN now() + $4::int8 * interval '1 ms' END
WHERE id = $1::uuid AND owner = $2::int8 AND state = 'running'
