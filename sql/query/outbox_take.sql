-- The next settled outcomes to publish, oldest first: $1 owner of the lease 'settled' (none without it), $2 only
-- rows after this id, $3 how many at most. A dispatch's first version has committed before its second gets an
-- id, so id order keeps versions in order.
SELECT o.id, o.dispatch_id, o.record, o.record ->> 'version' = '1' AS first
FROM leases l
CROSS JOIN LATERAL (
    SELECT s.id, s.dispatch_id, s.record
    FROM settled_outbox s
    WHERE s.id > $2
    ORDER BY s.id
    LIMIT $3) AS o
WHERE l.what = 'settled' AND l.owner = $1 AND l.leased_until > clock_timestamp()
ORDER BY o.id;
