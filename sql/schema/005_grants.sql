-- Least privilege, by the table "who writes what" of design.md. Updates are granted by column: nobody but the
-- owner may change created_at, id or inserted_xid, the sort key that cursors rest on.
-- oldest_ok: 5

SET LOCAL ROLE belfry_migrator;

-- ---- dispatcher ----------------------------------------------------------------------------------------------
GRANT SELECT, INSERT ON idempotency_keys, dispatches, batches, device_history TO belfry_dispatcher;
GRANT SELECT ON notifications, erased_users TO belfry_dispatcher;
GRANT INSERT (id, workspace_id, recipient_user_id, event_type, category, title, body, data, push, traceparent,
              occurred_at, expires_at, event_at, created_at, batch_id) ON notifications TO belfry_dispatcher;
GRANT UPDATE (owner, unsent, leased_until), DELETE ON batches TO belfry_dispatcher;
GRANT USAGE, SELECT ON SEQUENCE batch_ids TO belfry_dispatcher;
GRANT SELECT, INSERT ON partition_offsets TO belfry_dispatcher, belfry_reconciler;
GRANT UPDATE (owner, generation, next_offset, records, tombstones, dead_letters, events, recipients,
              notifications, duplicates, erased, dispatches)
    ON partition_offsets TO belfry_dispatcher, belfry_reconciler;
GRANT SELECT, INSERT ON device_tokens TO belfry_dispatcher;
GRANT UPDATE (user_id, platform, app_version, enabled, registered_at, last_seen, source_at, disabled_at,
              disabled_reason) ON device_tokens TO belfry_dispatcher;

-- ---- reconciler ----------------------------------------------------------------------------------------------
GRANT SELECT, DELETE ON idempotency_keys, notifications, dispatches, exports, export_rows TO belfry_reconciler;
GRANT UPDATE (state, error, ticket, updated_at) ON dispatches TO belfry_reconciler;
GRANT UPDATE (state, error) ON exports TO belfry_reconciler;
GRANT SELECT, INSERT, UPDATE, DELETE ON receipt_batches, settled_outbox TO belfry_reconciler;
GRANT SELECT, INSERT, UPDATE (bound) ON settled TO belfry_reconciler;
GRANT SELECT, INSERT, UPDATE (count) ON retired TO belfry_reconciler;
GRANT SELECT, UPDATE (enabled, disabled_at, disabled_reason) ON device_tokens TO belfry_reconciler;
GRANT SELECT, INSERT ON device_history TO belfry_reconciler;
GRANT SELECT ON batches, erased_users TO belfry_reconciler;

-- ---- reader --------------------------------------------------------------------------------------------------
GRANT SELECT ON notifications, workspace_members, settled, exports, export_rows TO belfry_reader;
GRANT UPDATE (read_at) ON notifications TO belfry_reader;
GRANT INSERT ON exports, export_rows TO belfry_reader;
GRANT UPDATE (state, rows, bytes, snapshot, snapshot_at, error, owner, leased_until, finished_at, expires_at)
    ON exports TO belfry_reader;

-- ---- views and functions -------------------------------------------------------------------------------------
GRANT SELECT ON belfry_books TO belfry_dispatcher, belfry_reconciler, belfry_reader;
GRANT SELECT ON belfry_devices TO belfry_dispatcher, belfry_reconciler;

-- Those that act for a person or a service: to whom an operator grants them, and nobody else.
REVOKE ALL ON FUNCTION belfry_register_device(text, text, text, text), belfry_unregister_device(text),
    belfry_set_member(text, text, text), belfry_remove_member(text, text), belfry_erase_user(text),
    belfry_export_user(text), belfry_change_device(boolean, text, text, text, text, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION belfry_change_device(boolean, text, text, text, text, timestamptz)
    TO belfry_dispatcher;
