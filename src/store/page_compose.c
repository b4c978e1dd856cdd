/* In: the names of a feed. Out: its statements, one for each way a page is asked for. Always: text of ours
 * and names of the catalog only; what a client sends is a parameter. A crash here is a crash at start.
 *
 * Every statement looks up the membership and always gives a row to tell it: member says whether the user
 * belongs to the workspace, id is NULL when there is no entry to show. Below the place of the membership
 * nothing is read for who does not belong. Each filtered or continued form is a statement of its own, so that
 * no condition hides from the index:
 *
 *   head      no place at all
 *   older     (created_at, id) < (…): the row comparison as a whole is an index condition, so that a page
 *             begins at its place whatever its depth
 *   newer     the same upwards, and only below settled.bound, above which something may still commit. The
 *             bound is read in the statement's own snapshot, but was computed before that by the reconciler:
 *             what it covers is visible here
 *   unread    read from the index of unread rows alone
 *   filtered  a filter that no index knows: reads at most scan_max entries and stops as soon as enough of
 *             them match. The entry at which the reading ended comes too, also when it does not match
 *             (matched false, scan_end true), so that the next page goes on beyond the last entry read
 *   boundary  filtered, and what matches was inserted by a transaction that the snapshot saw. The first page
 *             and its snapshot are one statement. A standby does not list what runs, and a long list does not
 *             fit into a cursor: then the snapshot is cut down to what had committed before the oldest of
 *             them, and the first page keeps to it already
 *
 * Rows of years that RFC 3339 cannot write (infinity too) are in no page: no cursor could stand at them.
 *
 * $1 workspace text · $2 user text · $3 rows at most int8 (limit + 1) · continued: created_at timestamptz, id
 * uuid · filtered, boundary: scan_max int8, each filter's text or NULL · boundary and continued: the snapshot
 * text */
#include <stdio.h>
#include <stdlib.h>

#include "page_private.h"

const struct page_names page_notifications = {
    .feed = "notifications",
    .relation = "notifications",
    .workspace = "workspace_id",
    .recipient = "recipient_user_id",
    .columns = {"event_type", "category", "title", "body", "data", "occurred_at", "created_at", "read_at"},
    .unread = "n.read_at IS NULL",
    .filters = {"category", "event_type"},
    .xid = "inserted_xid",
};

enum { SQL_BYTES_MAX = 16 * 1024, PLACE_PARAM = 4, PLACE_PARAMS = 2 };

static bool compose_scans(const struct page_shape *shape)
{
    return shape->reading != PAGE_INDEXED;
}

static int compose_scan_param(const struct page_shape *shape)
{
    return shape->way == PAGE_HEAD ? PLACE_PARAM : PLACE_PARAM + PLACE_PARAMS;
}

static int compose_filter_count(const struct page_names *names)
{
    int count = 0;
    while (count < PAGE_FILTERS_MAX && names->filters[count] != NULL)
        count++;
    return count;
}

/* "ORDER BY t.created_at …" as the statement walks. */
static void compose_order(struct buffer *sql, const struct page_shape *shape, const char *table)
{
    const char *way = shape->way == PAGE_NEWER ? "ASC" : "DESC";
    buffer_printf(sql, "ORDER BY %s.created_at %s, %s.id %s", table, way, table, way);
}

static void compose_columns(struct buffer *sql, const struct page_names *names, const char *table)
{
    buffer_printf(sql, "%s.id", table);
    for (int i = 0; i < PAGE_COLUMNS_MAX && names->columns[i] != NULL; i++)
        buffer_printf(sql, ", %s.%s", table, names->columns[i]);
}

static void compose_place(struct buffer *sql, const struct page_shape *shape)
{
    if (shape->way == PAGE_HEAD)
        buffer_add_text(sql, "  AND n.created_at < timestamptz '10000-01-01 00:00:00+00'\n");
    if (shape->way != PAGE_NEWER)
        buffer_add_text(sql, "  AND n.created_at >= timestamptz '0001-01-01 00:00:00+00'\n");
    if (shape->way == PAGE_OLDER)
        buffer_add_text(sql, "  AND (n.created_at, n.id) < ($4, $5)\n");
    if (shape->way == PAGE_NEWER)
        buffer_add_text(sql, "  AND (n.created_at, n.id) > ($4, $5) AND n.created_at < s.bound\n");
}

/* The entries the index gives, at most `most` of them. */
static void compose_entries(struct buffer *sql, const struct page_names *names,
                            const struct page_shape *shape)
{
    buffer_add_text(sql, "SELECT ");
    compose_columns(sql, names, "n");
    if (shape->reading == PAGE_BOUNDARY)
        buffer_printf(sql, ", n.%s AS inserted_by", names->xid);
    buffer_printf(sql,
                  "\nFROM %s AS n\n"
                  "WHERE m.user_id IS NOT NULL AND n.%s = $2 AND n.%s = $1\n",
                  names->relation, names->recipient, names->workspace);
    if (shape->unread)
        buffer_printf(sql, "  AND %s\n", names->unread);
    compose_place(sql, shape);
    compose_order(sql, shape, "n");
    buffer_printf(sql, "\nLIMIT $%d\n", compose_scans(shape) ? compose_scan_param(shape) : 3);
}

/* Those of the entries read that match, and the one at which the reading ended. */
static void compose_scan(struct buffer *sql, const struct page_names *names, const struct page_shape *shape)
{
    int scan = compose_scan_param(shape);
    buffer_add_text(sql, "SELECT e.* FROM (SELECT r.*, (true");
    for (int i = 0; i < compose_filter_count(names); i++)
        buffer_printf(sql, " AND ($%d::text IS NULL OR r.%s = $%d)", scan + 1 + i, names->filters[i],
                      scan + 1 + i);
    if (shape->reading == PAGE_BOUNDARY)
        buffer_add_text(sql, " AND pg_visible_in_snapshot(r.inserted_by, x.seen)");
    buffer_add_text(sql, ") IS TRUE AS matched, row_number() OVER (");
    compose_order(sql, shape, "r");
    buffer_printf(sql, ") = $%d AS scan_end FROM (\n", scan);
    compose_entries(sql, names, shape);
    buffer_add_text(sql, ") AS r) AS e\nWHERE e.matched OR e.scan_end\n");
    compose_order(sql, shape, "e");
    buffer_add_text(sql, "\nLIMIT $3\n");
}

/* The snapshot: as the cursor brings it, or this statement's own. */
static void compose_snapshot(struct buffer *sql, const struct page_names *names,
                             const struct page_shape *shape)
{
    if (shape->way != PAGE_HEAD) {
        buffer_printf(sql, "WITH x AS MATERIALIZED (SELECT $%d::text::pg_snapshot AS seen)\n",
                      compose_scan_param(shape) + 1 + compose_filter_count(names));
        return;
    }
    buffer_printf(
        sql,
        "WITH own AS MATERIALIZED (\n"
        "  SELECT snap, pg_snapshot_xmin(snap) AS xmin,\n"
        "         pg_is_in_recovery() OR (SELECT count(*) FROM pg_snapshot_xip(snap)) > %d\n"
        "         OR pg_snapshot_xmax(snap)::text::int8 - pg_snapshot_xmin(snap)::text::int8 >= %d\n"
        "             AS cut\n"
        "  FROM pg_current_snapshot() AS snap\n"
        "), x AS MATERIALIZED (\n"
        "  SELECT CASE WHEN cut THEN (xmin || ':' || xmin || ':')::pg_snapshot ELSE snap END AS seen\n"
        "  FROM own\n"
        ")\n",
        PAGE_RUNNING_MAX, PAGE_RUNNING_SPREAD_MAX);
}

static void compose_statement(struct buffer *sql, const struct page_names *names,
                              const struct page_shape *shape)
{
    bool boundary = shape->reading == PAGE_BOUNDARY;
    if (boundary)
        compose_snapshot(sql, names, shape);
    buffer_add_text(sql, "SELECT m.user_id IS NOT NULL AS member, ");
    compose_columns(sql, names, "p");
    buffer_add_text(sql, compose_scans(shape) ? ", p.matched, p.scan_end, s.bound"
                                              : ", p.id IS NOT NULL AS matched, false AS scan_end, s.bound");
    if (boundary)
        buffer_add_text(sql, ", (SELECT system_identifier FROM pg_control_system()) AS cluster,"
                             " x.seen::text AS seen");
    buffer_printf(sql,
                  "\nFROM (VALUES ($1::text, $2::text)) AS asked (workspace_id, user_id)\n"
                  "LEFT JOIN workspace_members AS m USING (workspace_id, user_id)\n"
                  "LEFT JOIN settled AS s ON s.feed = '%s'\n"
                  "%sLEFT JOIN LATERAL (\n",
                  names->feed, boundary ? "CROSS JOIN x\n" : "");
    if (compose_scans(shape))
        compose_scan(sql, names, shape);
    else
        compose_entries(sql, names, shape);
    buffer_add_text(sql, ") AS p ON true\n");
    compose_order(sql, shape, "p");
}

static bool compose_one(struct page_text *text, const struct page_names *names,
                        const struct page_shape *shape)
{
    static const char *const readings[] = {"", "_filtered", "_boundary"};
    static const char *const ways[] = {"_head", "_older", "_newer"};
    snprintf(text->name, sizeof text->name, "page_%s%s%s%s", names->feed, ways[shape->way],
             shape->unread ? "_unread" : "", readings[shape->reading]);
    buffer_init(&text->sql, SQL_BYTES_MAX);
    compose_statement(&text->sql, names, shape);
    text->statement = (struct db_statement){.name = text->name, .sql = text->sql.at};
    return !text->sql.failed;
}

struct page_statements *page_compose(const struct page_names *names)
{
    struct page_statements *made = calloc(1, sizeof *made);
    bool whole = made != NULL;
    if (whole)
        made->names = names;
    for (int i = 0; whole && i < 2 * PAGE_READINGS * PAGE_WAYS; i++) {
        struct page_shape shape = {.unread = i % 2 != 0,
                                   .reading = (enum page_reading)(i / 2 % PAGE_READINGS),
                                   .way = (enum page_way)(i / 2 / PAGE_READINGS)};
        whole = compose_one(&made->texts[shape.unread][shape.reading][shape.way], names, &shape);
    }
    if (whole)
        return made;
    page_statements_free(made);
    return NULL;
}

void page_statements_free(struct page_statements *statements)
{
    for (int i = 0; statements != NULL && i < 2 * PAGE_READINGS * PAGE_WAYS; i++)
        buffer_done(&statements->texts[i % 2][i / 2 % PAGE_READINGS][i / 2 / PAGE_READINGS].sql);
    free(statements);
}
