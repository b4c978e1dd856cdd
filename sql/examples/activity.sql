-- What happened in a workspace, for its members: [feed.activity] of config/belfry-reader.ini, at
-- /v1/workspaces/{workspace}/feeds/activity. Run it as the owner-to-be, in the schema that belfry is in. What a feed
-- of your own needs is here: the sort key (created_at, id), NOT NULL, a unique id, an index that leads with the
-- scope, the trigger that makes the newer walk gapless, and the reader's right to look.
CREATE TABLE activity_events (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    workspace_id text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    event_type text NOT NULL,
    inserted_xid xid8 NOT NULL DEFAULT pg_current_xact_id() -- of contract=boundary
);

CREATE INDEX activity_events_feed ON activity_events (workspace_id, created_at DESC, id DESC);

CREATE TRIGGER zz_belfry_stamp BEFORE INSERT OR UPDATE OF created_at, id, inserted_xid ON activity_events
    FOR EACH ROW EXECUTE FUNCTION belfry_stamp('inserted_xid');

GRANT SELECT ON activity_events TO belfry_reader;
