-- Settled outcomes (contracts/events.md, belfry.settled): what a record is, in one place, and leases of what one
-- process at a time does. Rows of settled_outbox are written by the statement that makes a dispatch final, and
-- removed by the reconciler that published them.
-- oldest_ok: 5

SET LOCAL ROLE belfry_migrator;

-- A final state as belfry.settled carries it. version: only failed/Unconfirmed gives way to another final state,
-- so it is the first and any other the second (dispatch_version in src/model/dispatch.c; a test compares them).
CREATE FUNCTION belfry_settled_record(dispatch_id bigint, notification_id uuid, workspace_id text,
                                      recipient_user_id text, device_id bigint, state text, error text,
                                      at timestamptz)
RETURNS json LANGUAGE sql STABLE AS $$
    SELECT ('{"v":1,"dispatch_id":"' || dispatch_id || '","notification_id":"' || notification_id
            || '","workspace_id":' || to_json(workspace_id) || ',"recipient_user_id":'
            || to_json(recipient_user_id) || ',"device_id":"' || device_id || '","state":"' || state
            || '","error":' || coalesce(to_json(error)::text, 'null') || ',"version":'
            || CASE WHEN state = 'failed' AND error = 'Unconfirmed' THEN '1' ELSE '2' END || ',"at":"'
            || to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || '"}')::json
$$;

CREATE TABLE leases (
    what text PRIMARY KEY,
    owner bigint NOT NULL, -- random per process start
    leased_until timestamptz NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

GRANT SELECT, INSERT, UPDATE (owner, leased_until) ON leases TO belfry_reconciler;
-- What the dispatcher suppresses at once is final when it is stored.
GRANT INSERT (dispatch_id, record) ON settled_outbox TO belfry_dispatcher;
