-- Leases end at once. What was never begun goes (back) into unsent: a window whose answer was lost had taken it
-- out.
-- $1 owner · $2 batch, $3 settled: one row a batch · $4 batch, $5 first, $6 stop: one row a range · $7 nobody takes
-- them for so many ms
UPDATE batches b
SET leased_until = CASE WHEN $7::int8 > 0 THEN clock_timestamp() + $7 * interval '1 millisecond' END,
    owner = CASE WHEN r.settled THEN NULL ELSE b.owner END,
    unsent = b.unsent + coalesce((SELECT range_agg(int4range(u.first, u.stop))
                                  FROM ROWS FROM (unnest($4::int8[]), unnest($5::int4[]), unnest($6::int4[]))
                                       AS u (batch_id, first, stop)
                                  WHERE u.batch_id = b.id), '{}'::int4multirange)
FROM ROWS FROM (unnest($2::int8[]), unnest($3::bool[])) AS r (batch_id, settled)
WHERE b.id = r.batch_id AND b.owner = $1;
