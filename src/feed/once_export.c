/* In: the flags of `belfry-reader export`. Out: what /rows would give. Always: an export like any other,
 * counted among the user's and judged as over HTTP, filled here instead of by a serving reader, and deleted
 * at the end. A crash here leaves it to whoever takes exports; then it expires. */
#include <string.h>

#include "feed/export_text.h"
#include "feed/exporter.h"
#include "feed/exports.h"
#include "feed/reply.h"
#include "io/crypto.h"
#include "once.h"

enum { WAIT_MS = 1000, ANSWER_GRACE_MS = 5000, PIECE_BYTES_MAX = 2 * REPLY_BYTES_MAX };

/* One export on its way. */
struct once_export {
    struct once *once;
    struct exports_ask ask;
    struct export_lease lease;
    struct export_text text;
    struct buffer piece;
};

/* Waits for the answer of what was sent. Not the command line's fault, whatever the database says. */
static enum status once_wait(struct db *db, enum status sent, struct db_result **result, struct fault *fault)
{
    struct db_answer answer;
    if (sent != ST_OK)
        return sent == ST_REJECT ? ST_STOP : sent;
    while (!db_take(db, &answer))
        (void)db_wait(db, WAIT_MS);
    if (answer.status != ST_OK)
        *fault = answer.fault;
    else
        *result = answer.result;
    return answer.status == ST_REJECT ? ST_STOP : answer.status;
}

static enum status once_refuse(struct fault *fault, const char *code, const char *detail)
{
    fault_set(fault, code, "%s", detail);
    return ST_STOP;
}

static enum status once_order(struct once_export *e, struct fault *fault)
{
    struct export_asker asker;
    struct export export;
    struct db_result *result = NULL;
    struct export_order order =
        exports_make_order(&e->once->setup->settings->exports, e->once->feed->source, &e->ask);
    order.fill = true;
    order.owner = e->lease.owner;
    order.lease_ms = e->lease.lease_ms;
    enum status status =
        once_wait(e->once->db, export_create_send(e->once->db, &order, 0, fault), &result, fault);
    if (status != ST_OK)
        return status;
    export_open(result, 0, &asker, &export);
    status = exports_judge(order.source, &asker, fault);
    if (status == ST_OK && !export.found)
        status =
            once_refuse(fault, "too_many_exports", "the user has too many exports: delete some, or wait");
    if (status == ST_OK)
        e->ask.of.id = export.id;
    db_result_free(result);
    return status == ST_REJECT ? ST_STOP : status;
}

static enum status once_fill(struct once_export *e, struct fault *fault)
{
    const struct export_settings *settings = &e->once->setup->settings->exports;
    struct db *db = e->once->db;
    struct db_result *result = NULL;
    struct export_fill fill = {.statement = e->once->feed->fill,
                               .of = e->ask.of,
                               .lease = e->lease,
                               .rows_max = (int64_t)settings->rows_max,
                               .bytes_max = (int64_t)settings->bytes_max};
    db_patience(db, (int)settings->timeout_ms);
    enum status status = once_wait(db, export_fill_send(db, &fill, fault), &result, fault);
    db_patience(db, 0);
    if (status != ST_OK)
        return status;
    struct export_filled filled = export_filled_open(result);
    e->text.rows = filled.rows;
    if (!filled.mine)
        status = once_refuse(fault, "gone", "the export was deleted meanwhile");
    else if (!span_is(filled.state, "ready"))
        status =
            once_refuse(fault, "export_failed", "there is more than [exports] rows_max or bytes_max allow");
    db_result_free(result);
    return status;
}

static enum status once_read_range(struct once_export *e, struct fault *fault)
{
    struct db *db = e->once->db;
    struct db_result *result = NULL;
    struct export export;
    const struct export_range range = {
        .after = e->text.after, .rows_max = EXPORT_TEXT_ROWS, .bytes_max = EXPORT_TEXT_BYTES};
    buffer_reset(&e->piece);
    enum status status = once_wait(db, export_rows_send(db, &e->ask.of, &range, 0, fault), &result, fault);
    if (status == ST_OK)
        status = exports_judge_rows(&e->once->feeds, result, &export, fault);
    if (status == ST_OK)
        status = export_text_add(&e->text, result, &e->piece, fault);
    db_result_free(result);
    return status == ST_REJECT ? ST_STOP : status;
}

/* Best effort: what is left expires. */
static void once_delete(struct once_export *e)
{
    struct fault fault;
    struct db_result *result = NULL;
    const char *name = e->once->feed->source->name;
    const struct export_feeds open_feeds = {.names = &name,
                                            .count = e->once->feed->source->auth != SOURCE_MEMBER};
    struct db *db = e->once->db;
    (void)once_wait(db, export_delete_send(db, &e->ask.of, &open_feeds, 0, &fault), &result, &fault);
    db_result_free(result);
}

static enum status once_run(struct once_export *e, const struct feed_sink *sink, struct fault *fault)
{
    enum status status = once_order(e, fault);
    if (status != ST_OK)
        return status;
    status = once_fill(e, fault);
    do {
        if (status == ST_OK)
            status = once_read_range(e, fault);
        if (status == ST_OK)
            status = sink->write(sink->context, buffer_span(&e->piece), fault);
    } while (status == ST_OK && !export_text_is_whole(&e->text));
    once_delete(e);
    return status;
}

static enum status once_export(struct once *once, const struct feed_once *asked, const struct feed_sink *sink,
                               struct fault *fault)
{
    struct once_export e = {.once = once};
    const struct page_query query = {.statements = once->feed->statements};
    e.ask.of = (struct export_query){.workspace_id = asked->workspace, .user_id = asked->user};
    e.ask.format = asked->csv ? EXPORT_CSV : EXPORT_NDJSON;
    e.text = (struct export_text){.source = once->feed->source, .csv = asked->csv};
    e.lease = (struct export_lease){.lease_ms =
                                        once->setup->settings->exports.timeout_ms + EXPORTER_LEASE_MARGIN_MS,
                                    .life_ms = once->setup->settings->exports.keep_ms};
    crypto_random(&e.lease.owner, sizeof e.lease.owner);
    buffer_init(&e.piece, PIECE_BYTES_MAX);
    enum status status = exports_normalise(&query, &e.ask, fault);
    if (status == ST_OK && once->db == NULL)
        status = once_connect(once, fault);
    if (status == ST_OK)
        status = once_run(&e, sink, fault);
    buffer_done(&e.piece);
    return status;
}

enum status feed_export(const struct feed_setup *setup, const struct feed_once *asked,
                        const struct feed_sink *sink, struct fault *fault)
{
    struct feed_setup primary = *setup;
    struct once *once = once_new(&primary, fault);
    if (once == NULL)
        return ST_FATAL;
    if (setup->primary_uri != NULL)
        primary.database_uri = setup->primary_uri;
    primary.prepared_statements = false; /* export_fill_send */
    once->answer_timeout_ms = (int)setup->settings->exports.timeout_ms + ANSWER_GRACE_MS;
    enum status status = once_find(once, asked->feed, fault);
    if (status == ST_OK)
        status = once_scope(once->feed->source, asked, fault);
    if (status == ST_OK && once->feed->source->auth == SOURCE_OPEN)
        status = once_usage(fault, "feed", "an export is a user's, and this feed asks for none");
    if (status == ST_OK)
        status = once_export(once, asked, sink, fault);
    once_free(once);
    return status;
}
