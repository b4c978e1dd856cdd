-- Moves the bounds of feeds forward, never back: $1 feeds, $2 bounds. A feed that is new gets its row. A statement of
-- its own: the bounds were taken before this one's snapshot (contracts/reader-api.md).
INSERT INTO settled (feed, bound)
SELECT feed, bound FROM unnest($1::text[], $2::timestamptz[]) AS moved (feed, bound)
ON CONFLICT (feed) DO UPDATE SET bound = EXCLUDED.bound WHERE settled.bound < EXCLUDED.bound;
