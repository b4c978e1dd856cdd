-- What is to be asked: the `sent` dispatches with a ticket of the leased batches ($1), by ticket so that two rows
-- with one ticket stand together, those after ticket $2 ('' at first), at most $3. A batch is one primary-key range.
SELECT d.id, d.ticket
FROM unnest($1::int8[]) AS b (batch_id)
CROSS JOIN LATERAL (
    SELECT id, ticket
    FROM dispatches
    WHERE id >= b.batch_id << 20 AND id < (b.batch_id + 1) << 20
      AND state = 'sent' AND ticket COLLATE "C" > $2::text
    OFFSET 0
) AS d
ORDER BY d.ticket COLLATE "C", d.id
LIMIT $3::int4;
