-- A batch of events into keys, notifications, dispatches and batches, with the offsets it came from: everything or
-- nothing (design.md §1 point 3). Every writing part joins ok, which has one row when all parts are still ours
-- and none otherwise. No aggregate without GROUP BY stands where a write depends on it: it would make a row of
-- nothing.
--
-- generate_series in ROWS FROM is there for the planner: it takes an array parameter for 10 rows, and then a
-- filter or two for one, and joins 10,000 by 10,000 in a nested loop. A series counts for 1,000.
-- $1 group $2 topic $3 parts · $4-$12 one row a part · $13 events · $14-$28 one row an event
-- $29 recipients · $30-$33 one row a recipient · $34 devices a user · $35 push_max_age ms
-- $36 owner, null: the batches stay free · $37 lease ms · $38 SHA-256 of each recipient's user id
-- $39 whether what is suppressed at once, and so final, goes to settled_outbox too
WITH parts AS MATERIALIZED (
    SELECT * FROM ROWS FROM (unnest($4::int4[]), unnest($5::int8[]), unnest($6::int8[]), unnest($7::int8[]),
                             unnest($8::int8[]), unnest($9::int8[]), unnest($10::int8[]), unnest($11::int8[]),
                             unnest($12::int8[]), generate_series(1, $3::int4))
        AS p (partition, generation, start, stop, records, tombstones, dead_letters, events, recipients, part)
), held AS MATERIALIZED (
    SELECT p.part
    FROM partition_offsets o JOIN parts p
      ON o.group_id = $1 AND o.topic = $2 AND o.partition = p.partition
    WHERE o.next_offset = p.start AND o.generation = p.generation
    ORDER BY o.topic, o.partition
    FOR UPDATE OF o
), ok AS MATERIALIZED (
    -- In this order: the xid, then the clock (the reader's gapless walk rests on it).
    SELECT pg_current_xact_id() AS xid, clock_timestamp() AS at, nextval('batch_ids') AS urgent_batch,
           nextval('batch_ids') AS normal_batch
    FROM (SELECT count(*) AS held FROM held) AS h
    WHERE h.held = $3
), events AS MATERIALIZED (
    SELECT e.*, CASE WHEN e.push_off THEN 'PushOff'
                     WHEN e.expires_at <= ok.at OR e.event_at < ok.at - $35::int8 * interval '1 millisecond'
                         THEN 'Expired' END AS suppress,
           CASE WHEN e.urgent THEN ok.urgent_batch ELSE ok.normal_batch END AS batch_id, ok.at
    FROM ok CROSS JOIN ROWS FROM (
        unnest($14::int4[]), unnest($15::text[]), unnest($16::text[]), unnest($17::text[]), unnest($18::text[]),
        unnest($19::text[]), unnest($20::json[]), unnest($21::json[]), unnest($22::text[]),
        unnest($23::timestamptz[]), unnest($24::timestamptz[]), unnest($25::timestamptz[]), unnest($26::int8[]),
        unnest($27::bool[]), unnest($28::bool[]), generate_series(1, $13::int4))
        AS e (part, workspace_id, event_type, category, title, body, data, push, traceparent,
              occurred_at, expires_at, event_at, content_hash, push_off, urgent, event)
), asked AS MATERIALIZED (
    SELECT r.recipient, r.user_id, r.key COLLATE "C" AS key, r.id, e.event, e.part,
           e.workspace_id COLLATE "C" AS workspace_id, e.content_hash,
           EXISTS (SELECT FROM erased_users u
                   WHERE u.user_hash = r.user_hash AND u.erased_at >= e.event_at) AS erased
    FROM ROWS FROM (unnest($30::int4[]), unnest($31::text[]), unnest($32::text[]), unnest($33::uuid[]),
                    unnest($38::bytea[]), generate_series(1, $29::int4))
        AS r (event, user_id, key, id, user_hash, recipient)
    JOIN events e ON e.event = r.event
), want AS MATERIALIZED (
    -- Equal keys: the first of this statement. Sorted, for unsorted claims of several workers deadlock.
    SELECT DISTINCT ON (key, workspace_id) * FROM asked WHERE NOT erased ORDER BY key, workspace_id, recipient
), claimed AS (
    INSERT INTO idempotency_keys (key, workspace_id, content_hash, claimed_at)
    SELECT w.key, w.workspace_id, w.content_hash, ok.at
    FROM ok CROSS JOIN want w
    ORDER BY w.key, w.workspace_id
    ON CONFLICT (key, workspace_id) DO NOTHING
    RETURNING key, workspace_id
), fresh AS MATERIALIZED (
    SELECT w.id, w.user_id, e.*
    FROM want w
    JOIN claimed c ON c.key = w.key AND c.workspace_id = w.workspace_id
    JOIN events e ON e.event = w.event
), stored AS (
    INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, category, title, body, data, push,
                               traceparent, occurred_at, expires_at, event_at, created_at, batch_id)
    SELECT f.id, f.workspace_id, f.user_id, f.event_type, f.category, f.title, f.body, f.data, f.push,
           f.traceparent, f.occurred_at, f.expires_at, f.event_at, ok.at, f.batch_id
    FROM ok CROSS JOIN fresh f
    ORDER BY f.id
    RETURNING id
), targets AS MATERIALIZED (
    -- What is to be sent comes first, in the order of the events, so that unsent is one range.
    SELECT f.id, f.part, f.batch_id, f.urgent, f.suppress, d.device_id,
           row_number() OVER (PARTITION BY f.batch_id
                              ORDER BY f.suppress IS NOT NULL, f.id, d.last_seen DESC, d.device_id) - 1 AS ordinal
    FROM fresh f
    CROSS JOIN LATERAL (
        SELECT t.id AS device_id, t.last_seen
        FROM device_tokens t
        WHERE t.user_id = f.user_id AND t.enabled
        ORDER BY t.last_seen DESC, t.id
        LIMIT $34) AS d
), queued AS (
    -- An ordinal past 20 bits would run into the next batch: the division fails (22012), and halves fit.
    INSERT INTO dispatches (id, notification_id, device_id, state, error, queued_at, updated_at)
    SELECT t.batch_id << 20 | t.ordinal / (t.ordinal < 1048576)::int4, t.id, t.device_id,
           CASE WHEN t.suppress IS NULL THEN 'queued' ELSE 'suppressed' END, t.suppress, ok.at, ok.at
    FROM ok CROSS JOIN targets t
    ORDER BY t.batch_id, t.ordinal
    RETURNING id
), announced AS (
    INSERT INTO settled_outbox (dispatch_id, record)
    SELECT t.batch_id << 20 | t.ordinal,
           belfry_settled_record(t.batch_id << 20 | t.ordinal, t.id, f.workspace_id, f.user_id, t.device_id,
                                 'suppressed', t.suppress, ok.at)
    FROM ok CROSS JOIN targets t JOIN fresh f ON f.id = t.id
    WHERE $39::bool AND t.suppress IS NOT NULL
    ORDER BY t.batch_id, t.ordinal
), handed AS (
    INSERT INTO batches (id, owner, urgent, unsent, leased_until, created_at)
    SELECT t.batch_id, $36::int8, t.urgent, int4multirange(int4range(0, t.unsent)),
           CASE WHEN $36::int8 IS NOT NULL THEN ok.at + $37::int8 * interval '1 millisecond' END, ok.at
    FROM ok CROSS JOIN (SELECT batch_id, urgent, count(*)::int4 AS unsent FROM targets
                        WHERE suppress IS NULL GROUP BY batch_id, urgent) AS t
    RETURNING id, urgent, upper(unsent) AS unsent
), counts AS MATERIALIZED (
    SELECT part, sum(asked) AS asked, sum(erased) AS erased, sum(stored) AS stored, sum(queued) AS queued
    FROM (SELECT part, 1 AS asked, erased::int4 AS erased, 0 AS stored, 0 AS queued FROM asked
          UNION ALL SELECT f.part, 0, 0, 1, 0 FROM stored s JOIN fresh f USING (id)
          UNION ALL SELECT part, 0, 0, 0, 1 FROM targets) AS c (part, asked, erased, stored, queued)
    GROUP BY part
), moved AS (
    UPDATE partition_offsets o
    SET next_offset = p.stop, records = o.records + p.records, tombstones = o.tombstones + p.tombstones,
        dead_letters = o.dead_letters + p.dead_letters, events = o.events + p.events,
        recipients = o.recipients + p.recipients,
        notifications = o.notifications + coalesce(c.stored, 0),
        duplicates = o.duplicates + coalesce(c.asked - c.erased - c.stored, 0),
        erased = o.erased + coalesce(c.erased, 0), dispatches = o.dispatches + coalesce(c.queued, 0)
    FROM ok CROSS JOIN parts p LEFT JOIN counts c ON c.part = p.part
    WHERE o.group_id = $1 AND o.topic = $2 AND o.partition = p.partition
    RETURNING o.partition
), mismatched AS (
    SELECT a.recipient
    FROM asked a
    JOIN want w ON w.key = a.key AND w.workspace_id = a.workspace_id
    LEFT JOIN claimed c ON c.key = w.key AND c.workspace_id = w.workspace_id
    LEFT JOIN LATERAL (SELECT k.content_hash FROM idempotency_keys k
                       WHERE c.key IS NULL AND k.key = w.key AND k.workspace_id = w.workspace_id
                       OFFSET 0) AS k ON true
    WHERE NOT a.erased AND a.content_hash <> coalesce(k.content_hash, w.content_hash)
)
-- One row, or one for each of the first mismatches: the totals, then the recipient's number or null.
SELECT EXISTS (SELECT FROM ok) AS moved,
       (SELECT at FROM ok) AS created_at,
       (SELECT count(*) FROM stored) AS notifications,
       (SELECT coalesce(sum(asked - erased - stored), 0)::int8 FROM counts) AS duplicates,
       (SELECT coalesce(sum(erased), 0)::int8 FROM counts) AS erased,
       (SELECT count(*) FROM queued) AS dispatches,
       (SELECT count(*) FROM targets WHERE suppress IS NOT NULL) AS suppressed,
       (SELECT id FROM handed WHERE urgent) AS urgent_batch,
       (SELECT unsent FROM handed WHERE urgent) AS urgent_unsent,
       (SELECT id FROM handed WHERE NOT urgent) AS normal_batch,
       (SELECT unsent FROM handed WHERE NOT urgent) AS normal_unsent,
       (SELECT count(*) FROM mismatched) AS mismatches,
       m.recipient AS mismatch
FROM (SELECT) AS one LEFT JOIN (SELECT recipient FROM mismatched ORDER BY recipient LIMIT 16) AS m ON true;
