-- Settled records as the product makes them: every state and error, with texts that are hard to write as JSON.
SELECT belfry_settled_record(d, '01a22e2f-4e4e-757a-bc43-b2c51ed55cf7', t, t, -d, s, e,
                             timestamptz '2026-11-30 20:55:07.533625+00' + d % 1000 * interval '1 microsecond')
FROM (VALUES (1::bigint), (2097152), (9223372036854775807)) AS ids (d),
     (VALUES ('initech'), ('"'), ('\'), (E'\x01\x1f\b\f\n\r\t'), (E'\x7f'), ('Zoë 日本 😀'), (E'\u2028'),
             (repeat('"', 200))) AS texts (t),
     (VALUES ('delivered', NULL), ('expired', NULL), ('receipt_error', 'DeviceNotRegistered'),
             ('failed', 'Unconfirmed'), ('failed', 'ProviderRejected'), ('suppressed', 'PushOff'),
             ('failed', repeat('é', 96))) AS ends (s, e);
