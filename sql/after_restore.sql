-- After a logical restore (pg_dump | psql) into another cluster: the rows bring the numbers of the transactions
-- that inserted them, which mean nothing here and could count as not yet committed for ever. 3 is the first number
-- there is: committed before every snapshot. Run it as the owner (of the declared feeds' tables too, or as a
-- superuser) before the readers start; pages of contract=boundary leave such rows out until then. Cursors of the
-- old cluster are refused by themselves (410).
UPDATE notifications SET inserted_xid = '3' WHERE inserted_xid <> '3';

-- Likewise of every relation whose xid column belfry_stamp sets. An xid_column that a default alone sets is yours
-- to update in the same way.
DO $$
DECLARE
    stamped record;
BEGIN
    FOR stamped IN SELECT feed, xid_column FROM belfry_stamped WHERE xid_column IS NOT NULL LOOP
        EXECUTE format('UPDATE %1$s SET %2$I = ''3'' WHERE %2$I <> ''3''', stamped.feed, stamped.xid_column);
    END LOOP;
END
$$;
