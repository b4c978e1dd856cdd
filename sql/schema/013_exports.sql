-- What the reader's export worker needs: how often an export was tried, so that one that kills its reader is given
-- up, and the role it was filled under, where roles see different rows. A deleted export is failed/deleted, its rows
-- removed by retention like those of any other that is over.
-- oldest_ok: 5

SET LOCAL ROLE belfry_migrator;

ALTER TABLE exports ADD COLUMN tries integer NOT NULL DEFAULT 0;
ALTER TABLE exports ADD COLUMN role text COLLATE "C";
GRANT UPDATE (tries, role, filters, idempotency_key, request_hash) ON exports TO belfry_reader;
