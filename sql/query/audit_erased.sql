-- What is held of people although it was recorded before their erasure: finding, how many, the first ids. $1
-- how many ids. With nobody erased nothing is read.
SELECT b.finding, count(*), string_agg(b.id, ' ' ORDER BY b.id) FILTER (WHERE b.place <= $1::int4)
FROM (
    SELECT a.finding, a.id, row_number() OVER (PARTITION BY a.finding ORDER BY a.id) AS place
    FROM (
        SELECT 'notification_of_erased' AS finding, n.id::text
        FROM notifications n
        JOIN erased_users u ON u.user_hash = sha256(convert_to(n.recipient_user_id, 'UTF8'))
        WHERE coalesce(n.event_at, n.created_at) <= u.erased_at
        UNION ALL
        SELECT 'device_of_erased', d.id::text
        FROM device_tokens d
        JOIN erased_users u ON u.user_hash = sha256(convert_to(d.user_id, 'UTF8'))
        WHERE d.source_at <= u.erased_at
    ) AS a
) AS b
GROUP BY b.finding;
