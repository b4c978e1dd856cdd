-- Ends a pass: $1 owner, $2 batches, $3 the version each was leased at, $4 poll_interval in milliseconds.
-- A batch with nothing left to ask goes, but only at the version that was leased: a `sent` that came
-- meanwhile raised it, and would be orphaned (design.md §3). Every other one is due again an interval
-- later. One row: how many batches are done.
WITH mine AS MATERIALIZED (
    SELECT r.batch_id, r.version = b.version AND NOT EXISTS (
               SELECT FROM dispatches d
               WHERE d.id >= r.batch_id << 20 AND d.id < (r.batch_id + 1) << 20 AND d.state = 'sent') AS done
    FROM unnest($2::int8[], $3::int8[]) AS b (batch_id, version)
    JOIN receipt_batches r ON r.batch_id = b.batch_id
    WHERE r.owner = $1::int8
    ORDER BY r.batch_id
    FOR UPDATE OF r
), gone AS (
    DELETE FROM receipt_batches r
    USING mine
    WHERE r.batch_id = mine.batch_id AND mine.done
    RETURNING r.batch_id
), again AS (
    UPDATE receipt_batches r
    SET due_at = now() + $4::int8 * interval '1 millisecond', owner = NULL, leased_until = NULL
    FROM mine
    WHERE r.batch_id = mine.batch_id AND NOT mine.done
)
SELECT count(*) AS done FROM gone;
