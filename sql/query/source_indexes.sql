-- The keys of a relation's indexes: $1 relation. One row a key column, in order, index by index. name is NULL where
-- the key is an expression. plain: ordered and compared as the column itself is.
SELECT i.indexrelid::int8 AS index,
       quote_ident(s.nspname) || '.' || quote_ident(x.relname) AS sql,
       i.indisunique AS is_unique,
       i.indisvalid AND i.indisready AND i.indislive AS valid,
       i.indpred IS NULL AS whole,
       m.amname = 'btree' AS btree,
       a.attname::text AS name,
       i.indoption[k.place] & 1 = 1 AS falling,
       i.indoption[k.place] & 2 = 2 AS nulls_first,
       coalesce((o.opcdefault OR o.opcname = 'varchar_ops') AND i.indcollation[k.place] = a.attcollation, false)
           AS plain
FROM pg_index AS i
JOIN pg_class AS x ON x.oid = i.indexrelid
JOIN pg_namespace AS s ON s.oid = x.relnamespace
JOIN pg_am AS m ON m.oid = x.relam
CROSS JOIN LATERAL generate_series(0, i.indnkeyatts - 1) AS k (place)
JOIN pg_opclass AS o ON o.oid = i.indclass[k.place]
LEFT JOIN pg_attribute AS a
    ON a.attrelid = i.indrelid AND a.attnum = i.indkey[k.place] AND i.indkey[k.place] > 0
WHERE i.indrelid = $1::int8::oid
ORDER BY i.indexrelid, k.place;
