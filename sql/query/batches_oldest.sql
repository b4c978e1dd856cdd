-- How long the oldest urgent and the oldest normal batch have waited, in microseconds; 0: none waits. Each is
-- the first entry of its half of batches_order.
SELECT greatest(0, coalesce((extract(epoch FROM clock_timestamp() - (
           SELECT created_at FROM batches WHERE urgent ORDER BY urgent DESC, id LIMIT 1)) * 1000000)::bigint, 0)) AS urgent,
       greatest(0, coalesce((extract(epoch FROM clock_timestamp() - (
           SELECT created_at FROM batches WHERE NOT urgent ORDER BY urgent DESC, id LIMIT 1)) * 1000000)::bigint, 0)) AS normal;
