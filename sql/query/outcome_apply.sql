-- One batch of the receipts topic into guarded transitions (design.md §3): states, receipt_batches, dead
-- tokens and the group's offsets move together or not at all.
--   $1 group $2 topic
--   $3-$9 the parts: partition, generation, start and end of the batch, records, tombstones, dead letters
--   $10-$13 one item for each dispatch, in id order: id, notification, device, how many outcomes it folds
--   $14-$16 state, error, ticket it ends in when it now stands at `queued` (state NULL: it does not move)
--   $17-$19 the same when it now stands at failed/Unconfirmed
--   $20 when the provider took it, by the dispatcher's clock (where $14 or $17 is `sent`)
--   $21 receipt_delay in milliseconds · $22 whether final states go to settled_outbox too
-- One row: held, then how many dispatches became sent, failed, suppressed, how many outcomes moved
-- nothing, how many found no dispatch, how many tokens were disabled. Not held: nothing moved, the counts
-- mean nothing. Rows are locked here and in receipts_apply.sql in one order: offsets, dispatches,
-- receipt_batches, device_tokens, each by its key. LATERAL … LIMIT 1 makes every look-up of a dispatch one
-- of its primary key, analysed or not.
WITH parts AS MATERIALIZED (
    SELECT *
    FROM unnest($3::int4[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[])
         AS p (partition, generation, start, stop, records, tombstones, dead_letters)
), held AS MATERIALIZED (
    SELECT o.partition
    FROM parts p
    JOIN partition_offsets o ON o.group_id = $1 AND o.topic = $2 AND o.partition = p.partition
    WHERE o.next_offset = p.start AND o.generation = p.generation
    ORDER BY o.topic, o.partition
    FOR UPDATE OF o
), ok AS MATERIALIZED (
    SELECT clock_timestamp() AS at
    WHERE (SELECT count(*) FROM held) = (SELECT count(*) FROM parts)
), items AS MATERIALIZED (
    SELECT *
    FROM unnest($10::int8[], $11::uuid[], $12::int8[], $13::int4[], $14::text[], $15::text[], $16::text[],
                $17::text[], $18::text[], $19::text[], $20::timestamptz[])
         AS i (dispatch_id, notification_id, device_id, outcomes, queued_state, queued_error, queued_ticket,
               unconfirmed_state, unconfirmed_error, unconfirmed_ticket, sent_at)
    ORDER BY dispatch_id
), locked AS MATERIALIZED (
    SELECT d.id, i.outcomes, i.sent_at,
           CASE WHEN d.state = 'queued' THEN i.queued_state
                WHEN d.state = 'failed' AND d.error = 'Unconfirmed' THEN i.unconfirmed_state END AS to_state,
           CASE WHEN d.state = 'queued' THEN i.queued_error ELSE i.unconfirmed_error END AS to_error,
           CASE WHEN d.state = 'queued' THEN i.queued_ticket ELSE i.unconfirmed_ticket END AS to_ticket
    FROM ok
    CROSS JOIN items i
    CROSS JOIN LATERAL (
        SELECT x.id, x.state, x.error
        FROM dispatches x
        WHERE x.id = i.dispatch_id AND x.notification_id = i.notification_id AND x.device_id = i.device_id
        LIMIT 1
        FOR UPDATE
    ) AS d
), moved AS (
    UPDATE dispatches d
    SET state = l.to_state, error = l.to_error, ticket = l.to_ticket, updated_at = ok.at
    FROM ok
    CROSS JOIN locked l
    WHERE d.id = l.id AND l.to_state IN ('sent', 'failed', 'suppressed')
    RETURNING d.id, d.state, d.error, d.notification_id, d.device_id, d.queued_at, l.sent_at
), due AS (
    INSERT INTO receipt_batches AS r (batch_id, due_at, version)
    SELECT m.id >> 20, min(least(m.sent_at, ok.at)) + $21::int8 * interval '1 millisecond', 1
    FROM ok
    CROSS JOIN moved m
    WHERE m.state = 'sent'
    GROUP BY m.id >> 20
    ORDER BY m.id >> 20
    ON CONFLICT (batch_id) DO UPDATE SET due_at = least(r.due_at, excluded.due_at), version = r.version + 1
    RETURNING r.batch_id
), announced AS (
    INSERT INTO settled_outbox (dispatch_id, record)
    SELECT m.id, belfry_settled_record(m.id, m.notification_id, n.workspace_id, n.recipient_user_id, m.device_id,
                                       m.state, m.error, ok.at)
    FROM ok
    CROSS JOIN moved m
    CROSS JOIN LATERAL (
        SELECT x.workspace_id, x.recipient_user_id FROM notifications x WHERE x.id = m.notification_id LIMIT 1
    ) AS n
    WHERE $22::bool AND m.state <> 'sent'
), gone AS MATERIALIZED (
    SELECT m.device_id, n.recipient_user_id AS user_id, max(m.queued_at) AS queued_at
    FROM moved m
    JOIN notifications n ON n.id = m.notification_id
    WHERE m.state = 'failed' AND m.error = 'DeviceNotRegistered' AND (SELECT count(*) FROM due) >= 0
    GROUP BY m.device_id, n.recipient_user_id
), token AS MATERIALIZED (
    SELECT t.id
    FROM gone g
    JOIN device_tokens t ON t.id = g.device_id AND t.user_id = g.user_id
    WHERE t.enabled
      AND greatest(t.registered_at, t.last_seen, t.source_at) <= g.queued_at
    ORDER BY t.token_hash -- as registrations and erasure lock them
    FOR UPDATE OF t
), disabled AS (
    UPDATE device_tokens t
    SET enabled = false, disabled_at = ok.at, disabled_reason = 'DeviceNotRegistered'
    FROM ok
    CROSS JOIN token
    WHERE t.id = token.id
    RETURNING t.id, t.user_id
), history AS (
    INSERT INTO device_history (device_id, at, change, user_id, reason)
    SELECT x.id, ok.at, 'disabled', x.user_id, 'DeviceNotRegistered'
    FROM ok
    CROSS JOIN disabled x
), advanced AS (
    UPDATE partition_offsets o
    SET next_offset = p.stop,
        records = o.records + p.records,
        tombstones = o.tombstones + p.tombstones,
        dead_letters = o.dead_letters + p.dead_letters,
        events = o.events + p.records - p.tombstones - p.dead_letters
    FROM ok
    CROSS JOIN parts p
    WHERE o.group_id = $1 AND o.topic = $2 AND o.partition = p.partition
)
SELECT EXISTS (SELECT FROM ok) AS held,
       (SELECT count(*) FROM moved WHERE state = 'sent') AS sent,
       (SELECT count(*) FROM moved WHERE state = 'failed') AS failed,
       (SELECT count(*) FROM moved WHERE state = 'suppressed') AS suppressed,
       (SELECT coalesce(sum(outcomes), 0)::int8 FROM locked) - (SELECT count(*) FROM moved) AS ignored,
       (SELECT coalesce(sum(n), 0)::int8 FROM unnest($13::int4[]) AS u (n))
           - (SELECT coalesce(sum(outcomes), 0)::int8 FROM locked) AS orphans,
       (SELECT count(*) FROM disabled) AS disabled;
