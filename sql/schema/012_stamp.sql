-- Feeds over relations that others write (contracts/reader-api.md, *newer*): the trigger function that stamps their
-- rows, and the one list of the relations it stamps, by which the reconciler moves their bounds in settled, the
-- reader calls a feed gapless and sql/after_restore.sql finds their xid columns. deploy/README.md has the steps.
-- oldest_ok: 5

SET LOCAL ROLE belfry_migrator;

-- CREATE TRIGGER zz_belfry_stamp BEFORE INSERT OR UPDATE OF created_at, id, inserted_xid ON your_feed
--     FOR EACH ROW EXECUTE FUNCTION belfry_stamp('inserted_xid');
-- The argument names the xid8 column of contract=boundary and may be left out. Triggers run by name, and one behind
-- this that sets created_at again would undo it: hence zz_.
-- A row's created_at is taken after the table's lock, which the INSERT holds by now, and after the xid: what no
-- lock told the reconciler of when it looked is newer than its bound. The sort key stays as it is; an xid may only
-- become 3, "before everything", as sql/after_restore.sql needs it.
CREATE OR REPLACE FUNCTION belfry_stamp() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    xid text := pg_current_xact_id()::text;
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.created_at := clock_timestamp();
        IF TG_NARGS > 0 THEN -- the other members stay what they are
            NEW := jsonb_populate_record(NEW, jsonb_build_object(TG_ARGV[0], xid));
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.created_at IS DISTINCT FROM OLD.created_at OR NEW.id IS DISTINCT FROM OLD.id THEN
        RAISE EXCEPTION 'created_at and id of % are the order of its feed and never change', TG_TABLE_NAME
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF TG_NARGS > 0 AND to_jsonb(NEW) -> TG_ARGV[0] NOT IN (to_jsonb(OLD) -> TG_ARGV[0], '"3"') IS NOT FALSE THEN
        RAISE EXCEPTION '% of % says who inserted a row and never changes', TG_ARGV[0], TG_TABLE_NAME
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
$$;

-- Of a partitioned table its root; not what is disabled, has a WHEN, or runs before another trigger that sets rows.
CREATE VIEW belfry_stamped AS
SELECT c.oid AS relation,
       quote_ident(s.nspname) || '.' || quote_ident(c.relname) AS feed, -- its key in settled
       CASE WHEN t.tgnargs > 0
            THEN convert_from(substring(t.tgargs FROM 1 FOR position('\x00'::bytea IN t.tgargs) - 1), 'UTF8')
       END AS xid_column
FROM pg_trigger AS t
JOIN pg_class AS c ON c.oid = t.tgrelid
JOIN pg_namespace AS s ON s.oid = c.relnamespace
WHERE t.tgfoid = 'belfry_stamp()'::regprocedure
  AND t.tgparentid = 0
  AND t.tgenabled IN ('O', 'A')
  AND t.tgtype & 71 = 7 -- BEFORE INSERT, each row
  AND t.tgqual IS NULL
  AND NOT EXISTS (SELECT FROM pg_trigger AS later
                  WHERE later.tgrelid = t.tgrelid AND later.tgname > t.tgname AND later.tgtype & 71 = 7
                    AND later.tgenabled <> 'D' AND NOT later.tgisinternal);
COMMENT ON VIEW belfry_stamped IS 'The relations whose rows belfry_stamp stamps: their newer walk is gapless.';

GRANT SELECT ON belfry_stamped TO belfry_reconciler, belfry_reader;
