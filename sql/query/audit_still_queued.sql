-- Of the dispatches $1: those that are `queued` without a row in batches, now.
SELECT d.id
FROM unnest($1::int8[]) AS s (id)
CROSS JOIN LATERAL (SELECT x.id FROM dispatches x WHERE x.id = s.id AND x.state = 'queued' LIMIT 1) AS d
WHERE NOT EXISTS (SELECT FROM batches b WHERE b.id = d.id >> 20)
ORDER BY d.id;
