-- How long ago the oldest settled outcome that waits to be published was settled, in microseconds; 0: none waits.
SELECT coalesce((SELECT greatest(0, (extract(epoch FROM clock_timestamp() - (record ->> 'at')::timestamptz)
                                     * 1000000)::int8)
                 FROM settled_outbox
                 ORDER BY id
                 LIMIT 1), 0) AS age_us;
