-- After a logical restore (pg_dump | psql) into another cluster: the rows bring the numbers of the transactions
-- that inserted them, which mean nothing here and could count as not yet committed for ever. 3 is the first number
-- there is: committed before every snapshot. Run it as the owner before the readers start; pages of
-- contract=boundary leave such rows out until then. Cursors of the old cluster are refused by themselves (410).
-- A declared feed with an xid_column needs the same for its relation.
UPDATE notifications SET inserted_xid = '3' WHERE inserted_xid <> '3';
