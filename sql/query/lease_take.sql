-- Work that one process at a time does: $1 what, $2 owner, $3 lease in milliseconds (0: gives it back). A row is
-- touched when it is the owner's now: it was already, or nobody's lease is running.
INSERT INTO leases AS l (what, owner, leased_until)
VALUES ($1, $2, clock_timestamp() + $3::int8 * interval '1 millisecond')
ON CONFLICT (what) DO UPDATE SET owner = excluded.owner, leased_until = excluded.leased_until
WHERE l.owner = excluded.owner OR l.leased_until <= clock_timestamp();
