-- What retention needs (src/reconcile/retain.c): the right to lock a notification before it is removed, and
-- vacuums early enough that a table under a steady load keeps its size.
-- oldest_ok: 5

SET LOCAL ROLE belfry_migrator;

-- Not to change it: FOR UPDATE SKIP LOCKED asks for the right to update a column, and a plain DELETE would wait
-- for a reader's marking, or deadlock with it.
GRANT UPDATE (read_at) ON notifications TO belfry_reconciler;
GRANT SELECT, DELETE ON replays TO belfry_reconciler;

-- The default, a fifth of the table, is 73 days of a year's notifications.
ALTER TABLE notifications SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE exports SET (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE export_rows SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05);
ALTER TABLE replays SET (autovacuum_vacuum_scale_factor = 0.05);

