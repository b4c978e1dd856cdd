-- Roles, their settings, and the table of versions. Run by whoever may create roles, or by belfry_migrator when
-- the roles are there. Roles belong to the cluster and not to the database: migrations of several databases may
-- meet here, so each step looks first, and looks again when another was faster.
-- oldest_ok: 1

CREATE TABLE schema_version (
    version integer PRIMARY KEY,
    oldest_ok integer NOT NULL, -- the oldest binary's schema that still works on this one
    applied_at timestamptz NOT NULL DEFAULT now()
);

DO $$
DECLARE
    step text[];
    -- role, setting, value; role only: create it
    steps text[][] := ARRAY[
        ['belfry_migrator', '', ''],
        ['belfry_dispatcher', '', ''],
        ['belfry_reconciler', '', ''],
        ['belfry_reader', '', ''],
        ['belfry_dispatcher', 'lock_timeout', '5s'],
        ['belfry_dispatcher', 'statement_timeout', '20s'],
        ['belfry_dispatcher', 'idle_in_transaction_session_timeout', '20s'],
        ['belfry_dispatcher', 'jit', 'off'],
        ['belfry_dispatcher', 'plan_cache_mode', 'force_generic_plan'],
        ['belfry_reconciler', 'lock_timeout', '5s'],
        ['belfry_reconciler', 'statement_timeout', '20s'],
        ['belfry_reconciler', 'idle_in_transaction_session_timeout', '20s'],
        ['belfry_reconciler', 'jit', 'off'],
        ['belfry_reconciler', 'plan_cache_mode', 'force_generic_plan'],
        ['belfry_reader', 'statement_timeout', '2s'],
        ['belfry_reader', 'jit', 'off']
    ];
    tries integer;
BEGIN
    FOREACH step SLICE 1 IN ARRAY steps LOOP
        tries := 0;
        LOOP
            BEGIN
                IF step[2] = '' THEN
                    EXIT WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = step[1]);
                    EXECUTE format('CREATE ROLE %I LOGIN', step[1]);
                ELSE
                    -- An operator's own value stays; the binaries check at start what they need.
                    EXIT WHEN EXISTS (SELECT FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole,
                                             unnest(s.setconfig) c
                                      WHERE r.rolname = step[1] AND s.setdatabase = 0
                                        AND starts_with(c, step[2] || '='));
                    EXECUTE format('ALTER ROLE %I SET %I = %L', step[1], step[2], step[3]);
                END IF;
                EXIT;
            EXCEPTION WHEN duplicate_object OR unique_violation OR internal_error THEN
                -- internal_error is "tuple concurrently updated": another database's migration did it.
                tries := tries + 1;
                IF tries > 50 THEN
                    RAISE;
                END IF;
                PERFORM pg_sleep(0.05);
            END;
        END LOOP;
    END LOOP;

    -- What settled.bound is computed from shows other sessions only to members of pg_read_all_stats.
    tries := 0;
    LOOP
        BEGIN
            EXIT WHEN pg_has_role('belfry_reconciler', 'pg_read_all_stats', 'MEMBER');
            GRANT pg_read_all_stats TO belfry_reconciler;
            EXIT;
        EXCEPTION WHEN duplicate_object OR unique_violation OR internal_error THEN
            tries := tries + 1;
            IF tries > 50 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(0.05);
        END;
    END LOOP;

    -- Whoever migrates acts as the owner from the next file on.
    tries := 0;
    LOOP
        BEGIN
            EXIT WHEN pg_has_role(current_user, 'belfry_migrator', 'MEMBER');
            EXECUTE format('GRANT belfry_migrator TO %I', current_user);
            EXIT;
        EXCEPTION WHEN duplicate_object OR unique_violation OR internal_error THEN
            tries := tries + 1;
            IF tries > 50 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(0.05);
        END;
    END LOOP;

    EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO belfry_migrator', current_schema());
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO belfry_dispatcher, belfry_reconciler, belfry_reader',
                   current_schema());
END
$$;

ALTER TABLE schema_version OWNER TO belfry_migrator;
GRANT SELECT ON schema_version TO belfry_dispatcher, belfry_reconciler, belfry_reader;
