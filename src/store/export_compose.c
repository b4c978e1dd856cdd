/* In: what a feed is made of. Out: the statement that fills an export of it. Always: text of ours and names
 * of the catalog only; what a client sent is a parameter.
 *
 * One statement: what is read, the export's new state and its rows have one snapshot and one end. The rows
 * are made JSON here, as feed/rows.c makes them of a page, and no setting of the role changes a byte of them.
 * The update stands before the insert, so that exports is locked before export_rows (store/export.h); when
 * the export is no longer the owner's, or is too large, nothing is inserted.
 *
 * $1 id uuid · $2 owner int8 · $3 workspace text · $4 user text · $5 most rows int8 · $6 most bytes int8 · $7
 * life in ms int8 · then the flag bool and each filter's value or NULL */
#include <stdlib.h>
#include <string.h>

#include "page_private.h"
#include "store/export.h"

enum { SQL_BYTES_MAX = 64 * 1024, PARAMS_BYTES_MAX = 16 * 1024, FLAG_PARAM = 8 };

struct export_statement {
    const struct source *source;
    struct buffer sql;
    struct db_statement statement;
};

/* A column of the row r as JSON text; NULL stays NULL. */
static void fill_value(struct buffer *sql, const struct source *source, size_t i)
{
    const struct source_column *column = &source->columns[i];
    bool number = source->id_number && strcmp(column->name, "id") == 0;
    switch (column->type) {
    case SOURCE_TEXT:
    case SOURCE_NUMERIC:
        buffer_printf(sql, "to_json(r.c%zu::text)::text", i);
        return;
    case SOURCE_BOOLEAN:
        buffer_printf(sql, "to_json(r.c%zu)::text", i);
        return;
    case SOURCE_TIME:
        buffer_printf(sql,
                      "CASE WHEN r.c%zu >= timestamptz '0001-01-01 00:00:00+00'\n"
                      "      AND r.c%zu < timestamptz '10000-01-01 00:00:00+00'\n"
                      "      THEN '\"' || to_char(r.c%zu AT TIME ZONE 'UTC',\n"
                      "           'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') || '\"' END",
                      i, i, i);
        return;
    case SOURCE_UUID:
        buffer_printf(sql, "'\"' || r.c%zu::text || '\"'", i);
        return;
    case SOURCE_BIGINT:
        buffer_printf(sql, number ? "r.c%zu::text" : "'\"' || r.c%zu::text || '\"'", i);
        return;
    case SOURCE_INTEGER:
    case SOURCE_JSON:
    default:
        buffer_printf(sql, "r.c%zu::text", i);
    }
}

static void fill_row(struct buffer *sql, const struct source *source)
{
    for (size_t i = 0; i < source->column_count; i++) {
        struct buffer name;
        buffer_init(&name, SQL_BYTES_MAX);
        buffer_printf(&name, "%s\"%s\":", i == 0 ? "{" : ",", source->columns[i].name);
        buffer_add_text(sql, i == 0 ? "" : "\n           || ");
        source_write_literal(sql, name.failed ? "" : name.at);
        buffer_add_text(sql, " || coalesce(");
        fill_value(sql, source, i);
        buffer_printf(sql, ", '%s')", source->columns[i].object ? "{}" : "null");
        sql->failed = sql->failed || name.failed;
        buffer_done(&name);
    }
    buffer_add_text(sql, " || '}' AS row\n");
}

/* What the feed shows this user, the newest first, as r. */
static void fill_entries(struct buffer *sql, const struct source *source)
{
    bool member = source->auth == SOURCE_MEMBER;
    for (size_t i = 0; i < source->column_count; i++)
        buffer_printf(sql, "%s n.%s AS c%zu", i == 0 ? "    FROM (SELECT" : ",", source->columns[i].sql, i);
    buffer_printf(
        sql,
        "\n          FROM %s%s AS n\n          WHERE n.created_at < timestamptz '10000-01-01 00:00:00+00'\n"
        "            AND n.created_at >= timestamptz '0001-01-01 00:00:00+00'\n",
        member ? "who AS m CROSS JOIN " : "", source->relation);
    if (source->recipient != NULL)
        buffer_printf(sql, "            AND n.%s = $4\n", source->recipient);
    if (source->workspace != NULL)
        buffer_printf(sql, "            AND n.%s = $3\n", source->workspace);
    if (source->id_type == SOURCE_TEXT)
        buffer_printf(sql, "            AND octet_length(n.id) <= %d\n", SOURCE_ID_TEXT_MAX);
    if (source->flag != NULL)
        buffer_printf(sql, "            AND (NOT $%d::bool OR (%s))\n", FLAG_PARAM, source->flag_sql);
    buffer_add_text(sql, "            AND (true");
    page_write_filters(sql, source, FLAG_PARAM + 1);
    buffer_add_text(
        sql, ")\n          ORDER BY n.created_at DESC, n.id DESC\n          LIMIT $5::int8 + 1) AS r\n");
}

static void fill_write(struct buffer *sql, const struct source *source, size_t created_at, size_t id)
{
    bool member = source->auth == SOURCE_MEMBER;
    buffer_add_text(sql, "WITH who AS MATERIALIZED (\n    SELECT m.role FROM ");
    if (member)
        buffer_add_text(
            sql, "workspace_members AS m\n    WHERE m.workspace_id = $3::text AND m.user_id = $4::text AND ");
    else
        buffer_add_text(sql, "(SELECT NULL::text AS role) AS m WHERE ");
    page_write_allowed(sql, source);
    buffer_printf(sql,
                  "\n), page AS MATERIALIZED (\n"
                  "    SELECT row_number() OVER (ORDER BY r.c%zu DESC, r.c%zu DESC) AS ordinal,\n           ",
                  created_at, id);
    fill_row(sql, source);
    fill_entries(sql, source);
    buffer_add_text(
        sql,
        "), total AS MATERIALIZED (\n"
        "    SELECT count(*) AS rows, coalesce(sum(octet_length(row)), 0)::int8 AS bytes FROM page\n"
        "), judged AS MATERIALIZED (\n"
        "    SELECT *, CASE WHEN NOT EXISTS (SELECT FROM who) THEN 'not_allowed'\n"
        "                   WHEN rows > $5 OR bytes > $6::int8 THEN 'too_large' END AS error\n"
        "    FROM total\n"
        "), made AS (\n"
        "    UPDATE exports AS e\n"
        "    SET state = CASE WHEN j.error IS NULL THEN 'ready' ELSE 'failed' END, error = j.error,\n"
        "        rows = CASE WHEN j.error IS NULL THEN j.rows ELSE 0 END,\n"
        "        bytes = CASE WHEN j.error IS NULL THEN j.bytes ELSE 0 END,\n"
        "        snapshot = CASE WHEN j.error IS NULL THEN pg_current_snapshot() END,\n"
        "        snapshot_at = CASE WHEN j.error IS NULL THEN statement_timestamp() END,\n"
        "        role = (SELECT who.role FROM who), owner = NULL, leased_until = NULL,\n"
        "        finished_at = clock_timestamp(), expires_at = clock_timestamp() + $7::int8 * interval '1 "
        "ms'\n"
        "    FROM judged AS j\n"
        "    WHERE e.id = $1::uuid AND e.owner = $2::int8 AND e.state = 'running'\n"
        "    RETURNING e.state, e.error, e.rows, e.bytes\n"
        "), filled AS (\n"
        "    INSERT INTO export_rows (export_id, ordinal, row)\n"
        "    SELECT $1, p.ordinal, p.row::json FROM page AS p WHERE (SELECT made.state FROM made) = 'ready'\n"
        ")\n"
        "SELECT state, error, rows, bytes FROM made\n");
}

struct export_statement *export_compose(const struct source *source)
{
    struct export_statement *made = calloc(1, sizeof *made);
    if (made == NULL)
        return NULL;
    made->source = source;
    buffer_init(&made->sql, SQL_BYTES_MAX);
    fill_write(&made->sql, source, page_find_column(source, "created_at"), page_find_column(source, "id"));
    made->statement = (struct db_statement){.name = "export_fill", .sql = made->sql.at};
    if (!made->sql.failed)
        return made;
    export_statement_free(made);
    return NULL;
}

void export_statement_free(struct export_statement *statement)
{
    if (statement != NULL)
        buffer_done(&statement->sql);
    free(statement);
}

enum status export_fill_send(struct db *db, const struct export_fill *fill, struct fault *fault)
{
    const struct source *source = fill->statement->source;
    const struct export_query *of = &fill->of;
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_uuid(&params, of->id.bytes);
    db_params_int8(&params, fill->lease.owner);
    db_params_text(&params, of->workspace_id.bytes == 0 ? (struct span){NULL, 0} : of->workspace_id);
    db_params_text(&params, of->user_id);
    db_params_int8(&params, fill->rows_max);
    db_params_int8(&params, fill->bytes_max);
    db_params_int8(&params, fill->lease.life_ms);
    db_params_bool(&params, fill->flag);
    for (size_t i = 0; i < source->filter_count; i++)
        source_value_bind(&source->filters[i], &fill->filters[i], &params);
    enum status status = db_send(db, &fill->statement->statement, &params, 0, fault);
    db_params_done(&params);
    return status;
}
