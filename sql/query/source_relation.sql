-- What a declared feed is read from, and whether belfry_stamp stamps it: $1 schema (NULL: as the search_path finds
-- it), $2 name. Always one row; relation is NULL when there is none of that name.
SELECT c.oid::int8 AS relation,
       quote_ident(s.nspname) || '.' || quote_ident(c.relname) AS sql,
       c.relkind::text AS kind,
       has_schema_privilege(s.oid, 'USAGE') AS usable,
       EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid) AS has_children,
       quote_ident(s.nspname) AS schema_sql,
       quote_ident(current_user) AS me,
       current_schemas(false)::text AS searched,
       t.feed IS NOT NULL AS stamped,
       t.xid_column,
       EXISTS (SELECT FROM settled WHERE settled.feed = t.feed) AS settled
FROM (VALUES (1)) AS one (one)
LEFT JOIN (pg_class AS c JOIN pg_namespace AS s ON s.oid = c.relnamespace)
    ON c.relname = $2::text
   AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
   AND CASE WHEN $1::text IS NULL THEN pg_table_is_visible(c.oid) ELSE s.nspname = $1::text END
LEFT JOIN belfry_stamped AS t ON t.relation = c.oid;
