-- Exports past their expires_at: state `expired`, so that nobody downloads one whose rows are being removed. $1
-- most rows. Rows touched: how many.
UPDATE exports
SET state = 'expired'
WHERE id = ANY (ARRAY(SELECT e.id
                      FROM exports e
                      WHERE e.state = 'ready' AND e.expires_at < now()
                      LIMIT $1::int4
                      FOR UPDATE SKIP LOCKED));
