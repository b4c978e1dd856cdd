-- Extends the leases that are still ours, also those that ran out and nobody took.
-- $1 owner · $2 lease ms · $3 batches
UPDATE batches
SET leased_until = clock_timestamp() + $2::int8 * interval '1 millisecond'
WHERE id = ANY ($3::int8[]) AND owner = $1
RETURNING id;
