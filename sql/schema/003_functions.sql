-- Functions. Those for other services run as the owner with a pinned search_path, and nobody may call them until
-- an operator says GRANT EXECUTE ON FUNCTION … TO the_service.
-- oldest_ok: 3

SET LOCAL ROLE belfry_migrator;
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- ---- devices -------------------------------------------------------------------------------------------------

-- A row put in by hand need not bring its hash.
CREATE FUNCTION belfry_hash_token() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.token_hash := sha256(convert_to(NEW.token, 'UTF8'));
    RETURN NEW;
END
$$;

CREATE TRIGGER device_tokens_hash BEFORE INSERT ON device_tokens
    FOR EACH ROW WHEN (NEW.token_hash IS NULL) EXECUTE FUNCTION belfry_hash_token();

-- One change of one device (contracts/events.md, belfry.devices): the rule of the topic and of the functions
-- below, in one place. Says what it did: registered, moved, disabled, seen (nothing new but last_seen),
-- ignored (older than the row's last change, or than the user's erasure; or nothing to unregister).
CREATE FUNCTION belfry_change_device(p_enable boolean, p_token text, p_user_id text, p_platform text,
                                     p_app_version text, p_at timestamptz)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    hash bytea := sha256(convert_to(p_token, 'UTF8'));
    device device_tokens%ROWTYPE;
    did text;
BEGIN
    -- Before the look at the tombstones: an erasure under way is waited for here, and then seen.
    LOCK TABLE device_tokens IN ROW EXCLUSIVE MODE;
    IF p_enable AND EXISTS (SELECT FROM erased_users WHERE user_hash = sha256(convert_to(p_user_id, 'UTF8'))
                                                       AND erased_at >= p_at) THEN
        RETURN 'ignored';
    END IF;
    LOOP
        SELECT * INTO device FROM device_tokens WHERE token_hash = hash FOR UPDATE;
        EXIT WHEN FOUND;
        IF NOT p_enable THEN
            RETURN 'ignored';
        END IF;
        INSERT INTO device_tokens (token, token_hash, user_id, platform, app_version,
                                   registered_at, last_seen, source_at)
        VALUES (p_token, hash, p_user_id, p_platform, p_app_version, p_at, p_at, p_at)
        ON CONFLICT (token_hash) DO NOTHING
        RETURNING * INTO device;
        IF FOUND THEN
            INSERT INTO device_history (device_id, at, change, user_id)
            VALUES (device.id, p_at, 'registered', p_user_id);
            RETURN 'registered';
        END IF; -- else another session was faster: look again
    END LOOP;

    -- A rewind brings the last registration again and must not revive a token the provider called dead; but one
    -- made since then counts, even where it was made before the receipt came and arrives after it.
    IF p_at < device.source_at
       OR (device.disabled_reason = 'DeviceNotRegistered' AND p_at <= device.source_at) THEN
        RETURN 'ignored';
    END IF;
    IF p_enable THEN
        did := CASE WHEN device.user_id <> p_user_id THEN 'moved'
                    WHEN NOT device.enabled THEN 'registered'
                    ELSE 'seen' END;
        UPDATE device_tokens
        SET user_id = p_user_id, platform = p_platform, app_version = p_app_version, enabled = true,
            registered_at = CASE WHEN did = 'seen' THEN registered_at ELSE p_at END,
            last_seen = greatest(last_seen, p_at), source_at = p_at, disabled_at = NULL, disabled_reason = NULL
        WHERE id = device.id;
    ELSE
        did := CASE WHEN device.enabled THEN 'disabled' ELSE 'ignored' END;
        UPDATE device_tokens
        SET enabled = false, source_at = p_at, disabled_at = coalesce(disabled_at, p_at),
            disabled_reason = coalesce(disabled_reason, 'Unregistered')
        WHERE id = device.id;
    END IF;
    IF did IN ('registered', 'moved', 'disabled') THEN
        INSERT INTO device_history (device_id, at, change, user_id, reason)
        VALUES (device.id, p_at, did, coalesce(p_user_id, device.user_id),
                CASE did WHEN 'disabled' THEN 'Unregistered' END);
    END IF;
    RETURN did;
END
$$;

-- Refuses what the topic refuses, without ever printing the token.
CREATE FUNCTION belfry_require_text(p_name text, p_value text, p_bytes_max integer)
RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_value IS NULL OR p_value = '' OR octet_length(p_value) > p_bytes_max THEN
        RAISE EXCEPTION '% must be 1 to % bytes of text', p_name, p_bytes_max USING ERRCODE = '22023';
    END IF;
END
$$;

CREATE FUNCTION belfry_register_device(user_id text, token text, platform text, app_version text DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM belfry_require_text('user_id', user_id, 200);
    PERFORM belfry_require_text('token', token, 4096);
    IF platform IS NULL OR platform NOT IN ('ios', 'android', 'web') THEN
        RAISE EXCEPTION 'platform must be ios, android or web' USING ERRCODE = '22023';
    END IF;
    IF octet_length(app_version) > 100 THEN
        RAISE EXCEPTION 'app_version must be at most 100 bytes of text' USING ERRCODE = '22023';
    END IF;
    PERFORM belfry_change_device(true, token, user_id, platform, app_version, clock_timestamp());
    RETURN (SELECT d.id FROM device_tokens d
            WHERE d.token_hash = sha256(convert_to(belfry_register_device.token, 'UTF8')));
END
$$;
COMMENT ON FUNCTION belfry_register_device IS
    'Registers, enables again or moves a device; returns its id. The same as {"op":"register"} on the topic.';

CREATE FUNCTION belfry_unregister_device(token text)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM belfry_require_text('token', token, 4096);
    RETURN belfry_change_device(false, token, NULL, NULL, NULL, clock_timestamp()) = 'disabled';
END
$$;
COMMENT ON FUNCTION belfry_unregister_device IS 'Soft-disables a device; true when it was enabled.';

-- ---- members -------------------------------------------------------------------------------------------------

CREATE FUNCTION belfry_set_member(workspace_id text, user_id text, role text DEFAULT 'member')
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
BEGIN
    PERFORM belfry_require_text('workspace_id', belfry_set_member.workspace_id, 200);
    PERFORM belfry_require_text('user_id', belfry_set_member.user_id, 200);
    PERFORM belfry_require_text('role', belfry_set_member.role, 200);
    INSERT INTO workspace_members (workspace_id, user_id, role)
    VALUES (belfry_set_member.workspace_id, belfry_set_member.user_id, belfry_set_member.role)
    ON CONFLICT (workspace_id, user_id) DO UPDATE SET role = excluded.role;
END
$$;

CREATE FUNCTION belfry_remove_member(workspace_id text, user_id text)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM workspace_members m
    WHERE m.workspace_id = belfry_remove_member.workspace_id AND m.user_id = belfry_remove_member.user_id;
    RETURN FOUND;
END
$$;

-- ---- a person's rights ---------------------------------------------------------------------------------------

-- Final: what is in flight either commits before the lock is given, and is deleted, or starts after it, and
-- meets the tombstone. Idempotency keys stay until key_retention: with the tombstone they keep a redelivery from
-- bringing anything back. Returns what was removed. Events newer than the erasure are stored again.
CREATE FUNCTION belfry_erase_user(user_id text)
RETURNS json LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    person constant text := belfry_erase_user.user_id;
    batch_list bigint[];
    n_notifications bigint;
    n_dispatches bigint;
    n_devices bigint;
    n_history bigint;
    n_members bigint;
    n_exports bigint;
BEGIN
    PERFORM belfry_require_text('user_id', person, 200);
    -- device_tokens too: a registration in flight would leave a device of the erased person.
    LOCK TABLE notifications, exports, export_rows, device_tokens IN SHARE ROW EXCLUSIVE MODE;
    INSERT INTO erased_users (user_hash, erased_at)
    VALUES (sha256(convert_to(person, 'UTF8')), clock_timestamp())
    ON CONFLICT (user_hash) DO UPDATE SET erased_at = excluded.erased_at;

    SELECT array_agg(DISTINCT batch_id) INTO batch_list FROM notifications
    WHERE recipient_user_id = person AND batch_id IS NOT NULL;
    -- In id order, as the reconciler locks them.
    PERFORM FROM dispatches d
    WHERE d.id IN (SELECT r.id FROM unnest(batch_list) b(id)
                   CROSS JOIN LATERAL (SELECT x.id FROM dispatches x JOIN notifications n ON n.id = x.notification_id
                                       WHERE x.id >= b.id << 20 AND x.id < (b.id + 1) << 20
                                         AND n.recipient_user_id = person) r)
    ORDER BY d.id FOR UPDATE;
    DELETE FROM dispatches d
    USING unnest(batch_list) b(id), notifications n
    WHERE d.id >= b.id << 20 AND d.id < (b.id + 1) << 20
      AND n.id = d.notification_id AND n.recipient_user_id = person;
    GET DIAGNOSTICS n_dispatches = ROW_COUNT;
    DELETE FROM notifications WHERE recipient_user_id = person;
    GET DIAGNOSTICS n_notifications = ROW_COUNT;
    UPDATE retired SET count = count + n_dispatches WHERE what = 'dispatches';
    UPDATE retired SET count = count + n_notifications WHERE what = 'notifications';

    PERFORM FROM device_tokens WHERE user_id = person ORDER BY token_hash FOR UPDATE;
    DELETE FROM device_history h
    WHERE h.user_id = person OR h.device_id IN (SELECT d.id FROM device_tokens d WHERE d.user_id = person);
    GET DIAGNOSTICS n_history = ROW_COUNT;
    DELETE FROM device_tokens WHERE user_id = person;
    GET DIAGNOSTICS n_devices = ROW_COUNT;

    DELETE FROM export_rows WHERE export_id IN (SELECT id FROM exports WHERE user_id = person);
    DELETE FROM exports WHERE user_id = person AND state NOT IN ('queued', 'running');
    GET DIAGNOSTICS n_exports = ROW_COUNT;
    UPDATE exports SET state = 'failed', error = 'erased', rows = 0, bytes = 0, finished_at = clock_timestamp(),
                       expires_at = clock_timestamp()
    WHERE user_id = person;

    DELETE FROM settled_outbox WHERE record ->> 'recipient_user_id' = person;
    DELETE FROM workspace_members WHERE user_id = person;
    GET DIAGNOSTICS n_members = ROW_COUNT;
    RETURN json_build_object('notifications', n_notifications, 'dispatches', n_dispatches,
                             'devices', n_devices, 'device_history', n_history, 'exports', n_exports,
                             'memberships', n_members);
END
$$;
COMMENT ON FUNCTION belfry_erase_user IS
    'Removes all of a person and leaves a tombstone: events not newer than it are never stored.';

-- A token as people may see it.
CREATE FUNCTION belfry_mask_token(token_hash bytea) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT 'sha256:' || left(encode(token_hash, 'hex'), 12)
$$;

CREATE FUNCTION belfry_export_user(user_id text)
RETURNS json LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT json_build_object(
        'user_id', belfry_export_user.user_id,
        'exported_at', statement_timestamp(),
        'memberships', (
            SELECT coalesce(json_agg(json_build_object('workspace_id', m.workspace_id, 'role', m.role)
                                     ORDER BY m.workspace_id), '[]')
            FROM workspace_members m WHERE m.user_id = belfry_export_user.user_id),
        'devices', (
            SELECT coalesce(json_agg(json_build_object(
                'id', d.id::text, 'token', belfry_mask_token(d.token_hash), 'platform', d.platform,
                'app_version', d.app_version, 'enabled', d.enabled, 'registered_at', d.registered_at,
                'last_seen', d.last_seen, 'disabled_at', d.disabled_at, 'disabled_reason', d.disabled_reason)
                ORDER BY d.id), '[]')
            FROM device_tokens d WHERE d.user_id = belfry_export_user.user_id),
        'device_history', (
            SELECT coalesce(json_agg(json_build_object(
                'device_id', h.device_id::text, 'at', h.at, 'change', h.change, 'reason', h.reason)
                ORDER BY h.at, h.device_id), '[]')
            FROM device_history h WHERE h.user_id = belfry_export_user.user_id),
        'notifications', (
            SELECT coalesce(json_agg(json_build_object(
                'id', n.id, 'workspace_id', n.workspace_id, 'event_type', n.event_type, 'category', n.category,
                'title', n.title, 'body', n.body, 'data', n.data, 'push', n.push, 'occurred_at', n.occurred_at,
                'expires_at', n.expires_at, 'created_at', n.created_at, 'read_at', n.read_at,
                'dispatches', (
                    SELECT coalesce(json_agg(json_build_object(
                        'device_id', p.device_id::text, 'state', p.state, 'error', p.error,
                        'queued_at', p.queued_at, 'updated_at', p.updated_at) ORDER BY p.id), '[]')
                    FROM dispatches p
                    WHERE p.id >= n.batch_id << 20 AND p.id < (n.batch_id + 1) << 20
                      AND p.notification_id = n.id))
                ORDER BY n.created_at, n.id), '[]')
            FROM notifications n WHERE n.recipient_user_id = belfry_export_user.user_id))
$$;
COMMENT ON FUNCTION belfry_export_user IS 'All that is held of a person, as one JSON document; tokens are masked.';

-- ---- feeds written by others ---------------------------------------------------------------------------------

-- CREATE TRIGGER … BEFORE INSERT ON your_feed FOR EACH ROW EXECUTE FUNCTION belfry_stamp();
-- created_at is then taken after the table lock and the xid, which is what a gapless newer-walk rests on.
CREATE FUNCTION belfry_stamp() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_current_xact_id();
    NEW.created_at := clock_timestamp();
    RETURN NEW;
END
$$;
