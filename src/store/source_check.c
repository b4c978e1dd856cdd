/* In: a declared feed, the catalog. Out: what pages are read by, or one precise refusal. Always: every
 * identifier comes from the catalog, quoted there; what the configuration says only ever is a parameter. A
 * crash here is a crash at start. */
#include "store/source_check.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "source_private.h"
#include "store/sql.h"

enum {
    PARAMS_BYTES_MAX = 8 * 1024,
    SQL_NAME_MAX = 128,
    ASKED_MAX = 6 + SOURCE_COLUMNS_MAX + SOURCE_FILTERS_MAX
};

enum status source_refuse(const struct source_checking *checking, const char *key, struct fault *fault,
                          const char *format, ...)
{
    char text[FAULT_TEXT_MAX], field[FAULT_FIELD_MAX];
    const char *feed = checking->declared->name;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fault_set(fault, "feed", "[feed.%s]%s%s: %.700s", feed, key == NULL ? "" : " ", key == NULL ? "" : key,
              text);
    snprintf(field, sizeof field, "feed.%s%s%s", feed, key == NULL ? "" : ".", key == NULL ? "" : key);
    fault_set_field(fault, field);
    fault->exit_code = EXIT_USAGE;
    return ST_FATAL;
}

static enum status source_no_memory(struct fault *fault)
{
    fault_set(fault, "memory", "no memory for the feeds");
    return ST_FATAL;
}

/* ---- the relation -------------------------------------------------------------------------------------- */

enum {
    RELATION_OID,
    RELATION_SQL,
    RELATION_KIND,
    RELATION_USABLE,
    RELATION_HAS_CHILDREN,
    RELATION_SCHEMA,
    RELATION_ME,
    RELATION_SEARCHED,
    RELATION_STAMPED,
    RELATION_XID_COLUMN,
    RELATION_SETTLED
};

/* Why this kind of relation is no feed; NULL: it may be one. */
static const char *source_unfit_kind(char kind, bool has_children)
{
    switch (kind) {
    case 'r':
        return has_children
                   ? "has tables that inherit from it, which its indexes do not cover; declare a table "
                     "of its own or a partitioned one"
                   : NULL;
    case 'p':
        return NULL;
    case 'v':
        return "is a view, whose order and uniqueness no index can promise; declare the table itself "
               "(columns "
               "says what is shown)";
    case 'm':
        return "is a materialized view, whose rows are others after each refresh; declare a table";
    case 'f':
        return "is a foreign table, which has no index here; declare a table of this database";
    default:
        return "is not a table";
    }
}

static enum status source_judge_relation(struct source_checking *checking, const struct db_result *result,
                                         struct fault *fault)
{
    const struct source_declaration *declared = checking->declared;
    struct span kind = db_result_text(result, 0, RELATION_KIND);
    struct span searched = db_result_text(result, 0, RELATION_SEARCHED);
    checking->me = arena_copy(checking->arena, db_result_text(result, 0, RELATION_ME));
    if (db_result_is_null(result, 0, RELATION_OID) && declared->schema != NULL)
        return source_refuse(checking, "relation", fault, "there is no table %s in a schema %s",
                             declared->relation, declared->schema);
    if (db_result_is_null(result, 0, RELATION_OID))
        return source_refuse(
            checking, "relation", fault,
            "there is no table %s in the schemas %.*s, where the reader looks for it; create "
            "it, or say relation = schema.%s",
            declared->relation, (int)searched.bytes, searched.at, declared->relation);
    const char *sql = arena_copy(checking->arena, db_result_text(result, 0, RELATION_SQL));
    const char *schema = arena_copy(checking->arena, db_result_text(result, 0, RELATION_SCHEMA));
    if (sql == NULL || schema == NULL || checking->me == NULL)
        return source_no_memory(fault);
    const char *unfit = source_unfit_kind(kind.at[0], db_result_bool(result, 0, RELATION_HAS_CHILDREN));
    if (unfit != NULL)
        return source_refuse(checking, "relation", fault, "%s %s", sql, unfit);
    if (!db_result_bool(result, 0, RELATION_USABLE))
        return source_refuse(checking, "relation", fault,
                             "the reader may not look into the schema. Run: GRANT USAGE ON SCHEMA %s TO %s",
                             schema, checking->me);
    checking->relation = db_result_int8(result, 0, RELATION_OID);
    checking->partitioned = kind.at[0] == 'p';
    checking->stamped = db_result_bool(result, 0, RELATION_STAMPED);
    checking->made->relation = sql;
    if (checking->stamped && db_result_bool(result, 0, RELATION_SETTLED))
        checking->made->settled = sql;
    if (!db_result_is_null(result, 0, RELATION_XID_COLUMN))
        checking->xid_stamped = arena_copy(checking->arena, db_result_text(result, 0, RELATION_XID_COLUMN));
    return ST_OK;
}

static enum status source_check_relation(struct source_checking *checking, struct fault *fault)
{
    static const struct db_statement statement = {"source_relation", sql_source_relation};
    struct db_params params;
    struct db_result *result = NULL;
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_text(&params, span_of(checking->declared->schema));
    db_params_text(&params, span_of(checking->declared->relation));
    enum status status = db_run(checking->db, &statement, &params, &result, fault);
    db_params_done(&params);
    if (status == ST_OK)
        status = source_judge_relation(checking, result, fault);
    db_result_free(result);
    return status;
}

/* ---- columns ------------------------------------------------------------------------------------------- */

enum {
    COLUMN_THERE,
    COLUMN_SQL,
    COLUMN_TYPE,
    COLUMN_SHOWN,
    COLUMN_NOT_NULL,
    COLUMN_BYTEWISE,
    COLUMN_EXACT,
    COLUMN_READABLE,
    COLUMN_XID_BY_DEFAULT
};

/* What the declaration names: by which key, and what it is there for. */
enum use { USE_ID, USE_CREATED_AT, USE_SCOPE, USE_ROLES, USE_XID, USE_SHOWN, USE_FILTER };

struct asked_column {
    const char *key, *name;
    enum use use;
    size_t filter;   /* of USE_FILTER: which */
    const char **to; /* where its SQL goes; NULL: nowhere else than into the columns or filters */
};

struct asked_columns {
    struct asked_column of[ASKED_MAX];
    size_t count;
};

static void source_ask(struct asked_columns *asked, struct asked_column column)
{
    assert(asked->count < ASKED_MAX);
    if (column.name != NULL)
        asked->of[asked->count++] = column;
}

/* The sort key and the scope first: what is wrong with them is what matters most. */
static void source_ask_all(const struct source_declaration *declared, struct source *made,
                           struct asked_columns *asked)
{
    asked->count = 0;
    source_ask(asked, (struct asked_column){"columns", "id", USE_ID, 0, NULL});
    source_ask(asked, (struct asked_column){"columns", "created_at", USE_CREATED_AT, 0, NULL});
    source_ask(asked, (struct asked_column){"workspace_column", declared->workspace_column, USE_SCOPE, 0,
                                            &made->workspace});
    source_ask(asked,
               (struct asked_column){"user_column", declared->user_column, USE_SCOPE, 0, &made->recipient});
    source_ask(asked, (struct asked_column){"roles_column", declared->roles_column, USE_ROLES, 0,
                                            &made->roles_column});
    source_ask(asked, (struct asked_column){"xid_column", declared->xid_column, USE_XID, 0, &made->xid});
    for (size_t i = 0; i < declared->column_count; i++)
        source_ask(asked, (struct asked_column){"columns", declared->columns[i], USE_SHOWN, 0, NULL});
    for (size_t i = 0; i < declared->filter_count; i++)
        source_ask(asked, (struct asked_column){"filters", declared->filters[i].column, USE_FILTER, i, NULL});
}

/* A column as the catalog has it. */
struct found_column {
    const struct db_result *result;
    int row;
    char sql[SQL_NAME_MAX + 1], type[SQL_NAME_MAX + 1], shown[SQL_NAME_MAX + 1];
};

static void source_found_text(const struct db_result *result, int row, int column, char *text)
{
    struct span span = db_result_text(result, row, column);
    snprintf(text, SQL_NAME_MAX + 1, "%.*s", (int)span.bytes, span.at == NULL ? "" : span.at);
}

static bool source_found_is(const struct found_column *found, int what)
{
    return db_result_bool(found->result, found->row, what);
}

static bool source_is_text(const char *type)
{
    return strcmp(type, "text") == 0 || strcmp(type, "varchar") == 0;
}

/* The types a feed can show. False: not this one. */
static bool source_shows(const char *type, enum source_type *as)
{
    static const struct {
        const char *name;
        enum source_type type;
    } types[] = {
        {"text", SOURCE_TEXT},       {"varchar", SOURCE_TEXT}, {"enum", SOURCE_TEXT},
        {"int2", SOURCE_INTEGER},    {"int4", SOURCE_INTEGER}, {"int8", SOURCE_BIGINT},
        {"numeric", SOURCE_NUMERIC}, {"bool", SOURCE_BOOLEAN}, {"timestamptz", SOURCE_TIME},
        {"uuid", SOURCE_UUID},       {"json", SOURCE_JSON},    {"jsonb", SOURCE_JSON},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(type, types[i].name) == 0) {
            *as = types[i].type;
            return true;
        }
    return false;
}

static const char *source_type_name(enum source_type type)
{
    static const char *const names[] = {
        [SOURCE_TEXT] = "text",       [SOURCE_INTEGER] = "integer", [SOURCE_BIGINT] = "bigint",
        [SOURCE_NUMERIC] = "numeric", [SOURCE_BOOLEAN] = "boolean", [SOURCE_TIME] = "timestamptz",
        [SOURCE_UUID] = "uuid",       [SOURCE_JSON] = "json",
    };
    return names[type];
}

static enum status source_need_not_null(const struct source_checking *checking, const char *key,
                                        const struct found_column *found, struct fault *fault)
{
    if (source_found_is(found, COLUMN_NOT_NULL))
        return ST_OK;
    return source_refuse(
        checking, key, fault,
        "%s may be NULL, and such a row would be in no page. Run: ALTER TABLE %s ALTER COLUMN %s SET "
        "NOT NULL",
        found->sql, checking->made->relation, found->sql);
}

static enum status source_judge_id(const struct source_checking *checking, const struct found_column *found,
                                   struct fault *fault)
{
    enum source_type declared = checking->declared->id_type, type;
    bool fits = declared == SOURCE_TEXT ? source_is_text(found->type)
                                        : source_shows(found->type, &type) && type == declared;
    if (!fits)
        return source_refuse(checking, "id_type", fault,
                             "id of %s is %s, not %s; id_type takes uuid, bigint or text",
                             checking->made->relation, found->shown, source_type_name(declared));
    if (declared == SOURCE_TEXT && !source_found_is(found, COLUMN_BYTEWISE))
        return source_refuse(
            checking, "id_type", fault,
            "a text id must be compared by its bytes. Run: ALTER TABLE %s ALTER COLUMN id TYPE %s "
            "COLLATE \"C\" (it locks the table and makes its indexes anew)",
            checking->made->relation, found->shown);
    return source_need_not_null(checking, "columns", found, fault);
}

static enum status source_judge_created_at(const struct source_checking *checking,
                                           const struct found_column *found, struct fault *fault)
{
    if (strcmp(found->type, "timestamptz") != 0)
        return source_refuse(
            checking, "columns", fault,
            "created_at of %s is %s; it must be timestamptz, an instant whatever the time zone",
            checking->made->relation, found->shown);
    return source_need_not_null(checking, "columns", found, fault);
}

static enum status source_judge_scope(const struct source_checking *checking, const char *key,
                                      const struct found_column *found, struct fault *fault)
{
    if (!source_is_text(found->type))
        return source_refuse(
            checking, key, fault,
            "%s is %s; workspaces and users are text or varchar. Of another type: add a column "
            "text GENERATED ALWAYS AS (%s::text) STORED",
            found->sql, found->shown, found->sql);
    if (!source_found_is(found, COLUMN_EXACT))
        return source_refuse(checking, key, fault,
                             "%s has a collation under which different texts are equal: somebody would read "
                             "another's rows. Give it a deterministic one, such as COLLATE \"C\"",
                             found->sql);
    return ST_OK;
}

static enum status source_judge_xid(const struct source_checking *checking, const struct found_column *found,
                                    struct fault *fault)
{
    const char *name = checking->declared->xid_column;
    if (strcmp(found->type, "xid8") != 0)
        return source_refuse(checking, "xid_column", fault,
                             "%s is %s; it must be xid8 NOT NULL DEFAULT pg_current_xact_id()", found->sql,
                             found->shown);
    bool stamped = checking->xid_stamped != NULL && strcmp(checking->xid_stamped, name) == 0;
    if (!stamped && !source_found_is(found, COLUMN_XID_BY_DEFAULT))
        return source_refuse(checking, "xid_column", fault,
                             "nothing sets %s. Run: ALTER TABLE %s ALTER COLUMN %s SET DEFAULT "
                             "pg_current_xact_id()",
                             found->sql, checking->made->relation, found->sql);
    return source_need_not_null(checking, "xid_column", found, fault);
}

static enum status source_judge_roles(const struct source_checking *checking,
                                      const struct found_column *found, struct fault *fault)
{
    if (strcmp(found->type, "_text") == 0)
        return ST_OK;
    return source_refuse(checking, "roles_column", fault,
                         "%s is %s; it must be text[], the roles that may read the row", found->sql,
                         found->shown);
}

static enum status source_judge_shown(const struct source_checking *checking,
                                      const struct asked_column *asked, const struct found_column *found,
                                      struct fault *fault)
{
    struct source *made = checking->made;
    struct source_column *column = &made->columns[made->column_count];
    if (!source_shows(found->type, &column->type))
        return source_refuse(
            checking, "columns", fault,
            "%s is %s, which a feed cannot show (text, varchar, enums, smallint, integer, bigint, "
            "numeric, boolean, timestamptz, uuid, json, jsonb). Leave it out, or add a column of "
            "one of these that is GENERATED ALWAYS AS (…) STORED from it",
            found->sql, found->shown);
    column->name = asked->name;
    column->sql = arena_copy(checking->arena, span_of(found->sql));
    made->column_count++;
    return column->sql != NULL ? ST_OK : source_no_memory(fault);
}

static enum status source_judge_filter(const struct source_checking *checking,
                                       const struct asked_column *asked, const struct found_column *found,
                                       struct fault *fault)
{
    struct source *made = checking->made;
    struct source_filter *filter = &made->filters[made->filter_count];
    bool typed = checking->declared->filters[asked->filter].typed;
    enum source_type type = SOURCE_JSON, declared = checking->declared->filters[asked->filter].type;
    bool known = source_shows(found->type, &type);
    if (!known || type == SOURCE_JSON || type == SOURCE_TIME || type == SOURCE_NUMERIC)
        return source_refuse(
            checking, "filters", fault,
            "%s is %s; a filter is of text, varchar, an enum, smallint, integer, bigint, boolean or "
            "uuid",
            found->sql, found->shown);
    if (typed && type != declared)
        return source_refuse(checking, "filters", fault, "%s is %s, not %s", found->sql, found->shown,
                             source_type_name(declared));
    *filter = (struct source_filter){.name = asked->name,
                                     .sql = arena_copy(checking->arena, span_of(found->sql)),
                                     .type = type,
                                     .bytes_max = SOURCE_TEXT_FILTER_MAX};
    made->filter_count++;
    return filter->sql != NULL ? ST_OK : source_no_memory(fault);
}

static enum status source_judge_use(const struct source_checking *checking, const struct asked_column *asked,
                                    const struct found_column *found, struct fault *fault)
{
    switch (asked->use) {
    case USE_ID:
        return source_judge_id(checking, found, fault);
    case USE_CREATED_AT:
        return source_judge_created_at(checking, found, fault);
    case USE_SCOPE:
        return source_judge_scope(checking, asked->key, found, fault);
    case USE_ROLES:
        return source_judge_roles(checking, found, fault);
    case USE_XID:
        return source_judge_xid(checking, found, fault);
    case USE_SHOWN:
        return source_judge_shown(checking, asked, found, fault);
    case USE_FILTER:
    default:
        return source_judge_filter(checking, asked, found, fault);
    }
}

static enum status source_judge_column(const struct source_checking *checking,
                                       const struct asked_column *asked, const struct found_column *found,
                                       struct fault *fault)
{
    if (!source_found_is(found, COLUMN_THERE))
        return source_refuse(checking, asked->key, fault, "%s has no column %s", checking->made->relation,
                             asked->name);
    if (!source_found_is(found, COLUMN_READABLE))
        return source_refuse(checking, asked->key, fault,
                             "the reader may not read %s. Run: GRANT SELECT ON %s TO %s", found->sql,
                             checking->made->relation, checking->me);
    enum status status = source_judge_use(checking, asked, found, fault);
    if (status != ST_OK || asked->to == NULL)
        return status;
    *asked->to = arena_copy(checking->arena, span_of(found->sql));
    return *asked->to != NULL ? ST_OK : source_no_memory(fault);
}

static enum status source_check_columns(const struct source_checking *checking, struct fault *fault)
{
    static const struct db_statement statement = {"source_columns", sql_source_columns};
    struct asked_columns asked;
    struct db_params params;
    struct db_result *result = NULL;
    source_ask_all(checking->declared, checking->made, &asked);
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_int8(&params, checking->relation);
    db_params_begin(&params, DB_TEXT);
    for (size_t i = 0; i < asked.count; i++)
        db_params_text(&params, span_of(asked.of[i].name));
    db_params_end(&params);
    enum status status = db_run(checking->db, &statement, &params, &result, fault);
    db_params_done(&params);
    for (size_t i = 0; i < asked.count && status == ST_OK; i++) {
        struct found_column found = {.result = result, .row = (int)i};
        source_found_text(result, (int)i, COLUMN_SQL, found.sql);
        source_found_text(result, (int)i, COLUMN_TYPE, found.type);
        source_found_text(result, (int)i, COLUMN_SHOWN, found.shown);
        status = source_judge_column(checking, &asked.of[i], &found, fault);
    }
    db_result_free(result);
    return status;
}

/* ---- all ----------------------------------------------------------------------------------------------- */

enum status source_check(struct db *db, const struct source_declaration *declaration, struct arena *arena,
                         struct source *source, struct fault *fault)
{
    struct source made = {
        .name = declaration->name,
        .path = declaration->path,
        .id_type = declaration->id_type,
        .id_number = declaration->id_number,
        .items_key = declaration->items_key,
        .auth = declaration->auth,
        .role_count = declaration->role_count,
    };
    for (size_t i = 0; i < declaration->role_count; i++)
        made.roles[i] = declaration->roles[i];
    struct source_checking checking = {.db = db, .declared = declaration, .arena = arena, .made = &made};
    enum status status = source_check_relation(&checking, fault);
    if (status == ST_OK)
        status = source_check_columns(&checking, fault);
    if (status == ST_OK)
        status = source_check_indexes(&checking, fault);
    if (status == ST_OK)
        *source = made;
    return status;
}
