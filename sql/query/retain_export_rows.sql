-- Rows of exports that expired or failed, $1 at most. By ctid, because they are many and the planner must not
-- guess how many; this statement's snapshot keeps each row in its place. Its one lock for writing is of
-- export_rows: belfry_erase_user locks exports first. Rows touched: how many.
DELETE FROM export_rows
WHERE ctid = ANY (ARRAY(SELECT r.at
                        FROM exports e
                        CROSS JOIN LATERAL (SELECT x.ctid AS at
                                            FROM export_rows x
                                            WHERE x.export_id = e.id
                                            ORDER BY x.ordinal
                                            LIMIT $1::int4) AS r
                        WHERE e.state IN ('expired', 'failed')
                        LIMIT $1::int4));
