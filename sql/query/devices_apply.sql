-- A batch of device records with the offsets it came from: everything or nothing. The rule for one record is
-- belfry_change_device, which the SQL functions use too; it is called only for rows joined to ok.
-- $1 group $2 topic $3 parts · $4-$11 one row a part · $12-$17 one row a record
WITH parts AS MATERIALIZED (
    SELECT * FROM unnest($4::int4[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[], $10::int8[],
                         $11::int8[])
        AS p (partition, generation, start, stop, records, tombstones, dead_letters, events)
), held AS MATERIALIZED (
    SELECT o.partition
    FROM partition_offsets o JOIN parts p ON o.group_id = $1 AND o.topic = $2 AND o.partition = p.partition
    WHERE o.next_offset = p.start AND o.generation = p.generation
    ORDER BY o.topic, o.partition
    FOR UPDATE OF o
), ok AS MATERIALIZED (
    SELECT 1 FROM (SELECT count(*) AS held FROM held) AS h WHERE h.held = $3::int4
), newest AS MATERIALIZED (
    -- The newest of each token; sorted by what the rows are locked by.
    SELECT DISTINCT ON (hash) *
    FROM (SELECT r.*, sha256(convert_to(r.token, 'UTF8')) AS hash
          FROM ok CROSS JOIN unnest($12::bool[], $13::text[], $14::text[], $15::text[], $16::text[],
                                    $17::timestamptz[]) WITH ORDINALITY
              AS r (enable, token, user_id, platform, app_version, at, place)) AS r
    ORDER BY hash, at DESC, place DESC
), applied AS MATERIALIZED (
    SELECT belfry_change_device(n.enable, n.token, n.user_id, n.platform, n.app_version, n.at) AS did
    FROM newest n
), moved AS (
    UPDATE partition_offsets o
    SET next_offset = p.stop, records = o.records + p.records, tombstones = o.tombstones + p.tombstones,
        dead_letters = o.dead_letters + p.dead_letters, events = o.events + p.events
    FROM ok CROSS JOIN parts p
    WHERE o.group_id = $1 AND o.topic = $2 AND o.partition = p.partition
    RETURNING o.partition
)
SELECT EXISTS (SELECT FROM ok) AS moved,
       count(*) FILTER (WHERE did = 'registered') AS registered,
       count(*) FILTER (WHERE did = 'moved') AS moved_owner,
       count(*) FILTER (WHERE did = 'disabled') AS disabled,
       count(*) FILTER (WHERE did = 'seen') AS seen,
       -- with those that a newer one of the batch made void
       CASE WHEN EXISTS (SELECT FROM ok) THEN cardinality($12::bool[])::int8 ELSE 0 END
           - count(*) FILTER (WHERE did <> 'ignored') AS ignored
FROM applied;
