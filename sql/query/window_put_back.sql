-- What was certainly not accepted goes back into `unsent`, where the batch is still ours. Running it again
-- changes nothing.
-- $1 owner · $2 batch, $3 first, $4 stop: one row a range
UPDATE batches b
SET unsent = b.unsent + t.ordinals
FROM (SELECT batch_id, range_agg(int4range(first, stop)) AS ordinals
      FROM ROWS FROM (unnest($2::int8[]), unnest($3::int4[]), unnest($4::int4[])) AS a (batch_id, first, stop)
      GROUP BY batch_id) AS t
WHERE b.id = t.batch_id AND b.id = ANY ($2::int8[]) AND b.owner = $1
RETURNING b.id;
