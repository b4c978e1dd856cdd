-- What is to be asked: the `sent` dispatches with a ticket of the leased batches ($1), by ticket so that
-- two rows with one ticket stand together, those after ticket $2 ('' at first), at most $3. A batch is one
-- primary-key range. The token goes along to see that a receipt speaks of the same device; it is a secret.
SELECT d.id, d.ticket, t.token
FROM (
    SELECT x.id, x.ticket, x.device_id
    FROM unnest($1::int8[]) AS b (batch_id)
    CROSS JOIN LATERAL (
        SELECT id, ticket, device_id
        FROM dispatches
        WHERE id >= b.batch_id << 20 AND id < (b.batch_id + 1) << 20
          AND state = 'sent' AND ticket COLLATE "C" > $2::text
        OFFSET 0
    ) AS x
    ORDER BY x.ticket COLLATE "C", x.id
    LIMIT $3::int4
) AS d
LEFT JOIN device_tokens t ON t.id = d.device_id
ORDER BY d.ticket COLLATE "C", d.id;
