/* In: a relation whose columns are good. Out: whether its indexes make ids unique and pages cheap, or the
 * CREATE INDEX that does. Always: an index is good only where the planner takes it for every page. A crash
 * here is a crash at start. */
#include <stdio.h>
#include <string.h>

#include "source_private.h"
#include "store/sql.h"

enum { KEYS_MAX = 32 /* as Postgres */, SCOPE_MAX = 2, NAME_MAX = 64, COLUMNS_TEXT_MAX = 2 * 130 + 64 };

enum {
    INDEX_OID,
    INDEX_SQL,
    INDEX_UNIQUE,
    INDEX_VALID,
    INDEX_WHOLE,
    INDEX_BTREE,
    INDEX_NAME,
    INDEX_FALLING,
    INDEX_NULLS_FIRST,
    INDEX_PLAIN
};

/* One index: its rows in the result. */
struct index {
    const struct db_result *result;
    int row;
    size_t keys;
};

static bool index_is(const struct index *index, size_t key, int what)
{
    return db_result_bool(index->result, index->row + (int)key, what);
}

static bool index_key_is(const struct index *index, size_t key, const char *name)
{
    return key < index->keys &&
           span_is(db_result_text(index->result, index->row + (int)key, INDEX_NAME), name);
}

static bool index_next(struct index *index)
{
    int rows = db_result_rows(index->result);
    index->row += (int)index->keys;
    index->keys = 0;
    while (index->row + (int)index->keys < rows &&
           db_result_int8(index->result, index->row + (int)index->keys, INDEX_OID) ==
               db_result_int8(index->result, index->row, INDEX_OID))
        index->keys++;
    return index->keys > 0;
}

/* What keeps an index with the right columns from being of use; NULL: nothing. */
static const char *index_fault(const struct index *index, size_t keys)
{
    if (!index_is(index, 0, INDEX_BTREE))
        return "is no btree";
    if (!index_is(index, 0, INDEX_VALID))
        return "is not valid (a CREATE INDEX CONCURRENTLY that failed): drop it first";
    if (!index_is(index, 0, INDEX_WHOLE))
        return "is partial, and leaves rows out";
    for (size_t i = 0; i < keys; i++)
        if (!index_is(index, i, INDEX_PLAIN))
            return "has another collation or operator class than its columns";
    return NULL;
}

/* ---- the unique index ---------------------------------------------------------------------------------- */

/* On id alone; a partitioned table's must hold the partition's column too, and then the pair is what counts.
 */
static bool index_makes_unique(const struct source_checking *checking, const struct index *index)
{
    if (!index_is(index, 0, INDEX_UNIQUE))
        return false;
    if (index->keys == 1)
        return index_key_is(index, 0, "id");
    return checking->partitioned && index->keys == 2 &&
           ((index_key_is(index, 0, "id") && index_key_is(index, 1, "created_at")) ||
            (index_key_is(index, 0, "created_at") && index_key_is(index, 1, "id")));
}

/* ---- the index of the pages ---------------------------------------------------------------------------- */

struct scope {
    const char *columns[SCOPE_MAX]; /* as the catalog spells them */
    size_t count;
};

/* Leads with the scope's columns in any order, and then with the sort key: 2 its whole, 1 created_at alone.
 */
static int index_leads(const struct index *index, const struct scope *scope)
{
    for (size_t i = 0; i < scope->count; i++) {
        bool among = false;
        for (size_t j = 0; j < scope->count; j++)
            among = among || index_key_is(index, j, scope->columns[i]);
        if (!among)
            return 0;
    }
    if (!index_key_is(index, scope->count, "created_at"))
        return 0;
    return index_key_is(index, scope->count + 1, "id") ? 2 : 1;
}

/* The walk is ORDER BY created_at DESC, id DESC, or both ASC; the planner goes by where NULLs would stand. */
static bool index_walks(const struct index *index, size_t key)
{
    bool falling = index_is(index, key, INDEX_FALLING);
    return index_is(index, key + 1, INDEX_FALLING) == falling &&
           index_is(index, key, INDEX_NULLS_FIRST) == falling &&
           index_is(index, key + 1, INDEX_NULLS_FIRST) == falling;
}

/* All columns are among the keys, in an order that is of no use. */
static bool index_holds_all(const struct index *index, const struct scope *scope)
{
    size_t found = 0;
    for (size_t i = 0; i < index->keys; i++) {
        for (size_t j = 0; j < scope->count; j++)
            found += index_key_is(index, i, scope->columns[j]);
        found += index_key_is(index, i, "created_at") + (size_t)index_key_is(index, i, "id");
    }
    return found == scope->count + 2;
}

/* NULL: the index serves every page. "": it is another index altogether. Else why it does not. */
static const char *index_serves(const struct index *index, const struct scope *scope)
{
    int leads = index_leads(index, scope);
    if (leads == 0)
        return index_holds_all(index, scope) ? "has them in another order" : "";
    if (leads == 1)
        return "has no id behind created_at, which tells rows of one instant apart";
    if (!index_walks(index, scope->count))
        return "does not order created_at and id the same way, both DESC or both ASC with NULLs where they "
               "usually stand";
    return index_fault(index, scope->count + 2);
}

/* ---- all ----------------------------------------------------------------------------------------------- */

/* An index that came near, for the refusal. */
struct near_miss {
    struct span sql;
    const char *why; /* NULL: none did */
};

static enum status index_refuse(const struct source_checking *checking, const char *what,
                                const struct near_miss *near, const char *create, struct fault *fault)
{
    char missed[FAULT_TEXT_MAX / 2] = "";
    if (near->why != NULL)
        snprintf(missed, sizeof missed, " (index %.*s %s)", (int)near->sql.bytes, near->sql.at, near->why);
    return source_refuse(checking, "relation", fault, "no index %s%s. Run: CREATE %s", what, missed, create);
}

static enum status source_find_unique(const struct source_checking *checking, const struct db_result *result,
                                      struct fault *fault)
{
    char create[FAULT_TEXT_MAX / 2];
    struct near_miss near = {.why = NULL};
    struct index index = {.result = result};
    while (index_next(&index)) {
        const char *why = index_fault(&index, index.keys);
        if (!index_makes_unique(checking, &index))
            continue;
        if (why == NULL)
            return ST_OK;
        near = (struct near_miss){db_result_text(result, index.row, INDEX_SQL), why};
    }
    snprintf(create, sizeof create, "UNIQUE INDEX %sON %s (id%s)",
             checking->partitioned ? "" : "CONCURRENTLY ", checking->made->relation,
             checking->partitioned ? ", created_at" : "");
    return index_refuse(checking, "says that id is unique", &near, create, fault);
}

static enum status source_find_feed_index(const struct source_checking *checking,
                                          const struct db_result *result, struct fault *fault)
{
    const struct source_declaration *declared = checking->declared;
    struct scope scope = {.count = 0};
    char create[FAULT_TEXT_MAX / 2], columns[COLUMNS_TEXT_MAX] = "";
    struct near_miss near = {.why = NULL};
    struct index index = {.result = result};
    const char *const names[SCOPE_MAX] = {declared->workspace_column, declared->user_column};
    const char *const sql[SCOPE_MAX] = {checking->made->workspace, checking->made->recipient};
    for (size_t i = 0; i < SCOPE_MAX; i++) {
        if (names[i] == NULL)
            continue;
        scope.columns[scope.count++] = names[i];
        snprintf(columns + strlen(columns), sizeof columns - strlen(columns), "%s, ", sql[i]);
    }
    while (index_next(&index)) {
        const char *why = index_serves(&index, &scope);
        if (why == NULL)
            return ST_OK;
        if (why[0] != '\0')
            near = (struct near_miss){db_result_text(result, index.row, INDEX_SQL), why};
    }
    snprintf(create, sizeof create, "INDEX %sON %s (%screated_at DESC, id DESC)%s",
             checking->partitioned ? "" : "CONCURRENTLY ", checking->made->relation, columns,
             checking->partitioned ? " -- holds up who writes; CREATE INDEX ON ONLY is the way round" : "");
    return index_refuse(checking, "serves its pages", &near, create, fault);
}

enum status source_check_indexes(const struct source_checking *checking, struct fault *fault)
{
    static const struct db_statement statement = {"source_indexes", sql_source_indexes};
    struct db_params params;
    struct db_result *result = NULL;
    db_params_init(&params, sizeof checking->relation * 8);
    db_params_int8(&params, checking->relation);
    enum status status = db_run(checking->db, &statement, &params, &result, fault);
    db_params_done(&params);
    if (status == ST_OK)
        status = source_find_unique(checking, result, fault);
    if (status == ST_OK)
        status = source_find_feed_index(checking, result, fault);
    db_result_free(result);
    return status;
}
