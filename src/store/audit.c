/* Tables in, balances, queues and findings out. Always holds: nothing is written, everything between begin
 * and end is of one snapshot, and what is kept of a finding is bounded whatever its number. A crash leaves a
 * transaction that the server ends. */
#include "store/audit.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "store/sql.h"

enum { PARAMS_BYTES_MAX = 256 * 1024, PAGE_ROWS_MAX = 50 * 1000 };

const char *const audit_finding_names[AUDIT_KINDS] = {
    [AUDIT_DISPATCH_WITHOUT_NOTIFICATION] = "dispatch_without_notification",
    [AUDIT_SENT_WITHOUT_RECEIPT_BATCH] = "sent_without_receipt_batch",
    [AUDIT_QUEUED_WITHOUT_BATCH] = "queued_without_batch",
    [AUDIT_DEVICE_ON_WITH_REASON] = "device_on_with_reason",
    [AUDIT_DEVICE_OFF_WITHOUT_REASON] = "device_off_without_reason",
    [AUDIT_DEVICE_WITH_WRONG_HASH] = "device_with_wrong_hash",
    [AUDIT_KEY_WITHOUT_NOTIFICATION] = "key_without_notification",
    [AUDIT_NOTIFICATION_WITHOUT_KEY] = "notification_without_key",
    [AUDIT_NOTIFICATION_OF_ERASED] = "notification_of_erased",
    [AUDIT_DEVICE_OF_ERASED] = "device_of_erased",
};

static enum audit_kind kind_of(struct span name)
{
    size_t kind = 0;
    while (kind < AUDIT_KINDS && !span_is(name, audit_finding_names[kind]))
        kind++;
    assert(kind < AUDIT_KINDS); /* a statement and this table belong together */
    return (enum audit_kind)kind;
}

static void copy_text(char *to, size_t to_bytes, struct span from)
{
    (void)snprintf(to, to_bytes, "%.*s", (int)from.bytes, from.bytes == 0 ? "" : from.at);
}

/* count more of a kind, of which examples names some. */
static void note(struct audit_finding *finding, int64_t count, struct span examples)
{
    finding->count += count;
    size_t at = strlen(finding->examples);
    if (finding->named >= AUDIT_EXAMPLES_MAX || examples.bytes == 0 ||
        at + examples.bytes + 2 > sizeof finding->examples)
        return;
    (void)snprintf(finding->examples + at, sizeof finding->examples - at, "%s%.*s", at == 0 ? "" : " ",
                   (int)examples.bytes, examples.at);
    finding->named++;
}

static void note_id(struct audit_finding *finding, int64_t id)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%lld", (long long)id);
    note(finding, 1, span_of(text));
}

enum status audit_begin(struct db *db, int statement_max_ms, struct fault *fault)
{
    static const struct db_statement begin = {"audit_begin", sql_audit_begin};
    static const struct db_statement patience = {"audit_patience", sql_audit_patience};
    struct db_params params;
    enum status status = db_run(db, &begin, NULL, NULL, fault);
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_int4(&params, statement_max_ms);
    if (status == ST_OK)
        status = db_run(db, &patience, &params, NULL, fault);
    db_params_done(&params);
    return status;
}

enum status audit_end(struct db *db, struct fault *fault)
{
    static const struct db_statement statement = {"audit_end", sql_audit_end};
    return db_run(db, &statement, NULL, NULL, fault);
}

enum status audit_books(struct db *db, struct audit_report *report, struct fault *fault)
{
    static const struct db_statement statement = {"audit_books", sql_audit_books};
    struct db_result *result = NULL;
    enum status status = db_run(db, &statement, NULL, &result, fault);
    if (status != ST_OK)
        return status;
    assert(db_result_rows(result) <= AUDIT_BALANCES_MAX);
    report->balance_count = (size_t)db_result_rows(result);
    for (int row = 0; row < db_result_rows(result); row++) {
        struct audit_balance *balance = &report->balances[row];
        struct span detail = db_result_text(result, row, 4);
        copy_text(balance->name, sizeof balance->name, db_result_text(result, row, 0));
        balance->left = db_result_int8(result, row, 1);
        balance->right = db_result_int8(result, row, 2);
        balance->ok = db_result_bool(result, row, 3);
        if (detail.bytes < sizeof balance->detail)
            copy_text(balance->detail, sizeof balance->detail, detail);
    }
    db_result_free(result);
    return ST_OK;
}

enum status audit_queues(struct db *db, struct audit_report *report, struct fault *fault)
{
    static const struct db_statement statement = {"audit_queues", sql_audit_queues};
    struct db_result *result = NULL;
    enum status status = db_run(db, &statement, NULL, &result, fault);
    if (status != ST_OK)
        return status;
    assert(db_result_rows(result) <= AUDIT_QUEUES_MAX);
    report->queue_count = (size_t)db_result_rows(result);
    for (int row = 0; row < db_result_rows(result); row++) {
        struct audit_queue *queue = &report->queues[row];
        copy_text(queue->name, sizeof queue->name, db_result_text(result, row, 0));
        queue->items = db_result_int8(result, row, 1);
        queue->oldest_us = db_result_int8(result, row, 2);
    }
    db_result_free(result);
    return ST_OK;
}

static void note_suspect(struct audit_suspects *suspects, int64_t id)
{
    if (suspects->count < AUDIT_SUSPECTS_MAX)
        suspects->ids[suspects->count++] = id;
    else
        suspects->left_out++;
}

static void keep_older(int64_t *oldest_us, int64_t us)
{
    *oldest_us = us > *oldest_us ? us : *oldest_us;
}

enum status audit_dispatches(struct db *db, int64_t *after, bool *more, struct audit_report *report,
                             struct fault *fault)
{
    static const struct db_statement statement = {"audit_dispatches", sql_audit_dispatches};
    struct db_result *result = NULL;
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_int8(&params, *after);
    db_params_int4(&params, PAGE_ROWS_MAX);
    enum status status = db_run(db, &statement, &params, &result, fault);
    db_params_done(&params);
    if (status != ST_OK)
        return status;
    *more = false;
    for (int row = 0; row < db_result_rows(result); row++) {
        int64_t id = db_result_int8(result, row, 1);
        if (db_result_is_null(result, row, 0)) {
            *more = !db_result_is_null(result, row, 1);
            *after = *more ? id : *after;
            report->dispatches += db_result_int8(result, row, 2);
            keep_older(&report->queued_oldest_us, db_result_int8(result, row, 3));
            keep_older(&report->sent_oldest_us, db_result_int8(result, row, 4));
            continue;
        }
        enum audit_kind kind = kind_of(db_result_text(result, row, 0));
        if (kind == AUDIT_QUEUED_WITHOUT_BATCH)
            note_suspect(&report->suspects, id);
        else
            note_id(&report->findings[kind], id);
    }
    db_result_free(result);
    return ST_OK;
}

/* A statement whose rows are finding, how many, the first ones. retention_ms 0: it takes none. */
static enum status find(struct db *db, const struct db_statement *statement, int64_t retention_ms,
                        struct audit_report *report, struct fault *fault)
{
    struct db_result *result = NULL;
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_int4(&params, AUDIT_EXAMPLES_MAX);
    if (retention_ms > 0)
        db_params_int8(&params, retention_ms);
    enum status status = db_run(db, statement, &params, &result, fault);
    db_params_done(&params);
    if (status != ST_OK)
        return status;
    for (int row = 0; row < db_result_rows(result); row++)
        note(&report->findings[kind_of(db_result_text(result, row, 0))], db_result_int8(result, row, 1),
             db_result_text(result, row, 2));
    db_result_free(result);
    return ST_OK;
}

enum status audit_devices(struct db *db, struct audit_report *report, struct fault *fault)
{
    static const struct db_statement statement = {"audit_devices", sql_audit_devices};
    return find(db, &statement, 0, report, fault);
}

enum status audit_erased(struct db *db, struct audit_report *report, struct fault *fault)
{
    static const struct db_statement statement = {"audit_erased", sql_audit_erased};
    return find(db, &statement, 0, report, fault);
}

enum status audit_keys(struct db *db, int64_t retention_ms, struct audit_report *report, struct fault *fault)
{
    static const struct db_statement statement = {"audit_keys", sql_audit_keys};
    return find(db, &statement, retention_ms, report, fault);
}

enum status audit_still_queued(struct db *db, struct audit_report *report, struct fault *fault)
{
    static const struct db_statement statement = {"audit_still_queued", sql_audit_still_queued};
    struct db_result *result = NULL;
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_begin(&params, DB_INT8);
    for (size_t i = 0; i < report->suspects.count; i++)
        db_params_int8(&params, report->suspects.ids[i]);
    db_params_end(&params);
    enum status status = db_run(db, &statement, &params, &result, fault);
    db_params_done(&params);
    if (status != ST_OK)
        return status;
    for (int row = 0; row < db_result_rows(result); row++)
        note_id(&report->findings[AUDIT_QUEUED_WITHOUT_BATCH], db_result_int8(result, row, 0));
    db_result_free(result);
    return ST_OK;
}

int audit_found(const struct audit_report *report)
{
    int found = 0;
    for (size_t i = 0; i < report->balance_count; i++)
        found += report->balances[i].ok ? 0 : 1;
    for (size_t i = 0; i < AUDIT_KINDS; i++)
        found += report->findings[i].count > 0 ? 1 : 0;
    return found;
}
