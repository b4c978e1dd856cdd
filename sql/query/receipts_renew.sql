-- A long pass keeps its lease: $1 owner, $2 lease in milliseconds, $3 its batches. Rows touched: those
-- still its own.
WITH mine AS MATERIALIZED (
    SELECT batch_id
    FROM receipt_batches
    WHERE batch_id = ANY ($3::int8[]) AND owner = $1::int8
    ORDER BY batch_id
    FOR UPDATE
)
UPDATE receipt_batches r
SET leased_until = now() + $2::int8 * interval '1 millisecond'
FROM mine
WHERE r.batch_id = mine.batch_id;
