-- One page of dispatches in the order of their ids, which is the order of their batches: $1 after this id, $2 most
-- rows, $3 dispatch_retention, $4 how much longer one that was never settled is kept, both in milliseconds.
-- What is still owed stays: all of a batch that fan-out or polling has work of, and what may still be told by a
-- record of the receipts topic. Never waits for a row, and counts what it removes in the same statement.
-- One row: last id, rows seen, rows removed, age of the oldest seen in microseconds, old ones held back by
-- batches, by receipt_batches, and as never settled; of the removed, how many were never settled.
WITH page AS MATERIALIZED (
    SELECT id, queued_at, state
    FROM dispatches
    WHERE id > $1::int8
    ORDER BY id
    LIMIT $2::int4
), old AS MATERIALIZED (
    SELECT p.id, p.id >> 20 AS batch_id, p.state IN ('queued', 'sent') AS unsettled,
           p.queued_at >= now() - ($3::int8 + $4::int8) * interval '1 millisecond' AS young
    FROM page p
    WHERE p.queued_at < now() - $3::int8 * interval '1 millisecond'
), owed AS MATERIALIZED (
    SELECT b.batch_id, EXISTS (SELECT FROM batches x WHERE x.id = b.batch_id) AS sending,
           EXISTS (SELECT FROM receipt_batches x WHERE x.batch_id = b.batch_id) AS asking
    FROM (SELECT DISTINCT batch_id FROM old) AS b
), judged AS MATERIALIZED (
    SELECT o.id, o.unsettled,
           CASE WHEN w.sending THEN 'batches' WHEN w.asking THEN 'receipts'
                WHEN o.unsettled AND o.young THEN 'unsettled' END AS held
    FROM old o
    JOIN owed w ON w.batch_id = o.batch_id
), locked AS MATERIALIZED (
    SELECT d.id
    FROM dispatches d
    WHERE d.id = ANY (ARRAY(SELECT id FROM judged WHERE held IS NULL))
    ORDER BY d.id
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM dispatches d
    WHERE d.id = ANY (ARRAY(SELECT id FROM locked))
    RETURNING d.id
), counted AS (
    UPDATE retired r
    SET count = r.count + g.rows
    FROM (SELECT count(*) AS rows FROM gone) AS g
    WHERE r.what = 'dispatches' AND g.rows > 0
)
SELECT (SELECT max(id) FROM page) AS last,
       (SELECT count(*) FROM page) AS seen,
       (SELECT count(*) FROM gone) AS removed,
       (SELECT (extract(epoch FROM now() - min(queued_at)) * 1000000)::int8 FROM page) AS oldest,
       (SELECT count(*) FROM judged WHERE held = 'batches') AS held_batches,
       (SELECT count(*) FROM judged WHERE held = 'receipts') AS held_receipts,
       (SELECT count(*) FROM judged WHERE held = 'unsettled') AS held_unsettled,
       (SELECT count(*) FROM gone g JOIN judged j ON j.id = g.id WHERE j.unsettled) AS unsettled;
