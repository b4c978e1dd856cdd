-- How the reader's statements are planned: once a connection, not once a page, and always along the index.
-- Planning is more than half of what a page costs the server (tests/bench/reader). A plan that is made once does not
-- know the limit or the workspace, and by costs might sort all rows of a big workspace: every statement of the reader
-- has an index in the order it needs, so sorting more than a page's rows is never right.
-- oldest_ok: 5

DO $$
DECLARE
    setting text;
    tries integer;
BEGIN
    FOREACH setting IN ARRAY ARRAY['plan_cache_mode = force_generic_plan', 'enable_sort = off'] LOOP
        tries := 0;
        LOOP
            BEGIN
                EXECUTE 'ALTER ROLE belfry_reader SET ' || setting;
                EXIT;
            EXCEPTION
                -- May not: the reader says at its start which ALTER ROLE is to be run by who may.
                WHEN insufficient_privilege THEN
                    EXIT;
                -- "Tuple concurrently updated": another database's migration did it.
                WHEN internal_error THEN
                    tries := tries + 1;
                    IF tries > 50 THEN
                        RAISE;
                    END IF;
                    PERFORM pg_sleep(0.05);
            END;
        END LOOP;
    END LOOP;
END
$$;
