-- Moves the bound of a feed forward, never back: $1 bound, $2 feed. A statement of its own: the bound was
-- taken before this one's snapshot (contracts/reader-api.md).
UPDATE settled SET bound = $1::timestamptz WHERE feed = $2::text AND bound < $1::timestamptz;
