-- The columns a declared feed names: $1 relation, $2 names. One row a name, in order. type: of a domain the one it
-- is over; "enum" of any enum; "" of what somebody else defined. bytewise: texts are compared by their bytes.
SELECT a.attnum IS NOT NULL AS there,
       quote_ident(w.name) AS sql,
       CASE WHEN b.typtype = 'e' THEN 'enum'
            WHEN b.typnamespace = 'pg_catalog'::regnamespace THEN b.typname::text
            ELSE '' END AS type,
       format_type(a.atttypid, a.atttypmod) AS shown,
       coalesce(a.attnotnull, false) AS not_null,
       coalesce((k.collprovider = 'c' AND k.collcollate IN ('C', 'POSIX'))
                OR (k.collprovider = 'd' AND d.datlocprovider = 'c' AND d.datcollate IN ('C', 'POSIX')), false)
           AS bytewise,
       coalesce(k.collisdeterministic, true) AS exact,
       coalesce(has_column_privilege($1::int8::oid, a.attnum, 'SELECT'), false) AS readable,
       coalesce(pg_get_expr(v.adbin, v.adrelid) = 'pg_current_xact_id()', false) AS is_xid_by_default
FROM unnest($2::text[]) WITH ORDINALITY AS w (name, place)
JOIN pg_database AS d ON d.datname = current_database()
LEFT JOIN pg_attribute AS a
    ON a.attrelid = $1::int8::oid AND a.attname = w.name AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_type AS t ON t.oid = a.atttypid
LEFT JOIN pg_type AS b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
LEFT JOIN pg_collation AS k ON k.oid = a.attcollation
LEFT JOIN pg_attrdef AS v ON v.adrelid = a.attrelid AND v.adnum = a.attnum AND a.attgenerated = ''
ORDER BY w.place;
