-- One page of notifications in the order of their ids, UUIDs that begin with their millisecond: $1 after this id,
-- $2 most rows, $3 notification_retention in milliseconds. The id bounds the walk, created_at decides: a worker's
-- clock makes the one, the database's the other. One that still has a dispatch stays, so that there is never a
-- dispatch without its notification. Never waits for a row, and counts what it removes in the same statement.
-- One row: last id, rows seen, rows removed, age of the oldest seen in microseconds, old ones held back.
WITH page AS MATERIALIZED (
    SELECT id, created_at, batch_id
    FROM notifications
    WHERE id > $1::uuid
      -- not below 1970, or a table kept for ever would be walked for ever
      AND id < (lpad(to_hex(greatest(0, (extract(epoch FROM now()) * 1000)::int8 - $3::int8)), 12, '0')
                || '00000000000000000000')::uuid
    ORDER BY id
    LIMIT $2::int4
), old AS MATERIALIZED (
    SELECT id, batch_id FROM page WHERE created_at < now() - $3::int8 * interval '1 millisecond'
), pushed AS MATERIALIZED (
    SELECT DISTINCT d.notification_id
    FROM (SELECT DISTINCT batch_id FROM old WHERE batch_id IS NOT NULL) AS b
    CROSS JOIN LATERAL (
        SELECT x.notification_id
        FROM dispatches x
        WHERE x.id >= b.batch_id << 20 AND x.id < (b.batch_id + 1) << 20
        OFFSET 0
    ) AS d
), free AS MATERIALIZED (
    SELECT id FROM old WHERE id NOT IN (SELECT notification_id FROM pushed) -- hashed; neither is ever null
), locked AS MATERIALIZED (
    -- LATERAL … LIMIT 1: by the primary key, analysed or not
    SELECT l.id
    FROM free f
    CROSS JOIN LATERAL (SELECT x.id FROM notifications x WHERE x.id = f.id LIMIT 1 FOR UPDATE SKIP LOCKED) AS l
), gone AS (
    DELETE FROM notifications n
    USING locked l
    WHERE n.id = l.id
    RETURNING n.id
), counted AS (
    UPDATE retired r
    SET count = r.count + g.rows
    FROM (SELECT count(*) AS rows FROM gone) AS g
    WHERE r.what = 'notifications' AND g.rows > 0
)
SELECT (SELECT id FROM page ORDER BY id DESC LIMIT 1) AS last,
       (SELECT count(*) FROM page) AS seen,
       (SELECT count(*) FROM gone) AS removed,
       (SELECT (extract(epoch FROM now() - min(created_at)) * 1000000)::int8 FROM page) AS oldest,
       (SELECT count(*) FROM old) - (SELECT count(*) FROM free) AS held;
