/* In: what a feed is made of. Out: its statements, one for each way a page is asked for. Always: text of ours
 * and names of the catalog only; what a client sends is a parameter. A crash here is a crash at start.
 *
 * Every statement looks up the membership, where the feed asks for one, and always gives a row to tell it:
 * member says whether the user belongs to the workspace, allowed whether with a role that may read; id is
 * NULL when there is no entry to show. Below the place of the membership nothing is read for who may not.
 * Each filtered or continued form is a statement of its own, so that no condition hides from the index:
 *
 *   head      no place at all
 *   older     (created_at, id) < (…): the row comparison as a whole is an index condition, so that a page
 *             begins at its place whatever its depth
 *   newer     the same upwards, and only below settled.bound, above which something may still commit. The
 *             bound is read in the statement's own snapshot, but was computed before that by the reconciler:
 *             what it covers is visible here. Where nothing stamps the rows: settle_max ago, no promise
 *   flag      read from the index of flagged rows alone
 *   filtered  filters, and roles_column, that no index knows: reads at most scan_max entries and stops as
 *             soon as enough of them match. The entry at which the reading ended comes too, also when it
 *             does not match (matched false, scan_end true): the next page goes on beyond the last one read
 *   boundary  filtered, and what matches was inserted by a transaction that the snapshot saw. The first page
 *             and its snapshot are one statement. A standby does not list what runs, and a long list does
 *             not fit into a cursor: then the snapshot is cut down to what had committed before the oldest
 *             of them, and the first page keeps to it already
 *
 * Rows of years that RFC 3339 cannot write (infinity too), and of text ids that fit into no cursor, are in no
 * page: no cursor could stand at them. The source's columns are c0, c1 … inside, so that no name of theirs
 * can be taken for one of ours; what is shown becomes its wire type outside, for the rows shown alone.
 *
 * $1 workspace text · $2 user text · $3 rows at most int8 (limit + 1) · continued: created_at timestamptz, id
 * · filtered, boundary: scan_max int8, each filter's value or NULL · boundary and continued: the snapshot
 * text */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/siphash.h"
#include "page_private.h"

enum { SQL_BYTES_MAX = 64 * 1024, PLACE_PARAM = 4, PLACE_PARAMS = 2, PREPARED_NAME_MAX = 63 };

/* One statement being written. */
struct compose {
    struct buffer *sql;
    const struct page_statements *made;
    const struct source *source;
    const struct page_shape *shape;
};

static bool compose_scans(const struct compose *c)
{
    return c->shape->reading != PAGE_INDEXED;
}

static int compose_scan_param(const struct compose *c)
{
    return c->shape->way == PAGE_HEAD ? PLACE_PARAM : PLACE_PARAM + PLACE_PARAMS;
}

/* "ORDER BY p.c6 …" as the statement walks, over the columns as they are called inside. */
static void compose_order(const struct compose *c, const char *table)
{
    const char *way = c->shape->way == PAGE_NEWER ? "ASC" : "DESC";
    buffer_printf(c->sql, "ORDER BY %s.c%zu %s, %s.c%zu %s", table, c->made->created_at, way, table,
                  c->made->id, way);
}

/* The columns as they go over the wire (store/page.h, page_row). */
static void compose_shown(const struct compose *c)
{
    static const char *const casts[] = {
        [SOURCE_TEXT] = "::text",    [SOURCE_INTEGER] = "::int4", [SOURCE_BIGINT] = "::int8",
        [SOURCE_NUMERIC] = "::text", [SOURCE_BOOLEAN] = "",       [SOURCE_TIME] = "",
        [SOURCE_UUID] = "",          [SOURCE_JSON] = "::text",
    };
    for (size_t i = 0; i < c->source->column_count; i++)
        buffer_printf(c->sql, ", p.c%zu%s", i, casts[c->source->columns[i].type]);
}

static void compose_place(const struct compose *c)
{
    enum page_way way = c->shape->way;
    if (way == PAGE_HEAD)
        buffer_add_text(c->sql, "  AND n.created_at < timestamptz '10000-01-01 00:00:00+00'\n");
    if (way != PAGE_NEWER)
        buffer_add_text(c->sql, "  AND n.created_at >= timestamptz '0001-01-01 00:00:00+00'\n");
    if (way == PAGE_OLDER)
        buffer_add_text(c->sql, "  AND (n.created_at, n.id) < ($4, $5)\n");
    if (way == PAGE_NEWER)
        buffer_add_text(c->sql, "  AND (n.created_at, n.id) > ($4, $5) AND n.created_at < s.bound\n");
    if (c->source->id_type == SOURCE_TEXT)
        buffer_printf(c->sql, "  AND octet_length(n.id) <= %d\n", SOURCE_ID_TEXT_MAX);
}

void page_write_allowed(struct buffer *sql, const struct source *source)
{
    if (source->auth != SOURCE_MEMBER)
        buffer_add_text(sql, "true");
    else if (source->role_count == 0)
        buffer_add_text(sql, "m.user_id IS NOT NULL");
    for (size_t i = 0; i < source->role_count; i++) {
        buffer_add_text(sql, i == 0 ? "m.role IN (" : ", ");
        source_write_literal(sql, source->roles[i]);
    }
    if (source->role_count > 0)
        buffer_add_byte(sql, ')');
}

void page_write_filters(struct buffer *sql, const struct source *source, int param)
{
    static const char *const types[] = {
        [SOURCE_TEXT] = "text",    [SOURCE_INTEGER] = "int4", [SOURCE_BIGINT] = "int8",
        [SOURCE_NUMERIC] = "text", [SOURCE_BOOLEAN] = "bool", [SOURCE_TIME] = "text",
        [SOURCE_UUID] = "uuid",    [SOURCE_JSON] = "text",
    };
    for (size_t i = 0; i < source->filter_count; i++, param++) {
        const struct source_filter *filter = &source->filters[i];
        buffer_printf(sql, " AND ($%d::%s IS NULL OR n.%s%s = $%d)", param, types[filter->type], filter->sql,
                      filter->type == SOURCE_TEXT ? "::text" : "", param);
    }
    if (source->roles_column != NULL)
        buffer_printf(sql, " AND m.role = ANY (n.%s)", source->roles_column);
}

/* Whether the row n is one that was asked for. */
static void compose_matched(const struct compose *c)
{
    buffer_add_text(c->sql, ", (true");
    page_write_filters(c->sql, c->source, compose_scan_param(c) + 1);
    if (c->shape->reading == PAGE_BOUNDARY)
        buffer_printf(c->sql, " AND pg_visible_in_snapshot(n.%s, x.seen)", c->source->xid);
    buffer_add_text(c->sql, ") IS TRUE AS matched");
}

/* The entries the index gives, as many as are to be read. */
static void compose_entries(const struct compose *c)
{
    const struct source *source = c->source;
    for (size_t i = 0; i < source->column_count; i++)
        buffer_printf(c->sql, "%s n.%s AS c%zu", i == 0 ? "SELECT" : ",", source->columns[i].sql, i);
    if (compose_scans(c))
        compose_matched(c);
    buffer_printf(c->sql, "\nFROM %s AS n\nWHERE ", source->relation);
    page_write_allowed(c->sql, c->source);
    if (source->recipient != NULL)
        buffer_printf(c->sql, " AND n.%s = $2", source->recipient);
    if (source->workspace != NULL)
        buffer_printf(c->sql, " AND n.%s = $1", source->workspace);
    buffer_add_byte(c->sql, '\n');
    if (c->shape->flag)
        buffer_printf(c->sql, "  AND (%s)\n", source->flag_sql);
    compose_place(c);
    const char *way = c->shape->way == PAGE_NEWER ? "ASC" : "DESC";
    buffer_printf(c->sql, "ORDER BY n.created_at %s, n.id %s\nLIMIT $%d\n", way, way,
                  compose_scans(c) ? compose_scan_param(c) : 3);
}

/* Those of the entries read that match, and the one at which the reading ended. */
static void compose_scan(const struct compose *c)
{
    buffer_add_text(c->sql, "SELECT e.* FROM (SELECT r.*, row_number() OVER (");
    compose_order(c, "r");
    buffer_printf(c->sql, ") = $%d AS scan_end FROM (\n", compose_scan_param(c));
    compose_entries(c);
    buffer_add_text(c->sql, ") AS r) AS e\nWHERE e.matched OR e.scan_end\n");
    compose_order(c, "e");
    buffer_add_text(c->sql, "\nLIMIT $3\n");
}

/* The snapshot: as the cursor brings it, or this statement's own. */
static void compose_snapshot(const struct compose *c)
{
    bool text = c->source->id_type == SOURCE_TEXT;
    if (c->shape->way != PAGE_HEAD) {
        buffer_printf(c->sql, "WITH x AS MATERIALIZED (SELECT $%d::text::pg_snapshot AS seen)\n",
                      compose_scan_param(c) + 1 + (int)c->source->filter_count);
        return;
    }
    buffer_printf(
        c->sql,
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
        text ? PAGE_RUNNING_TEXT_MAX : PAGE_RUNNING_MAX,
        text ? PAGE_RUNNING_SPREAD_TEXT_MAX : PAGE_RUNNING_SPREAD_MAX);
}

/* s: up to where the newer walk goes. */
static void compose_bound(const struct compose *c)
{
    if (c->source->settled == NULL) {
        buffer_printf(c->sql,
                      "CROSS JOIN (SELECT statement_timestamp() - %lld * interval '1 ms' AS bound) AS s\n",
                      (long long)c->made->settle_max_ms);
        return;
    }
    buffer_add_text(c->sql, "LEFT JOIN settled AS s ON s.feed = ");
    source_write_literal(c->sql, c->source->settled);
    buffer_add_byte(c->sql, '\n');
}

/* Whose columns stand behind the source's (enum page_own). */
static void compose_own(const struct compose *c)
{
    static const char *const texts[PAGE_OWN] = {
        [PAGE_BOUND] = "s.bound",
        [PAGE_MATCHED] = "p.matched",
        [PAGE_SCAN_END] = "p.scan_end",
        [PAGE_CLUSTER] = "(SELECT system_identifier FROM pg_control_system()) AS cluster",
        [PAGE_SEEN] = "x.seen::text AS seen",
    };
    for (enum page_own own = PAGE_BOUND; own < PAGE_OWN; own++) {
        if (!page_has_own(c->source, c->shape, own))
            continue;
        buffer_add_text(c->sql, ", ");
        if (own == PAGE_ALLOWED)
            page_write_allowed(c->sql, c->source);
        else
            buffer_add_text(c->sql, texts[own]);
    }
}

/* What p is joined to is one row: the nested loop keeps p's order, and nothing is sorted again. */
static void compose_statement(const struct compose *c)
{
    bool boundary = c->shape->reading == PAGE_BOUNDARY, member = c->source->auth == SOURCE_MEMBER;
    if (boundary)
        compose_snapshot(c);
    buffer_printf(c->sql, "SELECT %s AS member", member ? "m.user_id IS NOT NULL" : "true");
    compose_shown(c);
    compose_own(c);
    buffer_add_text(c->sql, "\nFROM (VALUES ($1::text, $2::text)) AS asked (workspace_id, user_id)\n");
    if (member)
        buffer_add_text(c->sql, "LEFT JOIN workspace_members AS m USING (workspace_id, user_id)\n");
    compose_bound(c);
    buffer_printf(c->sql, "%sLEFT JOIN LATERAL (\n", boundary ? "CROSS JOIN x\n" : "");
    if (compose_scans(c))
        compose_scan(c);
    else
        compose_entries(c);
    /* No ORDER BY out here: one row joined to an ordered subquery comes as the subquery gives it, and the
     * server would sort what is in order already, an eighth of a page's cost. page_open looks. */
    buffer_add_text(c->sql, ") AS p ON true\n");
}

/* Whether this feed is ever read so. */
static bool compose_is_offered(const struct source *source, const struct page_shape *shape)
{
    if (shape->flag && source->flag == NULL)
        return false;
    if (shape->reading == PAGE_INDEXED)
        return source->roles_column == NULL;
    if (shape->reading == PAGE_FILTERED)
        return source->filter_count > 0 || source->roles_column != NULL;
    return source->xid != NULL;
}

/* The server tells prepared statements apart by PREPARED_NAME_MAX bytes: a long feed's name is hashed. */
static void compose_name(struct page_text *text, const struct source *source, const struct page_shape *shape)
{
    static const char *const readings[] = {"", "_filtered", "_boundary"};
    static const char *const ways[] = {"_head", "_older", "_newer"};
    const char *flag = shape->flag ? "_flag" : "", *reading = readings[shape->reading];
    int bytes = snprintf(text->name, sizeof text->name, "page_%s%s%s%s", source->name, ways[shape->way], flag,
                         reading);
    struct siphash_key key = {0, 0};
    if (bytes > PREPARED_NAME_MAX)
        snprintf(text->name, sizeof text->name, "page_%016llx%s%s%s",
                 (unsigned long long)siphash(&key, span_of(source->name)), ways[shape->way], flag, reading);
}

static bool compose_one(struct page_statements *made, const struct page_shape *shape)
{
    struct page_text *text = &made->texts[shape->flag][shape->reading][shape->way];
    struct compose compose = {.sql = &text->sql, .made = made, .source = made->source, .shape = shape};
    buffer_init(&text->sql, SQL_BYTES_MAX);
    if (!compose_is_offered(made->source, shape))
        return true;
    compose_name(text, made->source, shape);
    compose_statement(&compose);
    text->statement = (struct db_statement){.name = text->name, .sql = text->sql.at};
    return !text->sql.failed;
}

size_t page_find_column(const struct source *source, const char *name)
{
    size_t i = 0;
    while (i < source->column_count && strcmp(source->columns[i].name, name) != 0)
        i++;
    assert(i < source->column_count);
    return i;
}

struct page_statements *page_compose(const struct source *source, int64_t settle_max_ms)
{
    assert(source->auth != SOURCE_MEMBER || source->workspace != NULL);
    assert(source->auth == SOURCE_MEMBER || (source->role_count == 0 && source->roles_column == NULL));
    struct page_statements *made = calloc(1, sizeof *made);
    bool whole = made != NULL;
    if (whole) {
        made->source = source;
        made->settle_max_ms = settle_max_ms;
        made->id = page_find_column(source, "id");
        made->created_at = page_find_column(source, "created_at");
    }
    for (int i = 0; whole && i < 2 * PAGE_READINGS * PAGE_WAYS; i++) {
        struct page_shape shape = {.flag = i % 2 != 0,
                                   .reading = (enum page_reading)(i / 2 % PAGE_READINGS),
                                   .way = (enum page_way)(i / 2 / PAGE_READINGS)};
        whole = compose_one(made, &shape);
    }
    if (whole)
        return made;
    page_statements_free(made);
    return NULL;
}

const struct source *page_source(const struct page_statements *statements)
{
    return statements->source;
}

void page_statements_free(struct page_statements *statements)
{
    for (int i = 0; statements != NULL && i < 2 * PAGE_READINGS * PAGE_WAYS; i++)
        buffer_done(&statements->texts[i % 2][i / 2 % PAGE_READINGS][i / 2 / PAGE_READINGS].sql);
    free(statements);
}
