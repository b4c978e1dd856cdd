-- Keys against notifications: finding, how many, the first. $1 how many to name · $2 in milliseconds, the
-- shorter of key_retention and notification_retention.
--
-- A key names run, type and recipient, not the notification; but both have the claim's one timestamp. So
-- within the retention of both, each (type, recipient, workspace, time) has as many keys as notifications.
-- Erased people's keys outlive their notifications: left out as far as they are older than the erasure.
--
-- The two tables are compared as sums of hashes in 16,384 buckets, one pass over each and no memory to speak
-- of; only buckets that differ are looked at row by row. Purging uses the clock of its own start, which
-- committed before this snapshot: what it took is older than $2 by statement_timestamp().
WITH last_erasure AS MATERIALIZED (
    SELECT coalesce(max(erased_at), '-infinity') AS at FROM erased_users
), held AS NOT MATERIALIZED (
    SELECT hashtextextended((split_part(k.key, ':', 3) || ':' || split_part(k.key, ':', 4) || ':' ||
                             k.workspace_id || ':' || extract(epoch FROM k.claimed_at)) COLLATE "C", 0) AS h,
           1 AS side, left(k.workspace_id || '/' || k.key, 160) COLLATE "C" AS label
    FROM idempotency_keys k
    WHERE k.claimed_at >= statement_timestamp() - $2::int8 * interval '1 millisecond'
      AND (k.claimed_at > (SELECT at FROM last_erasure) OR NOT EXISTS (
              SELECT FROM erased_users u
              WHERE u.erased_at >= k.claimed_at
                AND u.user_hash = sha256(convert_to(replace(replace(replace(split_part(k.key, ':', 4),
                        '%7E', '~'), '%3A', ':'), '%25', '%'), 'UTF8'))))
    UNION ALL
    SELECT hashtextextended(
               (regexp_replace(replace(replace(n.event_type, '%', '%25'), ':', '%3A'), '^~', '%7E') || ':' ||
                regexp_replace(replace(replace(n.recipient_user_id, '%', '%25'), ':', '%3A'), '^~', '%7E') ||
                ':' || n.workspace_id || ':' || extract(epoch FROM n.created_at)) COLLATE "C", 0),
           -1, n.id::text COLLATE "C"
    FROM notifications n
    WHERE n.created_at >= statement_timestamp() - $2::int8 * interval '1 millisecond'
      AND (n.created_at > (SELECT at FROM last_erasure) OR NOT EXISTS (
              SELECT FROM erased_users u
              WHERE u.erased_at >= n.created_at
                AND u.user_hash = sha256(convert_to(n.recipient_user_id, 'UTF8'))))
), differing AS MATERIALIZED (
    SELECT h & 16383 AS bucket
    FROM held
    GROUP BY h & 16383
    HAVING sum(side) <> 0 OR sum(side * (h >> 17)) <> 0
), unpaired AS (
    SELECT sum(side) AS surplus, min(label) AS label
    FROM held
    WHERE EXISTS (SELECT FROM differing) AND h & 16383 IN (SELECT bucket FROM differing)
    GROUP BY h
    HAVING sum(side) <> 0
)
SELECT b.finding, sum(b.rows)::int8,
       string_agg(b.label, ' ' ORDER BY b.label) FILTER (WHERE b.place <= $1::int4)
FROM (
    SELECT f.finding, abs(u.surplus) AS rows, u.label,
           row_number() OVER (PARTITION BY f.finding ORDER BY u.label) AS place
    FROM unpaired u
    CROSS JOIN LATERAL (SELECT CASE WHEN u.surplus > 0 THEN 'key_without_notification'
                                    ELSE 'notification_without_key' END) AS f (finding)
) AS b
GROUP BY b.finding;
