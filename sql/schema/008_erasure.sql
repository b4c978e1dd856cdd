-- A person's rights, finished: what an erasure removes and returns, all that an export holds, and a look at a
-- person's devices that reads no more than them.
-- oldest_ok: 5

SET LOCAL ROLE belfry_migrator;
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- With device_tokens_user every device of a person by index, also those that are off: erasing holds a lock
-- that ingest waits for, and must not read the whole table. Two halves: a claim's plan stays as it is.
CREATE INDEX device_tokens_user_off ON device_tokens (user_id) WHERE NOT enabled;

CREATE OR REPLACE VIEW belfry_devices AS
SELECT id, belfry_mask_token(token_hash) AS token, user_id, platform, app_version, enabled, registered_at,
       last_seen, source_at, disabled_at, disabled_reason
FROM device_tokens
WHERE enabled
UNION ALL
SELECT id, belfry_mask_token(token_hash) AS token, user_id, platform, app_version, enabled, registered_at,
       last_seen, source_at, disabled_at, disabled_reason
FROM device_tokens
WHERE NOT enabled;
COMMENT ON VIEW belfry_devices IS
    'Installs, tokens masked: which are on, and since when and why the others are off.';

-- Final: what is in flight either commits before the locks are given, and is deleted, or starts after
-- them, and meets the tombstone. Idempotency keys stay until key_retention: they keep a redelivery
-- from bringing anything back. Returns what was removed. Events newer than the erasure are stored again.
-- Ingest waits meanwhile. A lock that is not given in 5 s (somebody's open transaction) ends the call with
-- 55P03 and nothing done, rather than hold up ingest for longer: call again.
CREATE OR REPLACE FUNCTION belfry_erase_user(user_id text)
RETURNS json LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '5s' AS $$
#variable_conflict use_column
DECLARE
    person constant text := belfry_erase_user.user_id;
    batch_list bigint[];
    dispatch_list bigint[];
    n_notifications bigint;
    n_dispatches bigint;
    n_devices bigint;
    n_history bigint;
    n_members bigint;
    n_rows bigint;
    n_exports bigint;
    n_failed bigint;
    n_settled bigint;
BEGIN
    PERFORM belfry_require_text('user_id', person, 200);
    -- A snapshot from before the locks would not see what they waited for.
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'belfry_erase_user needs READ COMMITTED' USING ERRCODE = '25001';
    END IF;
    -- device_tokens and workspace_members too: what is in flight there would leave a device, a membership.
    LOCK TABLE notifications, exports, export_rows, device_tokens, workspace_members
        IN SHARE ROW EXCLUSIVE MODE;
    INSERT INTO erased_users (user_hash, erased_at)
    VALUES (sha256(convert_to(person, 'UTF8')), clock_timestamp())
    ON CONFLICT (user_hash) DO UPDATE SET erased_at = excluded.erased_at;

    -- A batch is one range of dispatches; each is read once. Locked in id order, as the reconciler does.
    batch_list := ARRAY(SELECT DISTINCT batch_id FROM notifications
                        WHERE recipient_user_id = person AND batch_id IS NOT NULL);
    dispatch_list := ARRAY(
        SELECT r.id
        FROM unnest(batch_list) b (id)
        CROSS JOIN LATERAL (SELECT x.id, x.notification_id FROM dispatches x
                            WHERE x.id >= b.id << 20 AND x.id < (b.id + 1) << 20 OFFSET 0) r
        JOIN notifications n ON n.id = r.notification_id
        WHERE n.recipient_user_id = person);
    -- By sub-select: the planner would weigh each of 100,000 constants.
    PERFORM FROM dispatches d WHERE d.id = ANY (ARRAY(SELECT unnest(dispatch_list))) ORDER BY d.id FOR UPDATE;
    DELETE FROM dispatches d WHERE d.id = ANY (ARRAY(SELECT unnest(dispatch_list)));
    GET DIAGNOSTICS n_dispatches = ROW_COUNT;
    DELETE FROM notifications WHERE recipient_user_id = person;
    GET DIAGNOSTICS n_notifications = ROW_COUNT;
    UPDATE retired SET count = count + n_dispatches WHERE what = 'dispatches';
    UPDATE retired SET count = count + n_notifications WHERE what = 'notifications';

    -- Of a device that changed hands, the history of the others stays theirs.
    DELETE FROM device_history WHERE user_id = person;
    GET DIAGNOSTICS n_history = ROW_COUNT;
    PERFORM FROM device_tokens WHERE (user_id = person AND enabled) OR (user_id = person AND NOT enabled)
    ORDER BY token_hash FOR UPDATE;
    DELETE FROM device_tokens WHERE (user_id = person AND enabled) OR (user_id = person AND NOT enabled);
    GET DIAGNOSTICS n_devices = ROW_COUNT;

    DELETE FROM export_rows WHERE export_id IN (SELECT id FROM exports WHERE user_id = person);
    GET DIAGNOSTICS n_rows = ROW_COUNT;
    DELETE FROM exports WHERE user_id = person AND state NOT IN ('queued', 'running');
    GET DIAGNOSTICS n_exports = ROW_COUNT;
    -- Left for whoever writes it to find; expired, so that retention removes it.
    UPDATE exports SET state = 'failed', error = 'erased', rows = 0, bytes = 0, filters = '{}',
                       idempotency_key = NULL, request_hash = NULL, finished_at = clock_timestamp(),
                       expires_at = clock_timestamp()
    WHERE user_id = person;
    GET DIAGNOSTICS n_failed = ROW_COUNT;

    DELETE FROM settled_outbox WHERE record ->> 'recipient_user_id' = person;
    GET DIAGNOSTICS n_settled = ROW_COUNT;
    DELETE FROM workspace_members WHERE user_id = person;
    GET DIAGNOSTICS n_members = ROW_COUNT;
    RETURN json_build_object('notifications', n_notifications, 'dispatches', n_dispatches,
                             'devices', n_devices, 'device_history', n_history, 'exports', n_exports,
                             'exports_failed', n_failed, 'export_rows', n_rows, 'settled_outbox', n_settled,
                             'memberships', n_members);
END
$$;

-- Every table that names the person has its part here. Keys have no index by person: the whole table is read.
CREATE OR REPLACE FUNCTION belfry_export_user(user_id text)
RETURNS json LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    WITH mine AS MATERIALIZED (
        SELECT * FROM notifications n WHERE n.recipient_user_id = belfry_export_user.user_id
    ), pushed AS MATERIALIZED (
        SELECT n.id AS notification_id, json_agg(json_build_object(
                   'id', r.id::text, 'device_id', r.device_id::text, 'state', r.state, 'error', r.error,
                   'ticket', r.ticket, 'queued_at', r.queued_at, 'updated_at', r.updated_at)
                   ORDER BY r.id) AS dispatches
        FROM (SELECT DISTINCT m.batch_id FROM mine m WHERE m.batch_id IS NOT NULL) b
        CROSS JOIN LATERAL (SELECT * FROM dispatches x
                            WHERE x.id >= b.batch_id << 20 AND x.id < (b.batch_id + 1) << 20 OFFSET 0) r
        JOIN mine n ON n.id = r.notification_id
        GROUP BY n.id
    )
    SELECT json_build_object(
        'user_id', belfry_export_user.user_id,
        'exported_at', statement_timestamp(),
        'erased_at', (
            SELECT u.erased_at FROM erased_users u
            WHERE u.user_hash = sha256(convert_to(belfry_export_user.user_id, 'UTF8'))),
        'memberships', (
            SELECT coalesce(json_agg(json_build_object('workspace_id', m.workspace_id, 'role', m.role)
                                     ORDER BY m.workspace_id), '[]')
            FROM workspace_members m WHERE m.user_id = belfry_export_user.user_id),
        'devices', (
            SELECT coalesce(json_agg(json_build_object(
                'id', d.id::text, 'token', d.token, 'platform', d.platform, 'app_version', d.app_version,
                'enabled', d.enabled, 'registered_at', d.registered_at, 'last_seen', d.last_seen,
                'source_at', d.source_at, 'disabled_at', d.disabled_at, 'disabled_reason', d.disabled_reason)
                ORDER BY d.id), '[]')
            FROM belfry_devices d WHERE d.user_id = belfry_export_user.user_id), -- masked there
        'device_history', (
            SELECT coalesce(json_agg(json_build_object(
                'device_id', h.device_id::text, 'at', h.at, 'change', h.change, 'reason', h.reason)
                ORDER BY h.at, h.device_id), '[]')
            FROM device_history h WHERE h.user_id = belfry_export_user.user_id),
        'notifications', (
            SELECT coalesce(json_agg(json_build_object(
                'id', n.id, 'workspace_id', n.workspace_id, 'event_type', n.event_type,
                'category', n.category, 'title', n.title, 'body', n.body, 'data', n.data, 'push', n.push,
                'traceparent', n.traceparent, 'occurred_at', n.occurred_at, 'expires_at', n.expires_at,
                'event_at', n.event_at, 'created_at', n.created_at, 'read_at', n.read_at, 'dispatches',
                coalesce(p.dispatches, '[]'))
                ORDER BY n.created_at, n.id), '[]')
            FROM mine n LEFT JOIN pushed p ON p.notification_id = n.id),
        'idempotency_keys', (
            SELECT coalesce(json_agg(json_build_object(
                'key', k.key, 'workspace_id', k.workspace_id, 'claimed_at', k.claimed_at)
                ORDER BY k.claimed_at, k.key), '[]')
            FROM idempotency_keys k
            WHERE split_part(k.key, ':', 4) = regexp_replace(
                replace(replace(belfry_export_user.user_id, '%', '%25'), ':', '%3A'), '^~', '%7E')),
        'exports', (
            SELECT coalesce(json_agg(json_build_object(
                'id', e.id, 'feed', e.feed, 'workspace_id', e.workspace_id, 'filters', e.filters,
                'format', e.format, 'state', e.state, 'error', e.error, 'idempotency_key', e.idempotency_key,
                'created_at', e.created_at, 'finished_at', e.finished_at, 'expires_at', e.expires_at,
                'rows', (SELECT coalesce(json_agg(r.row ORDER BY r.ordinal), '[]')
                         FROM export_rows r WHERE r.export_id = e.id))
                ORDER BY e.created_at, e.id), '[]')
            FROM exports e WHERE e.user_id = belfry_export_user.user_id),
        'settled_outbox', (
            SELECT coalesce(json_agg(s.record ORDER BY s.id), '[]')
            FROM settled_outbox s WHERE s.record ->> 'recipient_user_id' = belfry_export_user.user_id))
$$;
