-- Takes batches that nobody holds: free, or with a lease that ran out by the database's clock. One row a range
-- of what is unsent.
-- $1 owner · $2 lease ms · $3 at most · $4 urgent only · $5 batches we hold already · $6 only those left behind by
-- an owner · $7 also those of other owners
WITH free AS MATERIALIZED (
    SELECT id, owner IS NOT NULL AS had_owner
    FROM batches
    WHERE (leased_until IS NULL OR leased_until < clock_timestamp())
      AND (urgent OR NOT $4) AND id <> ALL ($5::int8[])
      AND (owner IS NOT NULL OR NOT $6) AND (owner IS NULL OR owner = $1 OR $7)
    ORDER BY urgent DESC, id
    LIMIT $3
    FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE batches b
    SET owner = $1, leased_until = clock_timestamp() + $2::int8 * interval '1 millisecond'
    FROM free f
    WHERE b.id = f.id
    RETURNING b.id, b.urgent, f.had_owner, b.unsent
)
SELECT t.id, t.urgent, t.had_owner, coalesce(lower(r), 0) AS first, coalesce(upper(r), 0) AS stop
FROM taken t LEFT JOIN LATERAL unnest(t.unsent) AS r ON true
ORDER BY t.urgent DESC, t.id, 4;
