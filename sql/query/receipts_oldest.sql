-- How long the batch due first for a look at its receipts has been due, in microseconds; 0: none is due.
SELECT greatest(0, coalesce((extract(epoch FROM clock_timestamp() - (
           SELECT due_at FROM receipt_batches ORDER BY due_at LIMIT 1)) * 1000000)::bigint, 0)) AS due;
