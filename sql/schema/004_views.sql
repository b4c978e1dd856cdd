-- What people look at: the books, and the devices without their tokens.
-- oldest_ok: 4

SET LOCAL ROLE belfry_migrator;

-- The three balances of design.md §6, each side from another source, in one snapshot. The first holds for every
-- partition by itself; its sums add both of its equations.
CREATE VIEW belfry_books (balance, left_sum, right_sum, ok, detail) AS
WITH counted AS (
    SELECT coalesce(sum(records), 0)::bigint AS records, coalesce(sum(tombstones), 0)::bigint AS tombstones,
           coalesce(sum(dead_letters), 0)::bigint AS dead_letters, coalesce(sum(events), 0)::bigint AS events,
           coalesce(sum(recipients), 0)::bigint AS recipients,
           coalesce(sum(notifications), 0)::bigint AS notifications,
           coalesce(sum(duplicates), 0)::bigint AS duplicates, coalesce(sum(erased), 0)::bigint AS erased,
           coalesce(sum(dispatches), 0)::bigint AS dispatches,
           count(*) FILTER (WHERE records <> tombstones + dead_letters + events
                               OR recipients <> notifications + duplicates + erased) AS unbalanced
    FROM partition_offsets
), stored AS (
    SELECT count(*) AS rows FROM notifications
), by_state AS (
    SELECT state, count(*) AS rows FROM dispatches GROUP BY state
), gone AS (
    SELECT coalesce(sum(count) FILTER (WHERE what = 'notifications'), 0)::bigint AS notifications,
           coalesce(sum(count) FILTER (WHERE what = 'dispatches'), 0)::bigint AS dispatches
    FROM retired
), queued AS (
    SELECT coalesce(sum(rows), 0)::bigint AS rows, coalesce(json_object_agg(state, rows ORDER BY state), '{}') AS states
    FROM by_state
)
SELECT 'ingest'::text, c.records + c.recipients,
       c.tombstones + c.dead_letters + c.events + c.notifications + c.duplicates + c.erased,
       c.unbalanced = 0,
       json_build_object('records', c.records, 'tombstones', c.tombstones, 'dead_letters', c.dead_letters,
                         'events', c.events, 'recipients', c.recipients, 'notifications', c.notifications,
                         'duplicates', c.duplicates, 'erased', c.erased, 'unbalanced_partitions', c.unbalanced)
FROM counted c
UNION ALL
SELECT 'notifications', c.notifications, s.rows + g.notifications, c.notifications = s.rows + g.notifications,
       json_build_object('counted', c.notifications, 'rows', s.rows, 'retired', g.notifications)
FROM counted c, stored s, gone g
UNION ALL
SELECT 'dispatches', c.dispatches, q.rows + g.dispatches, c.dispatches = q.rows + g.dispatches,
       json_build_object('counted', c.dispatches, 'rows', q.rows, 'states', q.states, 'retired', g.dispatches)
FROM counted c, queued q, gone g;

CREATE VIEW belfry_devices AS
SELECT id, belfry_mask_token(token_hash) AS token, user_id, platform, app_version, enabled, registered_at,
       last_seen, source_at, disabled_at, disabled_reason
FROM device_tokens;
