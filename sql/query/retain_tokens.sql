-- One range of the heap of device_tokens: those no registration was seen of for so long are switched off as Stale.
-- $1 first block, $2 blocks, $3 token_stale_after in milliseconds. A registration in flight wins: its row is
-- passed over, or seen as it is once locked. One row: blocks there are, enabled rows seen, rows switched off, age
-- of the oldest seen in microseconds.
WITH seen AS MATERIALIZED (
    SELECT id, greatest(registered_at, last_seen, source_at) AS at
    FROM device_tokens
    WHERE ctid >= format('(%s,0)', $1::int8)::tid AND ctid < format('(%s,0)', $1::int8 + $2::int8)::tid
      AND enabled
), locked AS MATERIALIZED (
    SELECT t.id
    FROM device_tokens t
    WHERE t.id = ANY (ARRAY(SELECT id FROM seen WHERE at < now() - $3::int8 * interval '1 millisecond'))
      AND t.enabled
      AND greatest(t.registered_at, t.last_seen, t.source_at) < now() - $3::int8 * interval '1 millisecond'
    ORDER BY t.token_hash -- as registrations and erasure lock them
    FOR UPDATE SKIP LOCKED
), disabled AS (
    UPDATE device_tokens t
    SET enabled = false, disabled_at = clock_timestamp(), disabled_reason = 'Stale'
    WHERE t.id = ANY (ARRAY(SELECT id FROM locked))
    RETURNING t.id, t.user_id, t.disabled_at
), history AS (
    INSERT INTO device_history (device_id, at, change, user_id, reason)
    SELECT id, disabled_at, 'disabled', user_id, 'Stale'
    FROM disabled
)
SELECT pg_relation_size('device_tokens') / current_setting('block_size')::int8 AS blocks,
       (SELECT count(*) FROM seen) AS seen,
       (SELECT count(*) FROM disabled) AS removed,
       (SELECT (extract(epoch FROM now() - min(at)) * 1000000)::int8 FROM seen) AS oldest;
