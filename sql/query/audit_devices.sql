-- Devices whose marks contradict each other: finding, how many, the first ids. $1 how many ids.
SELECT b.finding, count(*), string_agg(b.id::text, ' ' ORDER BY b.id) FILTER (WHERE b.place <= $1::int4)
FROM (
    SELECT f.finding, d.id, row_number() OVER (PARTITION BY f.finding ORDER BY d.id) AS place
    FROM device_tokens d
    CROSS JOIN LATERAL (VALUES
        ('device_on_with_reason', d.enabled AND (d.disabled_reason IS NOT NULL OR d.disabled_at IS NOT NULL)),
        ('device_off_without_reason',
         NOT d.enabled AND (d.disabled_reason IS NULL OR d.disabled_at IS NULL)),
        ('device_with_wrong_hash', d.token_hash <> sha256(convert_to(d.token, 'UTF8')))
    ) AS f (finding, broken)
    WHERE f.broken
) AS b
GROUP BY b.finding;
